"""Values compare, hash and are replaced like the frozen dataclasses that they are to a type checker."""

from dataclasses import fields, replace

import pytest

from gateway.contract.values import value


@value(frozen=True, slots=True, kw_only=True)
class _Point:
    x: int
    y: int = 0


def test_values_are_equal_and_hashed_by_what_they_hold() -> None:
    assert {_Point(x=1), _Point(x=1, y=0), _Point(x=2)} == {_Point(x=1), _Point(x=2)}


def test_value_is_replaced_by_another_and_stays_as_it_was() -> None:
    first = _Point(x=1)
    assert (replace(first, y=2), first) == (_Point(x=1, y=2), _Point(x=1))
    assert [field.name for field in fields(_Point)] == ["x", "y"]


def test_value_has_room_for_nothing_but_its_fields() -> None:
    with pytest.raises(AttributeError):
        setattr(_Point(x=1), "z", 1)  # noqa: B010 - a type checker would not let it pass

"""The limits of a kind are read from its table, whole or not at all."""

from typing import Any

import pytest

from gateway.contract.kind_limits import KindLimits, read


def test_a_kind_says_only_what_differs_and_keys_of_others_are_passed_over() -> None:
    kinds = {"logs": {"max_body_bytes": "4MiB", "max_attempts": 1, "owner": "ana"}, "plain": {"owner": "bo"}}
    assert read(kinds) == {"logs": KindLimits(max_body_bytes=4 << 20)}


def test_every_mistake_is_named_with_its_place() -> None:
    kinds: dict[str, Any] = {
        "A B": {},
        "a": 1,
        "b": {"max_tokens": 0, "max_attachments": True, "max_body_bytes": "much"},
        "c": {"max_body_bytes": 0, "max_attachments": -1, "max_tokens": "9"},
        "d": {"max_attachments": 0},
    }
    with pytest.raises(ValueError, match="kinds") as refused:
        read(kinds)
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == [
        'kinds."A B" is no kind',
        'kinds."a" is no table',
        'kinds."b".max_attachments',
        'kinds."b".max_body_bytes',
        'kinds."b".max_tokens',
        'kinds."c".max_attachments',
        'kinds."c".max_body_bytes',
        'kinds."c".max_tokens',
    ]

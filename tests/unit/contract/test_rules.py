"""Which rules may be softened, and how a table of their modes is read: whole or not at all."""

import pytest

from gateway.contract.kind_limits import read as read_kinds
from gateway.contract.rules import DEFAULTS, SOFT, Mode, Rule, read, softer


def test_every_soft_rule_takes_every_mode() -> None:
    for mode in Mode:
        assert read({rule.value: mode.value for rule in SOFT}) == dict.fromkeys(SOFT, mode)


@pytest.mark.parametrize("rule", sorted(set(Rule) - SOFT))
@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_what_protects_the_door_or_leaves_no_ticket_is_always_enforced(rule: Rule, mode: Mode) -> None:
    with pytest.raises(ValueError, match=f"^{rule}: .*always enforced$"):
        read({rule.value: mode.value})
    assert read({rule.value: "enforce"}) == {rule: Mode.ENFORCE}
    assert DEFAULTS[rule] is Mode.ENFORCE


def test_an_unknown_rule_or_mode_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="rule") as refused:
        read({"too_long": "off", "lossy_text": "warn", "unknown_member": True, "attachment_type": "off"})
    lines = str(refused.value).splitlines()
    assert [line.split()[0] for line in lines] == ["too_long", "lossy_text:", "unknown_member:"]
    assert all(rule.value in lines[0] for rule in Rule)
    assert lines[1:] == [f"{name}: write off, observe, enforce" for name in ("lossy_text", "unknown_member")]


def test_a_kind_has_modes_of_its_own_and_every_mistake_in_them_is_told() -> None:
    assert read_kinds({"a": {"rules": {"lossy_text": "off"}, "private": True}})["a"].rules == {
        Rule.LOSSY_TEXT: Mode.OFF
    }
    with pytest.raises(ValueError, match="kinds") as refused:
        read_kinds({"a": {"rules": {"x": "off", "empty": "off"}, "private": "yes"}, "b": {"rules": "off"}})
    assert [line.partition(" ")[0].partition(":")[0] for line in str(refused.value).splitlines()] == [
        'kinds."a".private',
        'kinds."a".rules',
        'kinds."a".rules',
        'kinds."b".rules',
    ]


def test_of_two_modes_the_one_that_lets_more_in_is_softer() -> None:
    assert softer(Mode.ENFORCE, Mode.OBSERVE) is softer(Mode.OBSERVE, Mode.ENFORCE) is Mode.OBSERVE
    assert softer(Mode.OBSERVE, Mode.OFF) is softer(Mode.OFF, Mode.ENFORCE) is Mode.OFF

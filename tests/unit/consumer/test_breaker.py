"""When items that need a dependency may start (C11): who opens a breaker, tries it, closes it, who is to blame."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from consumer.breaker import Breaker, Rules, State

RULES = Rules()
PAUSED = 30.0


def opened(*, now: float = 0.0, after: float = 0.0) -> Breaker:
    breaker = Breaker(RULES)
    for item in "abc":
        breaker.say_down(item, "k", after=after, now=now, jitter=0.0)
    assert breaker.state is State.OPEN
    return breaker


def probing(*, now: float = PAUSED) -> Breaker:
    breaker = opened()
    assert breaker.may_start(fit=True, now=now)
    assert breaker.start()
    return breaker


def closed_again(*, now: float = PAUSED) -> Breaker:
    breaker = probing(now=now)
    breaker.succeed("probe", now=now, probe=True)
    return breaker


# Opening


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0, 40)), max_size=30))
def test_it_opens_when_enough_different_items_say_so_within_the_window_and_never_else(
    says: list[tuple[str, float]],
) -> None:
    breaker, now, last = Breaker(RULES), 0.0, dict[str, float]()
    for item, pause in says:
        now += pause
        last[item] = now
        breaker.say_down(item, "k", after=0.0, now=now, jitter=0.0)
        enough = sum(now - moment <= RULES.within for moment in last.values()) >= RULES.items
        assert (breaker.state is State.OPEN) is enough
        if enough:
            return


def test_one_item_alone_never_opens_it() -> None:
    breaker = Breaker(RULES)
    for turn in range(100):
        breaker.say_down("a", "k", after=0.0, now=float(turn), jitter=0.0)
    assert breaker.state is State.CLOSED
    assert breaker.may_start(fit=False, now=100.0)
    assert breaker.start() is False


# While it is open


def test_nobody_starts_before_its_time_is_over_and_then_one() -> None:
    breaker = opened()
    assert not breaker.may_start(fit=True, now=PAUSED - 0.1)
    assert breaker.may_start(fit=True, now=PAUSED)
    assert breaker.start()
    assert (breaker.state, breaker.may_start(fit=True, now=PAUSED + 1e6)) == (State.HALF_OPEN, False)
    with pytest.raises(AssertionError, match="two probes"):
        breaker.start()


def test_it_is_not_tried_before_the_moment_that_a_handler_asked_for_within_reason() -> None:
    assert opened(after=120.0).until == 120.0
    assert opened(after=1e9).until == RULES.after_cap
    breaker = opened()
    breaker.say_down("d", "k", after=200.0, now=10.0, jitter=0.0)
    assert breaker.until == 210.0


def test_what_was_asked_for_long_ago_does_not_count() -> None:
    breaker = Breaker(RULES)
    breaker.say_down("z", "k", after=3600.0, now=0.0, jitter=0.0)
    for item in "abc":
        breaker.say_down(item, "k", after=0.0, now=100.0, jitter=0.0)
    assert breaker.until == 130.0


def test_a_suspect_tries_only_when_nobody_else_has_come_for_another_pause() -> None:
    breaker = opened()
    assert not breaker.may_start(fit=False, now=PAUSED * 2 - 0.1)
    assert breaker.may_start(fit=False, now=PAUSED * 2)


def test_one_of_the_held_is_back_for_the_probe_and_the_others_spread_over_as_long_as_it_was_down() -> None:
    breaker = opened(after=600.0)
    assert breaker.hold(fit=True, now=100.0, jitter=0.9, said_so=True) == 500.0 + 0.9 * 600.0
    assert breaker.hold(fit=False, now=100.0, jitter=0.5) == 500.0 + PAUSED + 0.5 * 630.0
    assert breaker.hold(fit=True, now=100.0, jitter=0.5) == 500.0
    delays = [breaker.hold(fit=True, now=100.0, jitter=step / 200) for step in range(200)]
    assert min(delays) == 500.0
    gaps = [later - earlier for earlier, later in pairwise(delays)]
    assert gaps == pytest.approx([3.0] * 199)


def test_what_is_held_while_the_probe_runs_comes_back_spread_from_now_on() -> None:
    breaker = probing(now=50.0)
    assert breaker.hold(fit=True, now=50.0, jitter=0.5) == 25.0


def test_the_spread_has_an_end() -> None:
    breaker = probing(now=1e6)
    assert breaker.hold(fit=True, now=1e6, jitter=0.5) == RULES.spread_cap / 2


# The probe


def test_its_success_closes_the_breaker_and_nobody_elses() -> None:
    breaker = probing()
    breaker.succeed("straggler", now=31.0)
    assert breaker.state is State.HALF_OPEN
    breaker.succeed("probe", now=32.0, probe=True)
    assert (breaker.state, breaker.may_start(fit=False, now=32.0)) == (State.CLOSED, True)


def test_each_probe_that_finds_it_down_doubles_the_pause_up_to_a_cap() -> None:
    breaker, pauses = probing(), []
    for _ in range(6):
        now = breaker.until
        breaker.say_down("p", "k", after=0.0, now=now, jitter=0.0, probe=True)
        pauses.append(breaker.until - now)
        assert breaker.state is State.OPEN
        assert breaker.may_start(fit=True, now=breaker.until)
        breaker.start()
    assert pauses == [60.0, 120.0, 240.0, 300.0, 300.0, 300.0]


def test_a_probe_that_ends_without_a_word_lets_the_next_one_try() -> None:
    breaker = probing()
    breaker.give_up()
    assert breaker.state is State.HALF_OPEN
    assert breaker.may_start(fit=True, now=31.0)
    assert breaker.start()
    assert not breaker.may_start(fit=True, now=31.0)


def test_a_straggler_that_says_so_during_the_probe_neither_opens_nor_ends_it() -> None:
    breaker = probing()
    breaker.say_down("straggler", "k", after=0.0, now=31.0, jitter=0.0)
    assert breaker.state is State.HALF_OPEN
    assert not breaker.may_start(fit=True, now=1000.0)


def test_a_breaker_that_opens_again_at_once_goes_on_where_it_was() -> None:
    breaker = closed_again(now=40.0)
    for item in "def":
        breaker.say_down(item, "k", after=0.0, now=50.0, jitter=0.0)
    assert breaker.until == 50.0 + 2 * PAUSED
    assert breaker.hold(fit=True, now=50.0, jitter=0.5, said_so=True) == 60.0 + 0.5 * 110.0


def test_a_breaker_that_opens_again_later_begins_anew() -> None:
    breaker = closed_again(now=40.0)
    for item in "def":
        breaker.say_down(item, "k", after=0.0, now=1000.0, jitter=0.0)
    assert breaker.until == 1000.0 + PAUSED


@pytest.mark.parametrize(
    ("jitter", "share"), [(0.0, 1.0), (0.5, 2 / 3), (1.0, 1 / 3)], ids=["longest", "mean", "least"]
)
def test_the_pauses_of_nodes_differ_by_more_than_a_doubling(jitter: float, share: float) -> None:
    breaker = Breaker(RULES)
    for item in "abc":
        breaker.say_down(item, "k", after=0.0, now=0.0, jitter=jitter)
    assert breaker.until == pytest.approx(PAUSED * share)


# Who is to blame


def said(breaker: Breaker, item: str, now: float) -> bool:
    return breaker.say_down(item, "k", after=0.0, now=now, jitter=0.0)


def test_who_says_so_again_and_again_while_its_peers_succeed_is_to_blame() -> None:
    breaker = Breaker(RULES)
    assert [said(breaker, "liar", 10.0), said(breaker, "liar", 20.0)] == [False, False]
    for peer in "abc":
        breaker.succeed(peer, now=25.0)
    assert said(breaker, "liar", 30.0)
    assert not said(breaker, "liar", 40.0)  # nobody has succeeded since
    for peer in "abc":
        breaker.succeed(peer, now=45.0)
    assert said(breaker, "liar", 50.0)


def test_nobody_is_to_blame_with_too_few_peers_or_while_the_breaker_is_open() -> None:
    breaker = Breaker(RULES)
    for now in (10.0, 20.0, 30.0):
        for peer in "ab":
            breaker.succeed(peer, now=now - 1)
            breaker.succeed(peer, now=now - 1)
        assert not said(breaker, "liar", now)
    for peer in "abc":
        breaker.succeed(peer, now=31.0)
    assert [said(breaker, item, 32.0) for item in "xyz"] == [False] * 3
    assert breaker.state is State.OPEN
    assert not said(breaker, "liar", 33.0)


def test_its_own_success_clears_it() -> None:
    breaker = Breaker(RULES)
    for now in (10.0, 20.0):
        said(breaker, "honest", now)
    breaker.succeed("honest", now=21.0)
    for peer in "abc":
        breaker.succeed(peer, now=22.0)
    assert not said(breaker, "honest", 30.0)


def test_the_word_of_who_is_to_blame_opens_nothing() -> None:
    breaker = Breaker(Rules(items=2))
    for now in (10.0, 100.0):
        said(breaker, "liar", now)
    for peer in "ab":
        breaker.succeed(peer, now=101.0)
    said(breaker, "x", 200.0)
    assert said(breaker, "liar", 201.0)
    assert breaker.state is State.CLOSED


# Which kinds need it


def test_a_kind_is_forgotten_when_nobody_has_said_so_for_long_but_never_while_it_is_down() -> None:
    breaker = Breaker(RULES)
    said(breaker, "a", 0.0)
    assert breaker.is_needed_by("k", RULES.memory - 1)
    assert not breaker.is_needed_by("k", RULES.memory)
    assert not breaker.is_needed_by("other", 0.0)
    assert opened().is_needed_by("k", 1e6)


def test_it_is_idle_when_closed_and_nobody_has_said_so_for_long() -> None:
    breaker = Breaker(RULES)
    said(breaker, "a", 0.0)
    assert not breaker.is_idle(RULES.memory - 1)
    assert breaker.is_idle(RULES.memory)
    assert not opened().is_idle(1e6)


def test_its_memory_is_bounded() -> None:
    breaker = Breaker(RULES)
    for number in range(3000):
        breaker.say_down("same", f"kind-{number}", after=0.0, now=0.0, jitter=0.0)
        breaker.succeed(f"item-{number}", now=0.0)
    assert [breaker.is_needed_by(f"kind-{number}", 0.0) for number in (2935, 2936, 2999)] == [False, True, True]


# Whatever happens


@dataclass
class Running:
    """Runs under way, by item; True for the probe."""

    items: dict[str, bool] = field(default_factory=dict)


class Whatever(RuleBasedStateMachine):
    """Items come, run and end in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker, self.now, self.running = Breaker(RULES), 0.0, Running()

    @rule(seconds=st.floats(0, 400))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(item=st.sampled_from("abcdefgh"), fit=st.booleans(), jitter=st.floats(0, 0.99))
    def arrives(self, item: str, fit: bool, jitter: float) -> None:  # noqa: FBT001  a drawn value
        if item in self.running.items:
            return
        before = self.breaker.state
        if self.breaker.may_start(fit=fit, now=self.now):
            self.running.items[item] = self.breaker.start()
            assert self.running.items[item] is (before is not State.CLOSED)
        else:
            assert before is not State.CLOSED
            most = max(RULES.pause_cap * 1.25, RULES.after_cap) + RULES.pause_cap + RULES.spread_cap
            assert 0 <= self.breaker.hold(fit=fit, now=self.now, jitter=jitter) <= most

    @precondition(lambda self: self.running.items)
    @rule(data=st.data(), after=st.floats(0, 1e5), jitter=st.floats(0, 0.99))
    def says_so(self, data: st.DataObject, after: float, jitter: float) -> None:
        item, probe = self._end(data)
        before = self.breaker.state
        to_blame = self.breaker.say_down(item, "k", after=after, now=self.now, jitter=jitter, probe=probe)
        assert not (to_blame and self.breaker.state is not State.CLOSED)
        if probe:
            assert self.breaker.state is State.OPEN
        elif before is not State.CLOSED:
            assert self.breaker.state is before

    @precondition(lambda self: self.running.items)
    @rule(data=st.data())
    def succeeds(self, data: st.DataObject) -> None:
        item, probe = self._end(data)
        before = self.breaker.state
        self.breaker.succeed(item, now=self.now, probe=probe)
        assert self.breaker.state is (State.CLOSED if probe else before)

    @precondition(lambda self: self.running.items)
    @rule(data=st.data())
    def ends_otherwise(self, data: st.DataObject) -> None:
        _, probe = self._end(data)
        before = self.breaker.state
        if probe:
            self.breaker.give_up()
        assert self.breaker.state is before

    def _end(self, data: st.DataObject) -> tuple[str, bool]:
        item = data.draw(st.sampled_from(sorted(self.running.items)))
        return item, self.running.items.pop(item)

    @invariant()
    def there_is_one_probe_at_most(self) -> None:
        probes = sum(self.running.items.values())
        assert probes <= (self.breaker.state is State.HALF_OPEN)
        if probes:
            assert not self.breaker.may_start(fit=True, now=self.now + 1e9)

    @invariant()
    def an_open_one_has_a_next_probe_within_reason(self) -> None:
        if self.breaker.state is State.CLOSED:
            return
        assert self.breaker.until <= self.now + max(RULES.pause_cap * 1.25, RULES.after_cap)
        if not any(self.running.items.values()):
            assert self.breaker.may_start(fit=True, now=max(self.now, self.breaker.until))
            assert self.breaker.may_start(fit=False, now=self.now + RULES.after_cap + RULES.pause_cap)


TestWhateverHappens = Whatever.TestCase

"""Many more refusals than usual are a surge, told once for each rule and window."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.journal import Event, EventName
from gateway.station import figures, ledger
from gateway.station.refusal_watch import RefusalWatch
from gateway.station.store import Store
from gateway.station.surge import BASELINE, Surge, Threshold, surges
from tests.support.waiting import soon
from tests.unit.station.hearing import Heard, sending

RULE = Threshold(window=300.0, least=10, factor=3.0)
NOW = 100 * 300.0 + 17


def _ago(windows: int) -> float:
    return NOW - windows * 300.0


def test_what_was_never_refused_before_surges_at_the_least_number() -> None:
    assert surges([("nul", NOW, 9)], RULE, NOW) == []
    assert surges([("nul", NOW, 9), ("nul", NOW, 1)], RULE, NOW) == [
        Surge(rule="nul", window=30_000.0, count=10, usual=0.0)
    ]


def test_what_is_usual_is_no_surge_until_it_is_many_times_as_much() -> None:
    usual = [("nul", _ago(windows), 10) for windows in range(1, BASELINE + 1)]
    assert surges([*usual, ("nul", NOW, 29)], RULE, NOW) == []
    assert [one.count for one in surges([*usual, ("nul", NOW, 30)], RULE, NOW)] == [30]


def test_what_is_long_past_or_still_to_come_does_not_count() -> None:
    elsewhere = [("nul", _ago(BASELINE + 1), 900), ("nul", NOW + 300, 900)]
    assert surges([*elsewhere, ("nul", NOW, 10)], RULE, NOW)[0].usual == 0.0
    assert surges(elsewhere, RULE, NOW) == []


def test_a_threshold_of_none_tells_nobody() -> None:
    assert surges([("nul", NOW, 10**6)], Threshold(window=60, least=0, factor=1), NOW) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 60_000), st.integers(1, 50)), max_size=50))
def test_no_surge_is_below_its_threshold_and_order_changes_nothing(counts: list[tuple[str, float, int]]) -> None:
    found = surges(counts, RULE, NOW)
    assert found == surges(list(reversed(counts)), RULE, NOW)
    for surge in found:
        assert surge.count >= max(RULE.least, RULE.factor * surge.usual)
        assert surge.window <= NOW < surge.window + RULE.window


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


def _refused(number: int, at: float, rule: str = "too_many_tokens") -> list[Event]:
    data = {"violations": [{"rule": rule}, {"rule": rule}, {"rule": "of tomorrow"}], "client": "c"}
    return [
        Event(event=EventName.REFUSED, at=at, ticket=f"r{one}", kind="k", node="door", data=data)
        for one in range(number)
    ]


async def _post(store: Store, events: list[Event]) -> None:
    async with store.writing() as transaction:
        await ledger.post(transaction, events)


async def test_a_surge_is_one_alert_for_each_rule_window_and_channel(store: Store) -> None:
    clock = [NOW]
    watch = RefusalWatch(store=store, channels=["log", "mail"], threshold=RULE, clock=lambda: clock[0])
    batch = _refused(12, NOW)
    await _post(store, batch)
    await _post(store, batch)  # a batch that was stored and not acknowledged comes again
    first = await watch.look()
    assert [(one.rule, one.count) for one in first] == [("too_many_tokens", 12)]
    await _post(store, _refused(30, NOW))
    assert await watch.look() == []
    clock[0] += RULE.window
    assert await watch.look() == []
    await _post(store, _refused(40, clock[0]))
    assert [one.usual for one in await watch.look()] == [42 / BASELINE]

    counted = figures.render(await figures.count(store)).decode()
    assert 'lazaretto_refusals_total{rule="too_many_tokens"} 82.0' in counted
    assert 'lazaretto_refusal_surges_total{rule="too_many_tokens"} 2.0' in counted
    assert "tomorrow" not in counted


async def test_a_surge_reaches_every_channel_once_though_the_station_begins_anew(store: Store) -> None:
    channel = Heard("log")
    await _post(store, _refused(12, NOW))
    for _ in range(2):
        await RefusalWatch(store=store, channels=["log"], threshold=RULE, clock=lambda: NOW).look()
    async with sending(store, channel):
        await soon(lambda: channel.notices, saying="the alert is out")
    async with sending(store, channel):
        pass
    [notice] = channel.notices
    told = {name: notice.fields[name] for name in ("rule", "count", "usual", "since", "dedup_key")}
    assert told == {
        "rule": "too_many_tokens",
        "count": 12,
        "usual": 0.0,
        "since": 30_000.0,
        "dedup_key": "lazaretto:refusals.surged:too_many_tokens:30000",
    }
    assert "12 requests were refused for too_many_tokens" in notice.text

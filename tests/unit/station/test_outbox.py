"""Every channel gets its alerts at its own pace, and no alert keeps another one from being sent."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.station import figures, tallying
from gateway.station.channels import Manner
from gateway.station.dossier import Alert, count_items, find
from gateway.station.holding import AlertEvent, ItemState
from gateway.station.outbox import BATCH
from gateway.station.pace import Rate
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from gateway.station.tables.items import items
from tests.support.waiting import soon
from tests.unit.station.hearing import Heard, Shown, sending
from tests.unit.station.items import discard, take_in


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


async def _change(store: Store, ticket: str, **values: Any) -> None:
    async with store.writing() as transaction:
        await transaction.execute(sa.update(alerts).filter_by(ticket=ticket).values(**values))


async def _alerts(store: Store, ticket: str) -> Sequence[Alert]:
    found = await find(store, ticket)
    assert found is not None
    return found.alerts


async def test_a_slow_channel_keeps_no_other_one_waiting(store: Store) -> None:
    slow, quick = Heard("slow"), Heard("quick")
    slow.open.clear()
    await take_in(store, ["slow", "quick"], "1", "2")
    async with sending(store, slow, quick):
        await soon(lambda: slow.asked)
        await soon(lambda: quick.tickets == ["1", "2"])
        await take_in(store, ["slow", "quick"], "3")
        await soon(lambda: quick.tickets == ["1", "2", "3"])
        assert slow.tickets == []
        slow.open.set()
        await soon(lambda: slow.tickets == ["1", "2", "3"])


async def test_what_is_owed_to_a_dead_channel_fills_nobody_elses_batch(store: Store) -> None:
    dead, alive = Heard("dead", refuses=lambda _: True), Heard("alive")
    await take_in(store, ["dead"], *(f"old-{number}" for number in range(2 * BATCH)))
    await take_in(store, ["dead", "alive"], "new")
    async with sending(store, dead, alive):
        await soon(lambda: alive.tickets == ["new"])


async def test_an_alert_that_failed_thousands_of_times_is_still_tried(store: Store) -> None:
    picky = Heard("picky", refuses=lambda notice: notice.fields["ticket"] == "hopeless")
    await take_in(store, ["picky"], "hopeless", "other")
    await _change(store, "hopeless", tries=5000, due_at=0.0)
    async with sending(store, picky):
        await soon(lambda: picky.tickets == ["other"])
    (alert,) = await _alerts(store, "hopeless")
    assert (alert.tries, alert.sent_at, alert.last_error) == (5001, None, "no")


async def test_an_alert_that_cannot_be_worded_keeps_no_other_one_from_being_sent(store: Store) -> None:
    channel = Heard("channel")
    await take_in(store, ["channel"], "odd", "other")
    await _change(store, "odd", event="of a newer version", due_at=0.0)
    async with sending(store, channel):
        await soon(lambda: channel.tickets == ["other"])


async def test_nothing_is_owed_to_a_channel_that_is_configured_no_more_until_it_is_back(store: Store) -> None:
    gone, kept = Heard("gone"), Heard("kept")
    await take_in(store, ["gone", "kept"], "1")
    async with sending(store, kept):
        await soon(lambda: kept.tickets == ["1"])
    await soon(lambda: _none_is_owed(store, "1"))
    assert (await figures.count(store)).lag_seconds == 0
    assert [alert.channel for alert in await _alerts(store, "1") if alert.retired_at] == ["gone"]

    await discard(store, "1")
    assert {alert.channel for alert in await _alerts(store, "1") if alert.event == "item.resolved"} == {"kept"}

    async with sending(store, kept, gone):
        await soon(lambda: gone.tickets == ["1"])


async def _none_is_owed(store: Store, ticket: str) -> bool:
    return all(alert.sent_at or alert.retired_at for alert in await _alerts(store, ticket))


async def test_five_hundred_in_a_burst_are_few_messages_that_name_and_count_them_all(store: Store) -> None:
    people = Heard("people", manner=Manner.FEW)
    rate = Rate(most=5, span=5.0)
    async with sending(store, people, rate=rate):
        await take_in(store, ["people"], "first")
        await soon(lambda: people.tickets == ["first"])
        for part in range(20):
            names = [f"t-{part}-{number}" for number in range(25)]
            await take_in(store, ["people"], *names)
        await soon(lambda: _told(people) == 501, 120)
    rolled = [notice for notice in people.notices if "told" in notice.fields]
    assert len(people.notices) < 100
    assert all(notice.event is AlertEvent.QUARANTINED for notice in rolled)
    assert "t-0-0" in rolled[0].text
    assert await _none_is_owed(store, "t-19-24")
    assert (await count_items(store, [ItemState.HELD])).number == 501


async def test_a_message_of_many_that_failed_is_sent_again_with_all_of_them(store: Store) -> None:
    failing = [True]
    people = Heard("people", refuses=lambda _: failing[0], manner=Manner.FEW)
    await take_in(store, ["people"], *(f"t-{number}" for number in range(20)))
    async with sending(store, people, rate=Rate(most=0, span=1.0)):
        await soon(lambda: people.asked)
        failing[0] = False
        await soon(lambda: _told(people) == 20)
    (alert,) = await _alerts(store, "t-3")
    assert alert.sent_at is not None
    assert alert.tries == 2


async def test_what_may_be_sent_at_once_is_sent_in_order_and_a_failure_in_its_midst_is_that_alerts_alone(
    store: Store,
) -> None:
    names = [f"{number:03}" for number in range(150)]
    channel = Heard("channel", refuses=lambda notice: notice.fields["ticket"] == "070", at_once=64)
    await take_in(store, ["channel"], *names)
    async with sending(store, channel):
        await soon(lambda: len(channel.notices) == 149, 60)
    assert channel.tickets == [name for name in names if name != "070"]
    assert await _none_is_owed(store, "149")
    (failed,) = await _alerts(store, "070")
    assert failed.tries
    assert (failed.sent_at, failed.last_error) == (None, "no")


async def test_where_nobody_takes_the_first_one_no_other_is_tried(store: Store) -> None:
    channel = Heard("channel", refuses=lambda _: True, at_once=64)
    await take_in(store, ["channel"], "1", "2", "3")
    channel.open.clear()
    async with sending(store, channel):
        await soon(lambda: channel.asked, 60)
        assert channel.asked == 1
    assert [(await _alerts(store, ticket))[0].tries for ticket in ("1", "2", "3")] == [1, 0, 0]


async def test_that_an_item_is_decided_is_never_told_before_the_item(store: Store) -> None:
    refusing = [True]
    channel = Heard("channel", refuses=lambda notice: refusing[0] and notice.event is AlertEvent.QUARANTINED)
    await take_in(store, ["channel"], "1")
    await discard(store, "1")
    async with sending(store, channel):
        await soon(lambda: channel.asked)
        refusing[0] = False
        await _change(store, "1", due_at=0.0)
        await soon(lambda: len(channel.notices) == 2)
    assert [notice.event for notice in channel.notices] == [AlertEvent.QUARANTINED, AlertEvent.RESOLVED]
    assert {notice.key for notice in channel.notices} == {"lazaretto:1:0"}


async def test_a_decision_after_a_restored_one_is_told_and_no_counter_falls(store: Store) -> None:
    channel = Heard("channel")
    await take_in(store, ["channel"], "1")
    async with sending(store, channel):
        await discard(store, "1")
        await soon(lambda: len(channel.notices) == 2)
        async with store.writing() as transaction:
            await transaction.execute(sa.update(items).values(state="held", decided_at=None, decided_by=None))
        await discard(store, "1")
        await soon(lambda: len(channel.notices) == 3)
        await soon(lambda: _none_is_owed(store, "1"))
    counted = await figures.count(store)
    assert counted.kept[tallying.SENT] == {"channel": 3}
    assert tallying.FAILED not in counted.kept


async def test_a_message_of_many_tells_no_end_of_what_waits_again(store: Store) -> None:
    people = Heard("people", manner=Manner.FEW)
    await take_in(store, ["people"], "restored", "decided")
    async with sending(store, people):
        await soon(lambda: len(people.notices) == 2)
    await discard(store, "restored")
    await discard(store, "decided")
    async with store.writing() as transaction:
        held = {"state": "held", "decided_at": None, "decided_by": None}
        await transaction.execute(sa.update(items).filter_by(ticket="restored").values(**held))
    async with sending(store, people, rate=Rate(most=0, span=1.0)):
        await soon(lambda: len(people.notices) == 3)
        await soon(lambda: _none_is_owed(store, "restored"))
        assert (people.notices[2].fields["told"], "restored" in people.notices[2].text) == (1, False)
        await discard(store, "restored")
        await soon(lambda: len(people.notices) == 4)
    assert "1 ticket is out of quarantine: 1 support.ticket (rejected): restored" in people.notices[3].text


async def test_a_message_of_many_tells_no_end_before_the_item(store: Store) -> None:
    people = Heard("people", manner=Manner.FEW)
    await take_in(store, ["people"], "1", "2")
    await discard(store, "1")
    await _change(store, "2", due_at=0.0)
    async with store.writing() as transaction:  # its first try has failed, and is put off
        later = sa.update(alerts).filter_by(ticket="1", event="item.quarantined").values(due_at=9e9)
        await transaction.execute(later)
    async with sending(store, people, rate=Rate(most=0, span=1.0)):
        await soon(lambda: people.notices)
        assert people.notices[0].fields["told"] == 1
        await _change(store, "1", due_at=0.0)
        await soon(lambda: len(people.notices) == 3, 30)
    assert [notice.event for notice in people.notices[1:]] == [AlertEvent.QUARANTINED, AlertEvent.RESOLVED]


async def test_a_mirror_is_told_of_many_in_one_request_and_one_that_is_refused_costs_the_others_nothing(
    store: Store,
) -> None:
    mirror = Shown("mirror")
    picky = Shown("picky", refuses=lambda notice: notice.fields["ticket"] == "t-7")
    names = [f"t-{number}" for number in range(12)]
    await take_in(store, ["mirror", "picky"], *names)
    async with sending(store, mirrors=[mirror, picky]):
        await soon(lambda: mirror.tickets == set(names), 30)
        await soon(lambda: picky.tickets == {*names} - {"t-7"}, 60)
    assert len(mirror.requests[0]) == len(names)
    (owed,) = [alert for alert in await _alerts(store, "t-7") if alert.channel == "picky"]
    assert owed.sent_at is None
    assert owed.last_error == "one of them is no good"


def _told(channel: Heard) -> int:
    return sum(notice.fields.get("told", 1) for notice in channel.notices)

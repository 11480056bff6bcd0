"""Every channel gets its alerts at its own pace, and no alert keeps another one from being sent."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.station import arrival as arrivals
from gateway.station import decisions, figures, holding
from gateway.station.decided import Decision
from gateway.station.dossier import Alert, find
from gateway.station.outbox import BATCH
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from tests.support.waiting import soon
from tests.unit.station.hearing import Heard, sending


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


async def _owe(store: Store, channels: Sequence[str], *tickets: str) -> None:
    async with store.writing() as transaction:
        for ticket in tickets:
            item = Envelope(ticket=TicketId(ticket), kind="k", body=b"", content_type="text/plain", reason="rejected")
            arrival = arrivals.read(envelopes.encode(item))
            await holding.take_in(transaction, arrival, channels=channels, now=1.0)


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
    await _owe(store, ["slow", "quick"], "1", "2")
    async with sending(store, slow, quick):
        await soon(lambda: slow.asked)
        await soon(lambda: quick.tickets == ["1", "2"])
        await _owe(store, ["slow", "quick"], "3")
        await soon(lambda: quick.tickets == ["1", "2", "3"])
        assert slow.tickets == []
        slow.open.set()
        await soon(lambda: slow.tickets == ["1", "2", "3"])


async def test_what_is_owed_to_a_dead_channel_fills_nobody_elses_batch(store: Store) -> None:
    dead, alive = Heard("dead", refuses=lambda _: True), Heard("alive")
    await _owe(store, ["dead"], *(f"old-{number}" for number in range(2 * BATCH)))
    await _owe(store, ["dead", "alive"], "new")
    async with sending(store, dead, alive):
        await soon(lambda: alive.tickets == ["new"])


async def test_an_alert_that_failed_thousands_of_times_is_still_tried(store: Store) -> None:
    picky = Heard("picky", refuses=lambda notice: notice.fields["ticket"] == "hopeless")
    await _owe(store, ["picky"], "hopeless", "other")
    await _change(store, "hopeless", tries=5000, due_at=0.0)
    async with sending(store, picky):
        await soon(lambda: picky.tickets == ["other"])
    (alert,) = await _alerts(store, "hopeless")
    assert (alert.tries, alert.sent_at, alert.last_error) == (5001, None, "no")


async def test_an_alert_that_cannot_be_worded_keeps_no_other_one_from_being_sent(store: Store) -> None:
    channel = Heard("channel")
    await _owe(store, ["channel"], "odd", "other")
    await _change(store, "odd", event="of a newer version", due_at=0.0)
    async with sending(store, channel):
        await soon(lambda: channel.tickets == ["other"])


async def test_nothing_is_owed_to_a_channel_that_is_configured_no_more_until_it_is_back(store: Store) -> None:
    gone, kept = Heard("gone"), Heard("kept")
    await _owe(store, ["gone", "kept"], "1")
    async with sending(store, kept):
        await soon(lambda: kept.tickets == ["1"])
    await soon(lambda: _none_is_owed(store, "1"))
    assert (await figures.count(store)).lag_seconds == 0
    assert [alert.channel for alert in await _alerts(store, "1") if alert.retired_at] == ["gone"]

    await decisions.discard(store, "1", Decision(by="ana", reason="spam"))
    assert {alert.channel for alert in await _alerts(store, "1") if alert.event == "item.resolved"} == {"kept"}

    async with sending(store, kept, gone):
        await soon(lambda: gone.tickets == ["1"])


async def _none_is_owed(store: Store, ticket: str) -> bool:
    return all(alert.sent_at or alert.retired_at for alert in await _alerts(store, ticket))

"""Whoever is late is reminded once, of each item and each deadline; never of what must wait."""

from typing import Any

import sqlalchemy as sa

from gateway.station import decisions, leftovers, reviewing, roster
from gateway.station.decided import Decision
from gateway.station.duties import EVERY_OTHER, Duty
from gateway.station.reminders import Reminders
from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.tables.alerts import notices
from tests.support.waiting import soon
from tests.unit.station.hearing import Heard, sending
from tests.unit.station.patients import arrive, opened

_ANA = Decision(by="ana", reason="x")
_DAY = 86_400.0


def _reminders(store: Store, now: float) -> Reminders:
    return Reminders(store=store, channels=["log", "mail"], desk="http://desk", clock=lambda: now)


async def _owed(store: Store) -> list[Any]:
    async with store.reading() as transaction:
        return list((await transaction.execute(sa.select(notices).order_by(notices.c.id))).all())


async def test_each_item_is_reminded_of_once_for_each_deadline(store_url: str) -> None:
    async with opened(store_url) as store:
        await roster.write(store, {EVERY_OTHER: Duty(), "k": Duty(owner="ana", review_within=60.0)})
        await arrive(store, "t1", at=1000.0)
        await arrive(store, "t2", at=1030.0)
        await arrive(store, "t3", kind="other", at=0.0)
        assert await _reminders(store, 1059.0).look() == []
        assert await _reminders(store, 1061.0).look() == ["t1"]
        assert await _reminders(store, 1070.0).look() == []
        assert await _reminders(store, 2000.0).look() == ["t2"]
        owed = await _owed(store)
        assert [(row.subject, row.channel) for row in owed[:2]] == [("t1/0", "log"), ("t1/0", "mail")]
        assert len(owed) == 4
        fields = parsed(owed[0].fields)
        assert (fields["owner"], fields["deadline"], fields["link"]) == ("ana", 1060.0, "http://desk/items/t1")
        assert "Ticket t1 (k), ana, is in quarantine since" in owed[0].text
        await roster.write(store, {EVERY_OTHER: Duty(), "k": Duty(owner="ana", review_within=120.0)})
        assert await _reminders(store, 1121.0).look() == ["t1"]


async def test_what_is_on_hold_or_decided_is_nobodys_delay(store_url: str) -> None:
    async with opened(store_url) as store:
        await roster.write(store, {EVERY_OTHER: Duty(review_within=60.0)})
        for ticket in ("t1", "t2"):
            await arrive(store, ticket)
        await reviewing.hold(store, "t1", _ANA)
        await decisions.discard(store, "t2", _ANA)
        assert await _reminders(store, 5000.0).look() == []
        await reviewing.release(store, "t1", _ANA)
        assert await _reminders(store, 5000.0).look() == ["t1"]


async def test_a_reminder_that_was_sent_long_ago_is_not_sent_again(store_url: str) -> None:
    async with opened(store_url) as store:
        await roster.write(store, {EVERY_OTHER: Duty(review_within=60.0)})
        await arrive(store, "t1")
        await arrive(store, "t2")
        assert await _reminders(store, 100.0).look() == ["t1", "t2"]
        async with store.writing() as transaction:
            await transaction.execute(sa.update(notices).values(sent_at=101.0))
        await decisions.discard(store, "t2", _ANA)
        async with store.writing() as transaction:
            assert await leftovers.remove_notices(transaction, 100 * _DAY, 101 * _DAY, 100) == 1
        assert await _reminders(store, 101 * _DAY).look() == []


async def test_a_reminder_goes_out_by_the_outbox(tmp_path: Any) -> None:
    async with opened(f"sqlite+aiosqlite:///{tmp_path}/station.db") as store:
        await roster.write(store, {EVERY_OTHER: Duty(review_within=60.0)})
        await arrive(store, "t1")
        heard = Heard("log")
        await Reminders(store=store, channels=["log"], desk="http://desk", clock=lambda: 100.0).look()
        async with sending(store, heard):
            await soon(lambda: heard.tickets == ["t1"])
        assert heard.notices[0].title == "Review overdue: ticket t1"

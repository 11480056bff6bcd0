"""The desk shows how far people outside and channels have been told, on an item's page and on the first one."""

import re
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from gateway.settings import StationSettings, load
from gateway.station import dossier, escalations, owed, unsent
from gateway.station.desk import routes
from gateway.station.escalations import ESCALATION
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from gateway.station.vitals import Vitals
from tests.unit.station.items import discard, take_in
from tests.unit.station.patients import opened

_BADGE = re.compile(r'<li><span class="badge (\w+)">(\w+)</span>(?: <a class="ticket" href="/items/([^"]+)">)?')


async def _handed_over(store: Store) -> None:
    """Hand five over: two are owed, one is out, one taken on, one decided."""
    for number, ticket in enumerate(("taken", "out", "owed", "owed-too", "decided")):
        await take_in(store, ["log", ESCALATION], ticket, now=1000.0 + number)
    async with store.writing() as transaction:
        for ticket in ("taken", "out", "decided"):
            await escalations.note_sent(transaction, ticket=ticket, generation=0, reference=None, now=2000.0)
    await escalations.acknowledge(store, "taken", reference="<b>CASE-17</b>", by="the hotline")
    await discard(store, "decided")


async def _fail(store: Store, channel: str, error: str) -> None:
    ids = {alerts.name: [one.row.id for one in await owed.due(store, channel, 2)]}
    async with store.writing() as transaction:
        await owed.mark(transaction, channel, ids, {"last_error": error})


async def _sections(store: Store, *paths: str) -> list[str]:
    async with TestClient(TestServer(routes.application(load(StationSettings), store, Vitals()))) as desk:
        return [await _section(desk, path) for path in paths]


async def _section(desk: TestClient[Any, Any], path: str) -> str:
    async with desk.get(path) as answer:
        page = await answer.text()
        assert answer.status == 200, page
    found = re.search(r"<h2[^>]*>Handed to people outside</h2>.*?</section>", page, re.DOTALL)
    return found[0] if found else ""


async def test_an_items_page_says_how_far_its_escalation_is(store_url: str) -> None:
    async with opened(store_url) as store:
        await _handed_over(store)
        await take_in(store, ["log"], "never")
        states = ("owed", "out", "taken", "decided", "never")
        owing, out, taken, decided, never = await _sections(store, *(f"/items/{ticket}" for ticket in states))
    assert [_BADGE.findall(section) for section in (owing, out, taken, decided)] == [
        [("warn", "owed", "")],
        [("warn", "sent", "")],
        [("good", "acknowledged", "")],
        [("calm", "closed", "")],
    ]
    assert "owed since 1970-01-01 00:16:42 UTC" in owing
    assert "sent 1970-01-01 00:33:20 UTC, nobody has taken it on" in out
    assert re.search(r"acknowledged by the hotline, [-0-9: ]+ UTC, called &lt;b&gt;CASE-17&lt;/b&gt; there", taken)
    assert never == ""


async def test_the_first_page_has_what_nobody_outside_has_taken_on_before_the_rest(store_url: str) -> None:
    async with opened(store_url) as store:
        (calm,) = await _sections(store, "/")
        await _handed_over(store)
        (section,) = await _sections(store, "/")
    assert calm == ""
    assert [(state, ticket) for _, state, ticket in _BADGE.findall(section)] == [
        ("owed", "owed"),
        ("owed", "owed-too"),
        ("sent", "out"),
        ("acknowledged", "taken"),
    ]
    assert "4 not decided" in section


async def test_the_first_page_and_the_item_say_which_alerts_are_not_out_and_why(store_url: str) -> None:
    async with opened(store_url) as store:
        await take_in(store, ["log", "mail"], "t", now=1000.0)
        await _fail(store, "mail", "<i>no route</i>")
        found = await unsent.find(store)
        assert [(one.channel, one.number, one.since, one.tries, one.last_error) for one in found] == [
            ("log", 1, 1000.0, 0, None),
            ("mail", 1, 1000.0, 1, "<i>no route</i>"),
        ]
        async with TestClient(TestServer(routes.application(load(StationSettings), store, Vitals()))) as desk:
            first, item = [await (await desk.get(path)).text() for path in ("/", "/items/t")]
        assert "1 try failed, last: &lt;i&gt;no route&lt;/i&gt;" in first
        assert "1 try, last: &lt;i&gt;no route&lt;/i&gt;" in item
        await owed.retire(store, ["log"])
        assert [one.channel for one in await unsent.find(store)] == ["log"]
        told = await dossier.find(store, "t")
        assert told is not None
        assert [(one.channel, one.retired_at is None) for one in told.alerts] == [("log", True), ("mail", False)]

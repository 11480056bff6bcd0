"""The desk's pages about what its store holds, asked for over HTTP without a station."""

import html
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp.test_utils import TestClient, TestServer

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from gateway.settings import StationSettings, load
from gateway.station import arrival as arrivals
from gateway.station import decisions, dossier, holding, ledger
from gateway.station.decided import Decision
from gateway.station.desk import routes
from gateway.station.holding import ItemState
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tombstones import Tombstones
from gateway.station.vitals import Vitals
from tests.support import past


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


@pytest.fixture
def vitals() -> Vitals:
    return Vitals()


@pytest.fixture
async def desk(store: Store, vitals: Vitals) -> AsyncIterator[TestClient[Any, Any]]:
    application = routes.application(load(StationSettings), store, vitals)
    async with TestClient(TestServer(application)) as client:
        yield client


async def _hold(store: Store, *tickets: str) -> None:
    async with store.writing() as transaction:
        for number, ticket in enumerate(tickets):
            item = Envelope(ticket=TicketId(ticket), kind="k", body=b"", content_type="text/plain", reason="rejected")
            arrival = arrivals.read(envelopes.encode(item))
            await holding.take_in(transaction, arrival, channels=[], now=float(number))


async def _page(desk: TestClient[Any, Any], path: str) -> str:
    async with desk.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


async def test_all_that_waits_is_counted_though_not_all_of_it_is_on_one_page(
    store: Store, desk: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dossier, "MAX_LISTED", 5)
    await _hold(store, *(f"t-{number}" for number in range(60)))
    first = await _page(desk, "/items")
    assert '<span class="count">60</span>' in first
    assert [f'href="/items/t-{number}"' in first for number in (0, 49, 50)] == [True, True, False]
    found = re.search(r'rel="next" href="([^"]+)"', first)
    assert found is not None
    second = await _page(desk, f"/items{html.unescape(found[1])}")
    assert [f'href="/items/t-{number}"' in second for number in (49, 50, 59)] == [False, True, True]
    assert 'rel="next"' not in second
    back = re.search(r'rel="prev" href="([^"]+)"', second)
    assert back is not None
    assert 'href="/items/t-0"' in await _page(desk, f"/items{html.unescape(back[1])}")
    async with desk.get("/api/items") as answer:
        document = await answer.json()
    assert (document["total"], len(document["items"])) == (60, 5)


async def test_what_came_last_of_the_discarded_stands_first_with_who(store: Store, desk: TestClient[Any, Any]) -> None:
    await _hold(store, "a", "b", "c")
    async with store.writing() as transaction:
        for ticket in "ab":
            changes = {"state": ItemState.DISCARDED.value, "decided_at": 9.0, "decided_by": f"ana-{ticket}"}
            await transaction.execute(sa.update(items).filter_by(ticket=ticket).values(**changes))
    page = await _page(desk, "/discarded")
    assert sorted("ab", key=lambda ticket: page.index(f'href="/items/{ticket}"')) == ["b", "a"]
    assert "by ana-a" in page
    assert 'href="/items/c"' not in page


async def test_an_item_says_when_its_contents_go_and_that_they_have_gone(
    store: Store, desk: TestClient[Any, Any]
) -> None:
    await _hold(store, "t", "held")
    await decisions.discard(store, "t", Decision(by="ana", reason="spam"))
    assert "Body and headers go in 90 days, " in await _page(desk, "/items/t")
    assert "Body and headers" not in await _page(desk, "/items/held")
    later = time.time() + 91 * 86_400
    await Tombstones(store=store, keep=90 * 86_400, clock=lambda: later).sweep()
    page = await _page(desk, "/items/t")
    assert "Body and headers were removed, " in page
    assert "contents removed" in page
    assert 'id="body"' not in page
    async with desk.get("/api/items/t") as answer:
        [item] = (await answer.json())["items"]
    assert (item["removed_at"], item["removal_at"], item["decided_by"]) == (later, None, "ana")


@pytest.mark.parametrize("moment", [1e300, -1e300, 1e15])
async def test_a_time_that_is_none_is_unknown(store: Store, desk: TestClient[Any, Any], moment: float) -> None:
    await _hold(store, "t")
    ended = {"outcome": "failed", "verdict": "quarantine", "started_at": moment, "seconds": moment}
    stamp = Stamp(generation=1, attempt=1, interruptions=0)
    event = Event(event=EventName.FINISHED, at=moment, ticket="t", kind="k", node="n", stamp=stamp, data=ended)
    async with store.writing() as transaction:
        await ledger.post(transaction, [event])
    assert re.search(r"<dt>Last report</dt><dd><time[^>]*>unknown</time></dd>", await _page(desk, "/items/t"))
    await _page(desk, "/")


async def test_readiness_is_what_was_found_last_and_no_probe_waits_for_the_store(
    store: Store, vitals: Vitals, desk: TestClient[Any, Any]
) -> None:
    async with store.writing():
        async with desk.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (
                503,
                "not consuming: no broker connection, or the queues are gone\nstore: cannot be written\n",
            )
        vitals.consuming = vitals.writable = True
        async with desk.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ready\n")


async def test_what_nodes_say_of_themselves_is_shown_as_text(store: Store, desk: TestClient[Any, Any]) -> None:
    assert "No node has said anything" in await _page(desk, "/fleet")
    hostile = "<script>alert(1)</script>\u202e"
    data = {"dependency": hostile, "state": "open", "why": hostile}
    event = Event(event=EventName.BREAKER, at=1.0, ticket="", kind="", node=f"n {hostile}", data=data)
    async with store.writing() as transaction:
        await ledger.post(transaction, [event])
    word = {"lane": "work", "state": hostile, "build": hostile, "obstacles": [hostile], "every": hostile}
    of_itself = Event(event=EventName.NODE, at=1.0, ticket="", kind="", node=f"m {hostile}", data=word)
    async with store.writing() as transaction:
        await ledger.post(transaction, [of_itself])
    page = await _page(desk, "/fleet")
    assert page.count("&lt;script&gt;alert(1)") == 7
    assert "<script>" not in page
    assert "\u202e" not in page
    async with desk.get("/api/fleet") as answer:
        assert "\u202e" not in await answer.text()
        (state,) = (await answer.json())["states"]
    assert (state["event"], state["subject"], state["state"], state["data"]["why"]) == (
        "breaker",
        hostile,
        "open",
        hostile,
    )


async def test_the_first_page_begins_with_what_needs_a_person(store: Store, desk: TestClient[Any, Any]) -> None:
    calm = await _page(desk, "/")
    assert calm.count('class="figure good"') == 6
    assert "Nothing is in quarantine." in calm
    now = time.time()
    await past.fill(store, now, items=30)
    await past.speak(store, now)
    # Another desk: this one remembers what it counted a moment ago.
    async with TestClient(TestServer(routes.application(load(StationSettings), store, Vitals()))) as other:
        page = await _page(other, "/")
    figures = re.findall(r'class="figure (\w+)" href="[^"]+"><strong>([^<]+)</strong><span>([^<]+)<', page)
    assert figures == [
        ("bad", "12 d", "oldest undecided"),
        ("warn", "30", "items wait"),
        ("good", "0", "past their deadline"),
        ("bad", "1", "storm guard tripped"),
        ("bad", "1", "dependency down"),
        ("bad", "1", "node silent"),
    ]
    assert re.search(r'aria-label="Quarantined: 30 items, ', page)


async def test_refusals_are_listed_grouped_supposed_and_let_in_with_a_name(
    store: Store, desk: TestClient[Any, Any]
) -> None:
    await past.refuse(store, time.time(), number=9)
    page = await _page(desk, "/refusals?rule=lossy_text")
    assert re.findall(r'class="ordinal">([^<]+)<', page) == ["request-2", "request-5", "request-8"]
    grouped = await _page(desk, "/refusals?view=groups")
    assert grouped.count('class="number">3</td>') >= 3
    assert "would have passed" in await _page(desk, "/refusals?if=lossy_text%3Doff")
    assert "is no limit and no rule" in await _page(desk, "/refusals?if=nonsense%3D1")
    token = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert token is not None
    form = {"csrf": token[1], "by": "ana", "reason": "its own log"}
    async with desk.post("/refusals/request-2/admit", data={**form, "by": ""}) as answer:
        assert (answer.status, "say who you are" in await answer.text()) == (400, True)
    async with desk.post("/refusals/request-2/admit", data=form) as answer:
        assert (answer.status, "It may come in once" in await answer.text()) == (200, True)
    async with desk.post("/refusals/request-2/admit", data=form) as answer:
        assert (answer.status, "given by ana" in await answer.text()) == (409, True)
    audit = await _page(desk, "/audit")
    assert "pass given" in audit
    async with desk.get("/audit.jsonl?actor=ana") as answer:
        (line,) = (await answer.text()).splitlines()
    assert (json.loads(line)["act"], json.loads(line)["reason"]) == ("pass given", "its own log")


async def test_where_looking_at_a_body_is_put_on_record_it_takes_a_reason(store: Store) -> None:
    await past.take_in(store, [(past.item("t", time.time()), time.time())])
    app = routes.application(load(StationSettings, desk_reveal=True), store, Vitals())
    async with TestClient(TestServer(app)) as desk:
        page = await _page(desk, "/items/t")
        assert "ERROR import" not in page
        async with desk.get("/items/t/0/body") as answer:
            assert answer.status == 403
        token = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
        assert token is not None
        form = {"csrf": token[1], "by": "ana", "reason": "the client asked"}
        async with desk.post("/items/t/0/reveal", data={**form, "reason": " "}) as answer:
            assert answer.status == 400
        async with desk.post("/items/t/0/reveal", data=form) as answer:
            assert "ERROR import" in await answer.text()
        async with desk.get("/items/t/0/body") as answer:
            assert (answer.status, await answer.read()) == (200, past.LOG.encode() * 20)
            assert answer.content_type == "application/octet-stream"
        assert "body revealed" in await _page(desk, "/audit?ticket=t")

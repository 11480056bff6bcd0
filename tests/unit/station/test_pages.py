"""The desk's pages about what its store holds, asked for over HTTP without a station."""

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
from gateway.station.decisions import Decision
from gateway.station.desk import routes
from gateway.station.holding import ItemState
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tombstones import Tombstones
from gateway.station.vitals import Vitals


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


async def test_all_that_waits_is_counted_though_not_all_of_it_is_listed(
    store: Store, desk: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dossier, "MAX_LISTED", 5)
    await _hold(store, *(f"t-{number}" for number in range(8)))
    page = await _page(desk, "/")
    assert "<strong>8</strong>" in page
    assert "The oldest 5 of 8." in page
    assert [f'href="/items/t-{number}"' in page for number in range(8)] == [True] * 5 + [False] * 3
    async with desk.get("/api/items") as answer:
        document = await answer.json()
    assert (document["total"], len(document["items"])) == (8, 5)


async def test_what_was_decided_last_stands_first(store: Store, desk: TestClient[Any, Any]) -> None:
    await _hold(store, "a", "b", "c")
    async with store.writing() as transaction:
        for ticket, moment in (("a", 30.0), ("b", 10.0), ("c", 20.0)):
            changes = {"state": ItemState.DISCARDED.value, "decided_at": moment, "decided_by": "ana"}
            await transaction.execute(sa.update(items).filter_by(ticket=ticket).values(**changes))
    page = await _page(desk, "/?view=decided")
    assert sorted("abc", key=lambda ticket: page.index(f'href="/items/{ticket}"')) == ["a", "c", "b"]


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
    assert "<h2>Body" not in page
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
    assert "<dt>Last report</dt><dd>unknown</dd>" in await _page(desk, "/items/t")
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
    assert "Fleet" not in await _page(desk, "/")
    hostile = "<script>alert(1)</script>\u202e"
    data = {"dependency": hostile, "state": "open", "why": hostile}
    event = Event(event=EventName.BREAKER, at=1.0, ticket="", kind="", node=f"n {hostile}", data=data)
    async with store.writing() as transaction:
        await ledger.post(transaction, [event])
    page = await _page(desk, "/")
    assert page.count("&lt;script&gt;alert(1)") == 3
    assert "<script" not in page
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

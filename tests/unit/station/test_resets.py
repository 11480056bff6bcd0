"""Attempts given back from the desk and its API: counted first, then exactly that, by an admin with a reason."""

import html
import re
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from consumer.fence import StoreFence
from gateway import api_key
from gateway.contract.ids import TicketId, uuid7
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from gateway.settings import StationSettings, load
from gateway.station import ledger, reviewer_keys
from gateway.station.desk import routes
from gateway.station.identity import Role
from gateway.station.reviewer_keys import ReviewerKey
from gateway.station.store import Store
from gateway.station.vitals import Vitals
from tests.unit.station import described
from tests.unit.station.patients import opened

Client = TestClient[Any, Any]
WHY = "the provider was down"


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with opened(store_url) as found:
        yield found


@pytest.fixture
async def fence(store_url: str, store: Store) -> AsyncIterator[StoreFence]:
    found = await StoreFence.open(store_url)
    yield found
    await found.close()


@pytest.fixture
async def desk(store: Store) -> AsyncIterator[Client]:
    settings = load(StationSettings, desk_user="ana")
    async with TestClient(TestServer(routes.application(settings, store, Vitals()))) as client:
        yield client


async def _fails(store: Store, fence: StoreFence, ticket: str, *, kind: str = "k", outcome: str = "failed") -> None:
    """Have a node start a ticket and tell that it will try again."""
    stamp = Stamp(generation=0, attempt=1, interruptions=0)
    await fence.license(TicketId(ticket), stamp, holder="n1", now=1.0, digest="d", token=ticket)
    data = {"outcome": outcome, "verdict": "retry", "evidence": {}}
    told = Event(
        id=uuid7(), event=EventName.FINISHED, at=1000.0, ticket=ticket, kind=kind, node="n1", stamp=stamp, data=data
    )
    async with store.writing() as transaction:
        await ledger.post(transaction, [told])


async def _page(desk: Client, path: str) -> str:
    async with desk.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return html.unescape(await answer.text())


async def _ask(desk: Client, method: str, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
    async with desk.request(method, path, **options) as answer:
        found = orjson.loads(await answer.text())
        described.check(method, path, answer.status, answer.content_type, found)
        return answer.status, found


async def _press(desk: Client, page: str, **fields: str) -> tuple[int, str]:
    """Send the form of the page with all that it has in it already."""
    there = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
    async with desk.post("/operations/reset", data={**there, **fields}) as answer:
        return answer.status, html.unescape(await answer.text())


async def test_what_was_counted_gets_its_attempts_back_once_with_a_name_and_a_reason(
    store: Store, fence: StoreFence, desk: Client
) -> None:
    for ticket in ("t1", "t2"):
        await _fails(store, fence, ticket)
    await _fails(store, fence, "other", kind="else")

    page = await _page(desk, "/operations/reset?kind=k&since=1970-01-01&count=1")
    assert "2 items on their way" in page
    assert "t1" in page
    assert "other" not in page
    status, said = await _press(desk, page, by="ana", reason=WHY)
    assert (status, "2 items got their attempts back" in said) == (200, True)

    audit = await _page(desk, "/audit?act=reset")
    assert audit.count(WHY) == 2
    assert "No item on its way" in await _page(desk, "/operations/reset?kind=k&count=1")
    assert "1 item on its way" in await _page(desk, "/operations/reset?count=1")


async def test_whoever_counted_others_is_told_and_nothing_is_changed(
    store: Store, fence: StoreFence, desk: Client
) -> None:
    await _fails(store, fence, "t1")
    page = await _page(desk, "/operations/reset?count=1")
    await _fails(store, fence, "t2")
    status, said = await _press(desk, page, by="ana", reason=WHY)
    assert (status, "1 expected, 2 found: nothing was changed" in said) == (409, True)
    assert WHY in said, "what was written is kept"
    status, told = await _ask(desk, "POST", "/v1/resets", json={"by": "ana", "reason": WHY, "expect": 3})
    assert (status, told["detail"]) == (409, "3 expected, 2 found: nothing was changed")
    assert (await _ask(desk, "GET", "/v1/resets"))[1]["found"] == 2


async def test_an_act_without_a_reason_or_a_count_is_none(store: Store, fence: StoreFence, desk: Client) -> None:
    await _fails(store, fence, "t1")
    page = await _page(desk, "/operations/reset?count=1")
    status, said = await _press(desk, page, by="ana", reason=" ")
    assert (status, "say why" in said) == (400, True)
    status, said = await _press(desk, page, by="ana", reason=WHY, expect="")
    assert (status, "count first" in said) == (400, True)
    assert "write 30m, 2h" in await _page(desk, "/operations/reset?since=yesterday&count=1")
    assert (await _ask(desk, "POST", "/v1/resets", json={"by": "ana", "reason": WHY}))[0] == 400
    assert (await _ask(desk, "GET", "/v1/resets?outcome=succeeded"))[0] == 400


async def test_the_api_counts_by_filter_and_gives_back_what_it_counted(
    store: Store, fence: StoreFence, desk: Client
) -> None:
    await _fails(store, fence, "t1")
    await _fails(store, fence, "t2", outcome="crashed")
    status, found = await _ask(desk, "GET", "/v1/resets?outcome=crashed&node=n1&since=0")
    assert (status, found["found"], found["reset"]) == (200, 1, None)
    assert found["items"] == [{"ticket": "t2", "generation": 0, "kind": "k", "state": "retrying", "charged": 1}]
    body = {"outcomes": ["crashed"], "by": "ana", "reason": WHY, "expect": 1}
    status, done = await _ask(desk, "POST", "/v1/resets", json=body)
    assert (status, done["reset"]) == (200, ["t2"])
    assert (await _ask(desk, "GET", "/v1/resets"))[1]["found"] == 1


async def test_where_no_node_keeps_starts_it_is_said(desk: Client) -> None:
    assert "no node has recorded a start" in await _page(desk, "/operations/reset?count=1")
    assert (await _ask(desk, "GET", "/v1/resets"))[0] == 409
    body = {"by": "ana", "reason": WHY, "expect": 0}
    assert (await _ask(desk, "POST", "/v1/resets", json=body))[0] == 409


async def test_it_takes_an_admin(store: Store, fence: StoreFence, tmp_path: Any) -> None:
    await _fails(store, fence, "t1")
    keys = {role: api_key.new() for role in (Role.REVIEWER, Role.ADMIN)}
    lines = [
        reviewer_keys.line(ReviewerKey(id=key.id, name=role.value, role=role, sha256=key.digest))
        for role, key in keys.items()
    ]
    (tmp_path / "desk.keys").write_text("\n".join(lines))
    settings = load(StationSettings, desk_keys=tmp_path / "desk.keys")
    async with TestClient(TestServer(routes.application(settings, store, Vitals()))) as desk:
        as_role = {role: {"Authorization": f"Bearer {key.text}"} for role, key in keys.items()}
        async with desk.get("/operations/reset?count=1", headers=as_role[Role.REVIEWER]) as answer:
            page = await answer.text()
        assert "This takes an admin" in page
        assert "<textarea" not in page
        body = {"reason": WHY, "expect": 1}
        async with desk.post("/v1/resets", headers=as_role[Role.REVIEWER], json=body) as answer:
            assert answer.status == 403
        async with desk.post("/operations/reset", headers=as_role[Role.REVIEWER], data=body) as answer:
            assert answer.status == 403
        status, done = await _ask(desk, "POST", "/v1/resets", json=body, headers=as_role[Role.ADMIN])
        assert (status, done["reset"]) == (200, ["t1"])

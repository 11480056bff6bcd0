"""Whatever stands in an address or a form, the desk has an answer for it, on both stores; none is a fault of ours."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gateway.settings import StationSettings, load
from gateway.station import operations
from gateway.station.desk import routes
from gateway.station.operations import Candidate, Kind, Request
from gateway.station.store import Store
from gateway.station.vitals import Vitals
from tests.unit.station.selected import hold

ENDLESS = "9" * 5000
HUGE = str(2**64)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


@pytest.fixture
async def desk(store: Store) -> AsyncIterator[TestClient[Any, Any]]:
    application = routes.application(load(StationSettings, desk_user="ana"), store, Vitals())
    async with TestClient(TestServer(application)) as client:
        yield client


async def test_names_with_nul_are_nobodys(desk: TestClient[Any, Any]) -> None:
    pages = ("/items/a%00b", "/items/a%00b/edit", "/items/a%00b/review", "/groups/%00", "/operations/%00")
    documents = ("/v1/quarantine/a%00b", "/v1/operations/%00", "/v1/groups/%00", "/api/items/%00")
    queries = ("/audit?actor=%00", "/refusals?client=%00", "/items?text=%00", "/v1/quarantine?text=%00")
    for path, status in [*((path, 404) for path in (*pages, *documents)), *((path, 400) for path in queries)]:
        async with desk.get(path) as answer:
            assert answer.status == status, (path, await answer.text())


async def test_numbers_that_no_store_has_are_none(store: Store, desk: TestClient[Any, Any]) -> None:
    await hold(store, "t")
    made = await operations.draft(
        store, Request(act=Kind.DISCARD, by="ana", chosen={}), [Candidate(ticket="t", generation=0)]
    )
    assert isinstance(made, tuple)
    name = made[0].id
    for number in (HUGE, "-1", "x"):
        for path, status in (
            (f"/v1/quarantine?after=t/{number}", 400),
            (f"/v1/operations/{name}/items?after={number}", 400),
            (f"/operations/{name}?after={number}", 200),
            (f"/audit?below={number}", 200),
            (f"/items?after=1.0~{number}~t", 200),
            (f"/items/t/{number}/body", 404),
        ):
            async with desk.get(path) as answer:
                assert answer.status == status, (path, await answer.text())


async def test_endless_numbers_in_forms_are_as_good_as_left_out(store: Store, desk: TestClient[Any, Any]) -> None:
    await hold(store, "t", content_type="text/plain; charset=utf-8")
    async with desk.get("/items/t/edit") as answer:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', await answer.text())
    assert found is not None
    fields = {"csrf": found[1], "generation": ENDLESS, "text": "hello, again", "do": "look"}
    async with desk.post("/items/t/edit", data=fields) as answer:
        assert answer.status == 200, await answer.text()


@pytest.mark.parametrize("path", ["/sign-in", "/operations"])
@pytest.mark.parametrize("charset", ["x-mac-foo", "hex"])
async def test_a_form_in_an_encoding_that_nobody_knows_is_none(
    desk: TestClient[Any, Any], path: str, charset: str
) -> None:
    headers = {"Content-Type": f"application/x-www-form-urlencoded; charset={charset}"}
    async with desk.post(path, data=b"csrf=0", headers=headers) as answer:
        assert answer.status == 400, await answer.text()


async def test_a_ticket_with_nul_that_is_ticked_is_nobodys(store: Store, desk: TestClient[Any, Any]) -> None:
    await hold(store, "t")
    async with desk.get("/operations/new?ticket=t") as answer:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', await answer.text())
    assert found is not None
    fields = {"csrf": found[1], "act": "discard", "code": "other", "by": "ana", "reason": "spam", "ticket": "a\x00b"}
    async with desk.post("/operations", data=fields, allow_redirects=False) as answer:
        assert answer.status < 500, await answer.text()

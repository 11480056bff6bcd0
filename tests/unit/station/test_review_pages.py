"""Pages for what reviewers do beside deciding: groups, owners, holds, notes, and the record that is signed."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gateway.settings import StationSettings, load
from gateway.station.desk import routes
from gateway.station.holding import ItemState
from gateway.station.store import Store
from gateway.station.vitals import Vitals
from tests.unit.station.selected import hold, newest

Client = TestClient[Any, Any]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


@pytest.fixture
async def desk(store: Store) -> AsyncIterator[Client]:
    settings = load(StationSettings, broker_url="amqp://guest:guest@127.0.0.1:1/", desk_user="ana")
    async with TestClient(TestServer(routes.application(settings, store, Vitals()))) as client:
        yield client


async def _page(desk: Client, path: str, status: int = 200) -> str:
    async with desk.get(path) as answer:
        assert answer.status == status, await answer.text()
        return html.unescape(await answer.text())


async def _send(desk: Client, path: str, status: int = 200, **fields: str) -> str:
    page = await _page(desk, "/items/t")
    token = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert token is not None
    async with desk.post(path, data={"csrf": token[1], **fields}) as answer:
        text = html.unescape(await answer.text())
        assert answer.status == status, text
        return text


async def test_a_group_tells_how_many_died_of_the_same_and_leads_to_all_of_them(store: Store, desk: Client) -> None:
    for number in range(3):
        await hold(store, f"t-{number}", at=float(number), reason="crashes_exhausted")
    await hold(store, "t", reason="rejected", detail="ValueError: no such product")
    listed = await _page(desk, "/groups")
    assert '<span class="count">2</span>' in listed
    group = re.findall(r'href="(/groups/[^"]+)"', listed)[0]
    page = await _page(desk, group)
    assert "3, of which 3 wait" in page
    assert "What they share" in page
    following = re.findall(r'href="(/(?:items|operations/new)\?group=[^"]+)"', page)
    assert "Decide about 3 items" in await _page(desk, following[1])
    items = await _page(desk, following[0])
    assert [f">t-{number}<" in items for number in range(3)] == [True] * 3
    assert ">t<" not in items
    said = await _send(desk, f"{group}/notes", text="lxml cannot read this\nsee upstream")
    assert "lxml cannot read this\nsee upstream" in said
    assert "lxml cannot read this" in await _page(desk, "/items/t-0")
    await _send(desk, f"{group}/notes", 400, text=" ")
    await _page(desk, "/groups/none", 404)


async def test_an_item_is_given_to_somebody_unless_it_was_given_away_meanwhile(store: Store, desk: Client) -> None:
    await hold(store, "t")
    assert "It is given to somebody else." in await _send(desk, "/items/t/assign", owner="bob", was="", reason="his")
    said = await _send(desk, "/items/t/assign", 409, owner="eve", was="", reason="hers")
    assert "bob" in said
    assert (await newest(store, "t")).owner == "bob"
    assert ">t<" in await _page(desk, "/items?owner=bob")
    assert "Nothing matches." in await _page(desk, "/items?owner=-")
    assert 'href="/items?owner=bob"' in await _page(desk, "/")
    assert "on one line" in await _send(desk, "/items/t/assign", 400, owner="x" * 500, was="bob", reason="long")


async def test_what_is_on_hold_says_so_and_is_not_decided_until_it_is_released(store: Store, desk: Client) -> None:
    await hold(store, "t")
    said = await _send(desk, "/items/t/hold", reason="evidence for the vendor")
    assert "it is on hold since" in said
    since = re.search(r'name="since" value="([^"]+)"', said)
    assert since is not None
    await _send(desk, "/items/t/hold", 409, reason="again")
    assert ">t<" in await _page(desk, "/items?review=on_hold")
    assert "Nothing matches." in await _page(desk, "/items?review=unreviewed")
    await _send(desk, "/items/t/replay", 409, generation="0", reason="fixed")
    assert (await newest(store, "t")).state is ItemState.HELD
    await _send(desk, "/items/t/release", 409, reason="another one", since="5.0")
    assert "on hold no more" in await _send(desk, "/items/t/release", reason="vendor has it", since=since[1])
    assert "It is discarded." in await _send(desk, "/items/t/discard", generation="0", reason="done")


async def test_the_record_is_signed_as_it_was_read(store: Store, desk: Client) -> None:
    await hold(store, "t")
    page = await _page(desk, "/items/t/review")
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', page)
    assert digest is not None
    assert "not signed" in page
    await _send(desk, "/items/t/note", reason="fails from page 3 on")
    said = await _send(desk, "/items/t/review", 409, digest=digest[1], reason="done")
    assert "has changed" in said
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', said)
    assert digest is not None
    said = await _send(desk, "/items/t/review", digest=digest[1], reason="parser fixed, client told")
    assert ">signed<" in said
    assert "parser fixed, client told" in said
    await _page(desk, "/items/none/review", 404)

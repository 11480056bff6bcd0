"""Pages on which something is decided, asked for over HTTP on a desk whose broker is away: forms, what they show before
anything is done, and what they say of each outcome.
"""

import asyncio
import html
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gateway.contract.topology import Topology
from gateway.settings import StationSettings, load
from gateway.station.desk import routes
from gateway.station.executor import Executor
from gateway.station.holding import ItemState
from gateway.station.sender import Sender
from gateway.station.store import Store
from gateway.station.vitals import Vitals
from tests.support.waiting import soon
from tests.unit.station.selected import hold, leave_in_doubt, newest

NOBODY = "amqp://guest:guest@127.0.0.1:1/"
Client = TestClient[Any, Any]


@pytest.fixture
def store_url(tmp_path: Any) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/station.db"


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


@pytest.fixture
async def desk(store: Store) -> AsyncIterator[Client]:
    settings = load(StationSettings, broker_url=NOBODY, desk_user="ana")
    async with TestClient(TestServer(routes.application(settings, store, Vitals()))) as client:
        yield client


async def _page(desk: Client, path: str, status: int = 200) -> str:
    async with desk.get(path) as answer:
        assert answer.status == status, await answer.text()
        return html.unescape(await answer.text())


async def _send(desk: Client, path: str, page: str, status: int = 200, **fields: str) -> str:
    """Send a form of `page`, with its own token, and return what is answered."""
    token = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert token is not None
    async with desk.post(path, data={"csrf": token[1], **fields}) as answer:
        text = html.unescape(await answer.text())
        assert answer.status == status, text
        return text


async def test_a_discard_has_a_code_and_can_be_restored_from_the_items_page(store: Store, desk: Client) -> None:
    await hold(store, "t")
    page = await _page(desk, "/items/t")
    said = await _send(desk, "/items/t/discard", page, generation="0", reason="twice", code="duplicate")
    assert "It is discarded." in said
    assert (await newest(store, "t")).state is ItemState.DISCARDED
    assert "duplicate" in await _page(desk, "/audit?ticket=t")
    said = await _send(desk, "/items/t/restore", said, generation="0", reason="not twice")
    assert "It is held again" in said
    assert (await newest(store, "t")).state is ItemState.HELD
    assert 'formaction="/items/t/replay"' in said


@pytest.mark.parametrize("act", ["replay", "discard"])
async def test_who_saw_another_generation_than_the_newest_is_told_and_nothing_is_done(
    store: Store, desk: Client, act: str
) -> None:
    await hold(store, "t")
    page = await _page(desk, "/items/t")
    await hold(store, "t", generation=1)
    said = await _send(desk, f"/items/t/{act}", page, 409, generation="0", reason="x")
    assert "Meanwhile generation 1 of t arrived here" in said
    assert (await newest(store, "t")).state is ItemState.HELD


async def test_an_act_without_a_reason_is_nothing_and_keeps_what_was_written(store: Store, desk: Client) -> None:
    await hold(store, "t")
    said = await _send(desk, "/items/t/discard", await _page(desk, "/items/t"), 400, generation="0", code="harmful")
    assert "say why" in said
    assert '<option value="harmful" selected>' in said


async def test_a_replay_without_a_broker_says_so_and_leaves_the_item_held(store: Store, desk: Client) -> None:
    await hold(store, "t")
    said = await _send(desk, "/items/t/replay", await _page(desk, "/items/t"), 503, generation="0", reason="fixed")
    assert "not sent, the item is as it was" in said
    assert ">fixed</textarea>" in said
    assert (await newest(store, "t")).state is ItemState.HELD


async def test_an_edit_shows_what_changes_and_what_the_door_says_before_it_is_sent(store: Store, desk: Client) -> None:
    await hold(store, "t", body=b"one\r\ntwo\r\n", content_type="text/plain; charset=utf-8")
    page = await _page(desk, "/items/t/edit")
    sent: dict[str, Any] = {"generation": "0", "text": "one\r\ntwo\r\n"}
    assert "nothing is different yet" in await _send(desk, "/items/t/edit", page, 400, do="look", **sent)
    sent["text"] = "one\r\nthree\r\n"
    said = await _send(desk, "/items/t/edit", page, do="look", **sent)
    assert "The door would let this in." in said
    assert '<span class="taken">-two</span>' in said
    assert '<span class="added">+three</span>' in said
    assert "say why" in await _send(desk, "/items/t/edit", page, 400, do="send", **sent)
    said = await _send(desk, "/items/t/edit", page, 422, do="look", generation="0", text="")
    assert "the door would refuse it" in said
    said = await _send(desk, "/items/t/edit", page, 503, do="send", reason="a typing error", **sent)
    assert "not sent, the item is as it was" in said
    assert (await newest(store, "t")).state is ItemState.HELD


async def test_what_cannot_be_seen_comes_back_from_the_form_as_it_was(store: Store, desk: Client) -> None:
    text = "a family \U0001f468\u200d\U0001f469\u200d\U0001f467, co\u00adop, \u202eturned\u202c <b>&amp;</b>\n"
    await hold(store, "t", body=text.encode(), content_type="text/plain; charset=utf-8")
    async with desk.get("/items/t/edit") as answer:
        found = re.search(r"<textarea name=\"text\"[^>]*>\n(.*?)</textarea>", await answer.text(), re.DOTALL)
    assert found is not None
    assert html.unescape(found[1]) == text
    assert "<b>" not in found[1]
    page = await _page(desk, "/items/t/edit")
    assert "characters that cannot be seen here" in page
    sent = {"generation": "0", "text": text.replace("\n", "\r\n")}
    assert "nothing is different yet" in await _send(desk, "/items/t/edit", page, 400, do="look", **sent)
    assert "\\u200d" in await _page(desk, "/items/t"), "where it is only shown, it is shown as an escape"


@pytest.mark.parametrize("body", [b"a\x00b", b"a\rb"], ids=["NUL", "a lone CR"])
async def test_what_no_browser_gives_back_is_not_edited_here(store: Store, desk: Client, body: bytes) -> None:
    await hold(store, "t", body=body, content_type="text/plain; charset=utf-8")
    assert "Its body cannot be read as a text that a browser gives back" in await _page(desk, "/items/t/edit")


async def test_what_is_no_text_is_not_edited_here(store: Store, desk: Client) -> None:
    await hold(store, "t", body=b"\x00\x01", content_type="application/x-strange")
    assert "Its body cannot be read as a text" in await _page(desk, "/items/t/edit")
    await _page(desk, "/items/none/edit", 404)


async def test_many_are_counted_first_then_started_once_by_the_number_that_was_seen(store: Store, desk: Client) -> None:
    for number in range(4):
        await hold(store, f"t-{number}", at=float(number), kind="k" if number else "other")
    listed = await _page(desk, "/items?kind=k")
    assert "Decide about all 3 that match" in listed
    dialog = await _page(desk, "/operations/new?kind=k&all=yes")
    assert "Decide about 3 items" in dialog
    assert "kind k." in dialog
    assert "say what kind of discard" in await _send(desk, "/operations", dialog, 400, kind="k", act="discard")
    draft = await _send(desk, "/operations", dialog, kind="k", act="discard", code="out_of_date")
    assert "Nothing has been changed yet. It can be done with 3 of 3." in draft
    found = re.search(r'action="(/operations/[0-9a-f-]+)/start"', draft)
    assert found is not None
    said = await _send(desk, f"{found[1]}/start", draft, 409, expect="4", reason="old")
    assert "4 expected, 3 found: nothing was changed" in said
    assert "say why" in await _send(desk, f"{found[1]}/start", draft, 400, expect="3")
    assert "3 wait for their turn" in await _send(desk, f"{found[1]}/start", draft, expect="3", reason="old")

    stop, sender = asyncio.Event(), Sender((NOBODY,))
    executor = Executor(store=store, sender=sender, topology=Topology(), replay_limit=0, lease=30.0)
    running = asyncio.create_task(executor.run(stop))

    async def ended() -> bool:
        return "Every item had its turn." in await _page(desk, found[1])

    await soon(ended, 30.0, saying="the operation ended")
    stop.set()
    await running
    await sender.close()
    page = await _page(desk, found[1])
    assert "3 of 3 had their turn" in page
    assert (await newest(store, "t-0")).state is ItemState.HELD
    overview = await _page(desk, "/operations")
    assert "Discard 3 items" in overview
    assert "3 discarded" in overview


async def test_what_was_sent_and_never_confirmed_is_found_and_resumed_with_a_word_about_what_that_does(
    store: Store, desk: Client
) -> None:
    for ticket in ("held", "killed"):
        await hold(store, ticket)
    assert "never confirmed" not in await _page(desk, "/")
    await leave_in_doubt(store, "killed")
    assert "Of 1 replay nobody knows whether the broker has it." in await _page(desk, "/")
    listed = await _page(desk, "/items?state=unconfirmed")
    assert re.findall(r'name="ticket" value="(\w+)"', listed) == ["killed"]
    dialog = await _page(desk, "/operations/new?state=unconfirmed&all=yes")
    assert "Decide about 1 item<" in dialog
    assert re.findall(r'name="act" value="(\w+)"', dialog) == ["resume"]
    assert "lets one of them run" in dialog
    both = await _page(desk, "/operations/new?all=yes")
    assert re.findall(r'name="act" value="(\w+)"', both) == ["replay", "resume", "discard"]
    draft = await _send(desk, "/operations", dialog, state="unconfirmed", act="resume")
    assert "Resume 1 item" in draft
    assert "It can be done with 1 of 1." in draft
    assert "the fence lets one copy of each run" in draft


async def test_ticked_ones_are_meant_by_name_and_those_that_cannot_be_done_say_why(store: Store, desk: Client) -> None:
    await hold(store, "t-0")
    await hold(store, "t-1")
    page = await _page(desk, "/items/t-1")
    await _send(desk, "/items/t-1/discard", page, generation="0", reason="spam")
    dialog = await _page(desk, "/operations/new?ticket=t-0&ticket=t-1")
    assert "Decide about 2 items" in dialog
    draft = await _send(desk, "/operations", dialog, ticket="t-1", act="replay", canary="1", pace="nan")
    assert "There is nothing that it could be done with." in draft
    assert "t-1, generation 0, was already discarded by ana" in draft
    assert "20 a second" in draft


async def test_no_page_is_broken_by_an_operation_that_is_none(desk: Client) -> None:
    await _page(desk, "/operations/none", 404)
    assert "Nothing was done with many items yet." in await _page(desk, "/operations")

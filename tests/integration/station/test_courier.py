"""An event that a client does not take is given up after the time that it was tried for, not that it was there for."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web

from gateway.callback import Callback
from gateway.station.courier import Courier, spanned
from gateway.station.store import Store
from gateway.station.tables.callbacks import callbacks
from gateway.station.webhook import Post
from tests.integration.station.receiver import Call, Receiver
from tests.support.waiting import soon

WEEK = 7 * 86_400.0


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _owe(store: Store, *tickets: str, age: float, **values: Any) -> None:
    then = time.time() - age
    always = {"generation": 0, "state": "done", "client": "acme", "document": "{}", "created_at": then, "due_at": then}
    rows = [{**always, "ticket": name, "event_id": name, "tries": 0, **values} for name in tickets]
    async with store.writing() as transaction:
        await transaction.execute(sa.insert(callbacks), rows)


async def _ends(store: Store) -> dict[str, str]:
    async with store.reading() as transaction:
        found = await transaction.execute(sa.select(callbacks))
        return {row.ticket: "sent" if row.sent_at else "dead" if row.dead_at else "open" for row in found}


async def _serve(store: Store, receiver: Receiver, patience: float, until: dict[str, str]) -> None:
    courier = Courier(store=store, post=Post(private=True), patience=patience)
    courier.know({"acme": [Callback.new(receiver.url)]})
    stop = asyncio.Event()
    running = asyncio.create_task(courier.run(stop))

    async def has_ended() -> bool:
        return await _ends(store) == until

    try:
        await soon(has_ended, 30)
    finally:
        stop.set()
        await running


async def test_what_came_before_a_long_downtime_of_ours_is_tried_as_long_as_anything_else(store: Store) -> None:
    reluctant = [web.Response(status=500)] * 3

    async def answer(_: Call) -> web.Response:
        return reluctant.pop() if reluctant else web.Response(status=204)

    await _owe(store, "never-tried", age=WEEK)
    await _owe(store, "tried-once", age=WEEK, tries=1, first_tried_at=time.time() - WEEK)
    async with Receiver(answer) as receiver:
        await _serve(store, receiver, 86_400, until={"never-tried": "sent", "tried-once": "sent"})


async def test_who_takes_nothing_for_all_that_time_loses_what_waited_as_long_and_nothing_newer(store: Store) -> None:
    async def answer(call: Call) -> web.Response:
        return web.Response(status=204 if call.id == "newer" else 500)

    tried = {"tries": 40, "first_tried_at": time.time() - 2 * WEEK}
    await _owe(store, "oldest", age=2 * WEEK + 1, **tried)
    await _owe(store, "behind-it", age=2 * WEEK + 1, due_at=time.time() + WEEK)
    await _owe(store, "newer", age=2 * WEEK - 1)
    async with Receiver(answer) as receiver:
        await _serve(store, receiver, 86_400, until={"oldest": "dead", "behind-it": "dead", "newer": "sent"})


def test_the_time_of_tries_grows_with_them_and_has_no_jump() -> None:
    times = [spanned(tries) for tries in range(60)]

    assert times[:3] == [0.0, 1.5, 4.5]
    assert all(0 < later - earlier <= 3600 for earlier, later in pairwise(times))
    assert spanned(10_000) > 86_400

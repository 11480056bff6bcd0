"""What stands before an Alertmanager is not it: a redirect tells nobody, what is too much at once is told in parts."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.station.alertmanager import Alertmanager
from gateway.station.channels import AlertRefused, ChannelFailed, Notice
from gateway.station.holding import AlertEvent
from gateway.station.mirroring import Mirroring
from gateway.station.store import Store
from tests.support.waiting import soon
from tests.unit.station.items import take_in

NOTICES = [
    Notice(event=AlertEvent.SUSPECT, key=f"k{number}", title="t", text="x", fields={}, began_at=1.0)
    for number in range(5)
]


async def _taken(_: web.Request) -> web.Response:
    return web.Response()


async def _elsewhere(_: web.Request) -> web.Response:
    raise web.HTTPMovedPermanently("/api/v2/status")


@pytest.fixture
async def behind_a_redirect() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/api/v2/alerts", _elsewhere)
    app.router.add_get("/api/v2/status", _taken)
    async with TestServer(app) as server:
        yield str(server.make_url(""))


@pytest.fixture
async def narrow() -> AsyncIterator[tuple[str, list[int]]]:
    """A way to an Alertmanager that lets two alerts through at once."""
    told: list[int] = []

    async def take(request: web.Request) -> web.Response:
        alerts = await request.json()
        if len(alerts) > 2:
            raise web.HTTPRequestEntityTooLarge(2, len(alerts))
        told.append(len(alerts))
        return web.Response()

    app = web.Application()
    app.router.add_post("/api/v2/alerts", take)
    async with TestServer(app) as server:
        yield str(server.make_url("")), told


async def test_an_alert_that_was_sent_elsewhere_is_not_told(behind_a_redirect: str) -> None:
    mirror = Alertmanager(behind_a_redirect, expiry=900.0)
    with pytest.raises(ChannelFailed, match="301"):
        await mirror.show(NOTICES)
    await mirror.close()


async def test_what_is_too_much_at_once_is_told_in_parts(narrow: tuple[str, list[int]], store_url: str) -> None:
    url, told = narrow
    mirror, store = Alertmanager(url, expiry=900.0), await Store.open(store_url)
    with pytest.raises(AlertRefused):
        await mirror.show(NOTICES)
    await take_in(store, [mirror.name], *"12345")
    stop = asyncio.Event()
    running = asyncio.create_task(Mirroring(store=store, mirror=mirror, desk="http://desk").run(stop))
    await soon(lambda: sum(told) == 5 * 2, 60, saying="each is told when it is new, and again with all that lasts")
    stop.set()
    await running
    assert max(told) == 2
    await mirror.close()
    await store.close()

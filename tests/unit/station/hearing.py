"""A channel that a test hears, and an outbox that sends to it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.station.channels import ChannelFailed, Notice
from gateway.station.outbox import Outbox
from gateway.station.store import Store


class Heard:
    """A channel that keeps what it was given; it may refuse, or hold on to an alert until it is let go."""

    def __init__(self, name: str, refuses: Callable[[Notice], bool] = lambda _: False) -> None:
        self.name = name
        self.notices: list[Notice] = []
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()
        self._refuses = refuses

    async def send(self, notice: Notice) -> None:
        self.asked += 1
        await self.open.wait()
        if self._refuses(notice):
            raise ChannelFailed("no")
        self.notices.append(notice)

    @property
    def tickets(self) -> list[str]:
        return [notice.fields["ticket"] for notice in self.notices]


@asynccontextmanager
async def sending(store: Store, *channels: Heard) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(Outbox(store=store, channels=channels, desk="http://desk").run(stop))
    try:
        yield
        assert not running.done()
    finally:
        stop.set()
        for channel in channels:
            channel.open.set()
        await running

"""A channel that a test hears, and an outbox that sends to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from gateway.station.channels import AlertRefused, ChannelFailed, Manner, Notice
from gateway.station.outbox import Outbox
from gateway.station.pace import Rate
from gateway.station.store import Store

RATE = Rate(most=10, span=60.0)


class Heard:
    """A channel that keeps what it was given; it may refuse, or hold on to an alert until it is let go."""

    def __init__(
        self,
        name: str,
        refuses: Callable[[Notice], bool] = lambda _: False,
        manner: Manner = Manner.EACH,
        at_once: int = 1,
    ) -> None:
        self.name = name
        self.manner = manner
        self.at_once = at_once
        self.answers: str | None = None
        self.notices: list[Notice] = []
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()
        self._refuses = refuses

    async def send(self, notice: Notice) -> str | None:
        self.asked += 1
        await self.open.wait()
        if self._refuses(notice):
            raise ChannelFailed("no")
        self.notices.append(notice)
        return self.answers

    async def close(self) -> None:
        pass

    @property
    def tickets(self) -> list[str]:
        return [notice.fields["ticket"] for notice in self.notices]


class Shown:
    """A mirror that keeps what it was shown; it may refuse some."""

    def __init__(self, name: str, refuses: Callable[[Notice], bool] = lambda _: False, expiry: float = 900.0) -> None:
        self.name = name
        self.expiry = expiry
        self.requests: list[Sequence[Notice]] = []
        self._refuses = refuses

    async def show(self, notices: Sequence[Notice]) -> None:
        if any(map(self._refuses, notices)):
            raise AlertRefused("one of them is no good")
        self.requests.append(notices)

    async def close(self) -> None:
        pass

    @property
    def tickets(self) -> set[str]:
        return {notice.fields["ticket"] for notices in self.requests for notice in notices}


@asynccontextmanager
async def sending(
    store: Store, *channels: Heard, rate: Rate = RATE, mirrors: Sequence[Shown] = ()
) -> AsyncIterator[None]:
    stop = asyncio.Event()
    outbox = Outbox(store=store, channels=channels, mirrors=mirrors, desk="http://desk", rate=rate)
    running = asyncio.create_task(outbox.run(stop))
    try:
        yield
        assert not running.done()
    finally:
        stop.set()
        for channel in channels:
            channel.open.set()
        await running

"""How many messages wait in a lane, asked of the broker on a channel of its own.

Never on the consuming connection: what makes that one silent would silence the answer, too. And never given up half
way, since the client closes a channel over an answer that nobody waits for.
"""

import asyncio
import logging
from dataclasses import dataclass

from aiormq.abc import AbstractChannel

from consumer.session import BROKER_ERRORS, Session
from gateway.contract.logs import event

log = logging.getLogger("consumer.depth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """What a queue holds for its consumers."""

    ready: int
    consumers: int


class Sounding:
    """Asks for one queue over one session."""

    def __init__(self, session: Session, queue: str) -> None:
        self._session = session
        self._queue = queue
        self._channel: AbstractChannel | None = None
        self._asking: asyncio.Task[Depth] | None = None

    async def depth(self, within: float) -> Depth | None:
        """Return the queue's depth, or None where `within` seconds bring no answer: none now, or there is no queue.

        A broker with an alarm answers when that is over; until then one question is on its way, not many.
        """
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="depth")
        await asyncio.wait({self._asking}, timeout=within)
        if not self._asking.done():
            return None
        asked, self._asking = self._asking, None
        if asked.cancelled():  # the client's way to say that the connection has gone
            self._channel = None
            return None
        try:
            return asked.result()
        except BROKER_ERRORS as error:
            event(log, "depth.unknown", logging.DEBUG, queue=self._queue, error=error)
            self._channel = None
            return None

    async def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> Depth:
        if self._channel is None:
            self._channel = await self._session.control_channel()
        answer = await self._channel.queue_declare(self._queue, passive=True)
        if answer is None:
            raise ConnectionError("no answer")
        return Depth(ready=answer.message_count or 0, consumers=answer.consumer_count or 0)

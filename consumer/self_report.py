"""What a node tells of itself from time to time, so that people see it without asking it (journal event `node`).

Owns when that is: when a session begins, when what it could do has changed, every `report_every` seconds, and at the
end. Looks at what there is, a few times a minute; nothing on the way of an item knows of it. Its word is noted and
never waited for: a lost one is followed by the next.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from consumer import census
from consumer.execution import Executor
from consumer.link import Link
from consumer.settings import Settings
from gateway.contract.envelope import APP_ID
from gateway.contract.journal import Condition, Event, EventName

_LOOK_SECONDS: Final = 2.0
"""Between two looks at whether something has changed; so often does it tell of itself at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the supervisor knows of its node."""

    obstacles: Sequence[str]
    """What keeps deliveries from being taken, run and settled."""
    under_way: int
    """Runs that have started and not ended."""
    waiting: int | None
    """Messages that are ready in its lane, where that is known."""


class SelfReport:
    """Tells of one node; `look` says how it is, `link` where to tell it, None while there is no session."""

    def __init__(
        self,
        settings: Settings,
        executor: Executor,
        *,
        look: Callable[[], Situation],
        link: Callable[[], Link | None],
    ) -> None:
        self._settings = settings
        self._executor = executor
        self._look = look
        self._link = link
        self._started_at = time.time()
        self._told: tuple[object, ...] = ()
        self._told_at = float("-inf")

    async def tell_on(self) -> None:
        """Tell for ever."""
        while True:
            self._tell_if_due()
            await asyncio.sleep(min(_LOOK_SECONDS, self._settings.report_every))

    def say_goodbye(self, link: Link) -> None:
        """Tell that this node ends, and is not to be missed."""
        link.journal.note(self._event(Condition.ENDED, self._look()))

    def _tell_if_due(self) -> None:
        link = self._link()
        if link is None:
            return
        situation = self._look()
        condition = _condition(situation, self._executor.slots)
        essence = (link, condition, tuple(situation.obstacles), self._executor.build)
        now = time.monotonic()
        if essence != self._told or now - self._told_at >= self._settings.report_every:
            self._told, self._told_at = essence, now
            link.journal.note(self._event(condition, situation))

    def _event(self, condition: Condition, situation: Situation) -> Event:
        executor, settings = self._executor, self._settings
        busy = min(situation.under_way, executor.slots)
        data: dict[str, Any] = {
            "lane": settings.lane.value,
            "state": condition.value,
            "obstacles": list(situation.obstacles),
            "every": settings.report_every,
            "build": executor.build,
            "version": APP_ID,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started_at": self._started_at,
            "waiting": situation.waiting,
            "slots": {
                "busy": busy,
                "free": max(0, executor.ready - busy),
                "away": max(0, executor.slots - max(executor.ready, busy)),
            },
            "limits": {
                "memory": settings.memory_limit,
                "recycle_rss": settings.recycle_rss,
                "recycle_runs": settings.recycle_runs,
            },
            **census.words(executor.census()),
        }
        return Event(event=EventName.NODE, at=time.time(), ticket="", kind="", node=settings.name, data=data)


def _condition(situation: Situation, slots: int) -> Condition:
    if "draining" in situation.obstacles:
        return Condition.DRAINING
    if situation.obstacles:
        return Condition.HINDERED
    return Condition.READY if slots else Condition.IDLE

"""Where a node waits while its handler's build is stopped: nothing is claimed, nothing charged, until it may go on.

Owns the waiting and the probe runs. Decides nothing about the build: whoever lifts the guard does.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection
from typing import Final

from consumer.execution import Executor, RunOrder, RunReport
from consumer.fence import FenceUnavailable
from consumer.guard import Guard
from consumer.link import Link
from consumer.policy import Policies
from consumer.settings import Settings
from consumer.storm import OnStorm
from consumer.storm_memory import OwnMemory, StoreMemory, StormMemory
from gateway.contract.logs import event
from gateway.contract.outcomes import Outcome

log = logging.getLogger("consumer.storm")

_LOOK_SECONDS: Final = 0.5


class Shelter:
    """The guard of one node, and the wait that it asks for; `ends` is set when the node is told to end."""

    def __init__(self, settings: Settings, executor: Executor, *, ends: asyncio.Event) -> None:
        self._executor = executor
        self._ends = ends
        self._on_storm = settings.storm
        self._probe = settings.probe
        self._probe_every = settings.storm_probe_every
        self._every = settings.beat
        self._memory = None if settings.storm is OnStorm.OFF else _memory(settings)
        self.guard = Guard(
            self._memory,
            settings.topology,
            node=settings.name,
            lane=settings.lane,
            build=lambda: executor.build,
        )

    async def look(self) -> None:
        """Learn whether this build has been stopped; without an answer the first start asks again."""
        try:
            await self.guard.look()
        except FenceUnavailable as error:
            event(log, "storm.store_unavailable", logging.WARNING, error=error)

    async def look_on(self) -> None:
        """Go on looking for ever, at the pace of the beats."""
        while True:
            await asyncio.sleep(self._every)
            await self.look()

    async def close(self) -> None:
        """Let go of the store."""
        if self._memory is not None:
            await self._memory.close()

    async def wait(self, link: Link, policies: Policies, *, under_way: Collection[object]) -> bool:
        """Return when the build may run again, the session is lost or the node ends; True when it is to end by itself.

        What is `under_way` may finish first, also after the guard was lifted: the next session is another one.
        `policies` has the limits of a probe run.
        Raises SessionLost.
        """
        probe_at = 0.0
        while (self.guard.is_tripped or under_way) and not self._ends.is_set() and not link.session.is_lost:
            await self._announce(link)
            try:
                if wish := self.guard.wish:
                    await self.guard.lift(link, wish)
                elif under_way:
                    pass  # and every slot may be taken
                elif self._probe is not None and time.monotonic() >= probe_at:
                    probe_at = time.monotonic() + self._probe_every
                    if await self._passes(link, self._probe.order(policies)):
                        await self.guard.lift(link, "probe")
                elif self._on_storm is OnStorm.EXIT:
                    return True
            except FenceUnavailable as error:
                event(log, "storm.store_unavailable", logging.WARNING, error=error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ends.wait(), _LOOK_SECONDS)
        return False

    async def _announce(self, link: Link) -> None:
        try:
            await self.guard.announce(link)
        except FenceUnavailable as error:
            event(log, "storm.store_unavailable", logging.WARNING, error=error)

    async def _passes(self, link: Link, order: RunOrder) -> bool:
        run = asyncio.ensure_future(self._executor.run(order))
        ends = asyncio.ensure_future(self._ends.wait())
        lost = asyncio.ensure_future(link.session.lost)
        try:
            await asyncio.wait({run, ends, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ends.cancel()
            lost.cancel()
        if not run.done():
            self._executor.revoke(order.run, outcome=Outcome.RELEASED, grace=0)
        report: RunReport = await run
        level = logging.INFO if report.outcome is Outcome.SUCCEEDED else logging.WARNING
        event(log, "storm.probed", level, kind=order.kind, outcome=report.outcome, code=report.code or "-")
        return report.outcome is Outcome.SUCCEEDED


def _memory(settings: Settings) -> StormMemory:
    rule = settings.storm_rule
    return StoreMemory(settings.store, rule) if settings.fence else OwnMemory(rule)

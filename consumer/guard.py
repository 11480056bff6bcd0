"""The storm guard of one node: hears how runs end, and knows whether the handler's build has been stopped (C12).

Owns what this node knows of that, and the words in which it is told. The rule is `storm`'s, the memory that all nodes
of a build share is `storm_memory`'s. Never stops anything itself: the supervisor looks at `tripped`.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import orjson

from consumer import metrics
from consumer.execution import RunReport
from consumer.fence import FenceUnavailable
from consumer.link import Link
from consumer.storm import STOPPED, Storm, Tally, first_run
from consumer.storm_memory import StormMemory
from gateway.contract.envelope import APP_ID, Envelope
from gateway.contract.ids import uuid7
from gateway.contract.journal import Event, EventName
from gateway.contract.logs import event
from gateway.contract.outcomes import CHARGED, Outcome
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire

log = logging.getLogger("consumer.storm")

ALERT: Final = "fleet.storm"


class Guard:
    """What one node knows of the build it runs; `memory` is None where the guard is switched off."""

    def __init__(
        self, memory: StormMemory | None, topology: Topology, *, node: str, lane: Lane, build: Callable[[], str]
    ) -> None:
        self._memory = memory
        self._topology = topology
        self._node = node
        self._lane = lane
        self._build = build
        self._survived = 0
        self._is_sure = False
        self._is_told = False
        self._wish = ""
        self.storm: Storm | None = None
        self.tripped = asyncio.Event()

    @property
    def is_tripped(self) -> bool:
        """Tell whether nothing of this build may start."""
        return self.storm is not None

    @property
    def wish(self) -> str:
        """Who wants the guard lifted; empty when nobody does."""
        return self._wish if self.is_tripped else ""

    def ask_to_lift(self, by: str) -> None:
        """Have the guard lifted as soon as that can be done and told; without a storm there is nothing to lift."""
        event(log, "storm.lift_asked", by=by, tripped=self.is_tripped)
        self._wish = by if self.is_tripped else ""

    async def look(self) -> None:
        """Learn what other nodes know, and tell them of the runs that were survived; raises FenceUnavailable."""
        if self._memory is not None:
            await self._note()

    @property
    def may_err(self) -> bool:
        """Tell whether to look again before a start: it is a suspect's, or the first of all."""
        return self._memory is not None and (self._lane is Lane.SUSPECTS or not self._is_sure)

    async def mourn(self, envelope: Envelope, report: RunReport) -> None:
        """Put a death on record, for all nodes to see, before it is charged: so the one that completes a storm is not.

        Raises FenceUnavailable.
        """
        if self._memory is not None and not self.is_tripped:
            is_first = first_run(envelope, self._lane, report.outcome) is False
            await self._note(*([envelope.ticket, f"{report.code}: {report.detail}"] if is_first else []))

    def counted(self, envelope: Envelope, report: RunReport) -> RunReport:
        """Take note of a run, and return how it counts: as it ended, or given back, since its build is to blame."""
        if first_run(envelope, self._lane, report.outcome):
            self._survived += 1
        if not self.is_tripped or report.outcome not in CHARGED:
            return report
        ended = f"this run ended as {report.outcome} ({report.code})"
        detail = f"not charged, the handler's build is to blame: {ended}"
        return replace(report, outcome=Outcome.RELEASED, code=STOPPED, detail=detail, after=None)

    async def announce(self, link: Link) -> None:
        """Tell of the storm, unless a node has done that before; raises SessionLost, FenceUnavailable."""
        storm = self.storm
        if self._memory is None or storm is None or self._is_told:
            return
        if await self._memory.owes_alert(self._build()):
            await self._tell(link, storm, "tripped", storm.why)
            await self._memory.announced(self._build())
        self._is_told = True

    async def lift(self, link: Link, by: str) -> None:
        """Let the build run again, on every node, with a clean window; raises SessionLost, FenceUnavailable."""
        storm = self.storm
        if self._memory is None or storm is None:
            return
        self._wish = ""
        was_there = await self._memory.lift(self._build())
        self._learn(None)
        if was_there:
            await self._tell(link, storm, "lifted", f"by {by}")

    async def _note(self, died: str | None = None, evidence: str = "") -> None:
        assert self._memory is not None  # noqa: S101 - its callers have looked
        now, survived = time.time(), self._survived
        tallies = [Tally(at=now, survived=survived, died=died, evidence=evidence)] if survived or died else []
        self._survived = 0
        try:
            storm = await self._memory.note(self._build(), tallies, node=self._node, now=now)
        except FenceUnavailable:
            self._survived += survived
            raise
        self._is_sure = True
        self._learn(storm)

    def _learn(self, storm: Storm | None) -> None:
        if storm is not None and self.storm is None:
            event(log, "storm.tripped", logging.ERROR, build=self._build(), why=storm.why, items=",".join(storm.items))
            self._is_told = False
            self.tripped.set()
        if storm is None and self.storm is not None:
            event(log, "storm.lifted", logging.WARNING, build=self._build())
            self.tripped.clear()
        self.storm = storm
        metrics.STORM_GUARD.set(storm is not None)

    async def _tell(self, link: Link, storm: Storm, state: str, why: str) -> None:
        facts: dict[str, Any] = {
            "state": state,
            "build": self._build(),
            "why": why,
            "items": list(storm.items),
            "evidence": storm.evidence,
            "runs": storm.runs,
            "deaths": storm.deaths,
            "since": storm.since,
            "seen_by": storm.by,
            "host": socket.gethostname(),
            "lane": self._lane,
        }
        now = time.time()
        told = {"event": ALERT, "at": now, "node": self._node, **facts, "text": _sentence(facts)}
        wire = Wire(
            body=orjson.dumps(told),
            message_id=uuid7(),
            type=ALERT,
            content_type="application/json",
            timestamp=now,
            app_id=APP_ID,
        )
        await link.session.publish(self._topology.to_alerts(ALERT), wire, mandatory=False)
        await link.journal.write(Event(event=EventName.STORM, at=now, ticket="", kind="", node=self._node, data=facts))


def _sentence(facts: dict[str, Any]) -> str:
    named = ", ".join(facts["items"])
    if facts["state"] == "lifted":
        return f"The handler build {facts['build']} may run again ({facts['why']}). The items were: {named}"
    return (
        f"The handler build {facts['build']} kills its workers: {facts['why']}. Nothing of it is started or charged any"
        f" more. Items: {named}"
    )

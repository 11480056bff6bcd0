"""The breakers of one node, and what they mean for a delivery: hold it, let it start, judge what it says (C11).

The shell around `breaker`: owns the clock, the jitter, the bound on names that handlers invent, and what the journal
and the node's own pages hear. Starts and settles nothing.
"""

import logging
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from consumer.breaker import Breaker, Rules, State
from consumer.execution import RunReport
from consumer.link import Link
from consumer.policy import MAX_DEPENDENCY, Policy
from consumer.settings import Settings
from consumer.verdict import Ending
from gateway.contract.envelope import Envelope
from gateway.contract.history import RunRecord
from gateway.contract.journal import Event, EventName
from gateway.contract.logs import event
from gateway.contract.outcomes import Outcome
from gateway.contract.text import clip

log = logging.getLogger("consumer.dependencies")

MAX_BREAKERS: Final = 64
ALONE: Final = "down_for_nobody_else"
"""Code of a failure whose item says that a dependency is down with which its peers succeed."""


@dataclass(slots=True)
class Pass:
    """That an item may start; of these dependencies it is the probe, until its end is told."""

    envelope: Envelope
    policy: Policy
    probes: set[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerView:
    """One breaker, as it stands."""

    dependency: str
    state: State
    until: float | None
    """Unix seconds of the next probe; None while closed."""
    why: str


class Dependencies:
    """All breakers of one node; they outlive its sessions."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rules = Rules(
            items=settings.breaker_items,
            within=settings.breaker_within,
            pause=settings.breaker_pause,
            pause_cap=max(settings.breaker_pause, settings.breaker_pause_cap),
        )
        self._breakers: dict[str, Breaker] = {}
        self._told: dict[str, tuple[State, float] | None] = {}
        self._told_on: Link | None = None

    def views(self) -> Iterator[BreakerView]:
        """Yield every breaker, by name."""
        now, wall = time.monotonic(), time.time()
        for name, breaker in sorted(self._breakers.items()):
            until = None if breaker.state is State.CLOSED else wall + breaker.until - now
            yield BreakerView(dependency=name, state=breaker.state, until=until, why=breaker.why)

    def admit(self, link: Link, envelope: Envelope, policy: Policy) -> Pass | Ending:
        """Let an item start, or return the ending of one that waits instead, not started."""
        now, fit = time.monotonic(), _is_fit(envelope)
        needed = self._needed(envelope, policy, now)
        closed = {name: each for name, each in needed.items() if not each.may_start(fit=fit, now=now)}
        if closed:
            holds = {name: each.hold(fit=fit, now=now, jitter=random.random()) for name, each in closed.items()}
            name = max(holds, key=lambda held: holds[held])
            return self._held(envelope, name, holds[name])
        admitted = Pass(envelope, policy, {name for name, breaker in needed.items() if breaker.start()})
        self.tell(link)
        return admitted

    def ended(self, link: Link, admitted: Pass, report: RunReport, ending: Ending) -> Ending:
        """Hear how a run ended; returns its ending, changed where a breaker has a say in it."""
        now = time.monotonic()
        if report.outcome is Outcome.SUCCEEDED:
            needed = self._needed(admitted.envelope, admitted.policy, now)
            for name in needed.keys() | admitted.probes:
                self._breakers[name].succeed(admitted.envelope.ticket, now=now, probe=name in admitted.probes)
            admitted.probes.clear()
        elif report.outcome is Outcome.DEPENDENCY:
            ending = self._said(admitted, report, ending, now)
        self.leave(admitted)
        self.tell(link)
        return ending

    def leave(self, admitted: Pass) -> None:
        """Hear that an item is over without a word about what it is the probe of: others may try then."""
        while admitted.probes:
            self._breakers[admitted.probes.pop()].give_up()

    def tell(self, link: Link) -> None:
        """Tell journal and log of every breaker that changed; on a new session of those, too, that were told before."""
        if not self._breakers:
            return
        if link is not self._told_on:
            self._told_on, self._told = link, dict.fromkeys(self._told)
        for view in self.views():
            breaker = self._breakers[view.dependency]
            state = (view.state, 0.0 if view.state is State.CLOSED else breaker.until)
            if self._told.get(view.dependency, (State.CLOSED, 0.0)) == state:
                continue
            self._told[view.dependency] = state
            data = {
                "dependency": view.dependency,
                "state": view.state,
                "why": view.why,
                "until": view.until,
                "lane": self._settings.lane,
            }
            link.journal.note(_event(self._settings.name, data))
            event(log, f"breaker.{view.state}", logging.WARNING, dependency=view.dependency, why=view.why)

    def _said(self, admitted: Pass, report: RunReport, ending: Ending, now: float) -> Ending:
        envelope = admitted.envelope
        name = clip(report.dependency or "unnamed", MAX_DEPENDENCY)
        breaker = self._breaker(name, now)
        if breaker is None:
            return ending
        to_blame = breaker.say_down(
            envelope.ticket,
            envelope.kind,
            after=report.after or 0.0,
            now=now,
            jitter=random.random(),
            probe=name in admitted.probes,
        )
        admitted.probes.discard(name)
        if to_blame:
            detail = f"it says again and again that {name} is down, while others that need it succeed"
            record = replace(ending.record, outcome=Outcome.FAILED, code=ALONE)
            return replace(ending, outcome=Outcome.FAILED, record=record, detail=detail)
        if breaker.state is State.CLOSED:
            return ending
        wait = breaker.hold(fit=_is_fit(envelope), now=now, jitter=random.random(), said_so=True)
        return replace(ending, wait=wait)

    def _held(self, envelope: Envelope, name: str, seconds: float) -> Ending:
        record = RunRecord(
            attempt=envelope.attempt,
            outcome=Outcome.DEPENDENCY,
            node=self._settings.name,
            started=time.time(),
            code="breaker",
        )
        detail = f"not started: {name}, which it needs, is down"
        return Ending(outcome=Outcome.DEPENDENCY, record=record, detail=detail, wait=seconds)

    def _needed(self, envelope: Envelope, policy: Policy, now: float) -> dict[str, Breaker]:
        return {
            name: breaker
            for name, breaker in self._breakers.items()
            if name in policy.needs or breaker.is_needed_by(envelope.kind, now)
        }

    def _breaker(self, name: str, now: float) -> Breaker | None:
        """Return the breaker of that name; None where handlers invent more names than there may be."""
        if name not in self._breakers and len(self._breakers) >= MAX_BREAKERS:
            idle = [known for known, breaker in self._breakers.items() if breaker.is_idle(now)]
            if not idle:
                event(log, "breaker.too_many", logging.WARNING, dependency=name, most=MAX_BREAKERS)
                return None
            for known in idle:
                del self._breakers[known]
                self._told.pop(known, None)
        return self._breakers.setdefault(name, Breaker(self._rules))


def _is_fit(envelope: Envelope) -> bool:
    """Tell whether an item may be a probe: one that took no worker along."""
    return envelope.crashes == 0 and envelope.suspect is None


def _event(node: str, data: dict[str, Any]) -> Event:
    return Event(event=EventName.BREAKER, at=time.time(), ticket="", kind="", node=node, data=data)

"""From an item to its order, and from what happened to the ending that a decision rests on. Pure but for the clock."""

import time
from typing import Final

from consumer.execution import RunOrder, RunReport
from consumer.policy import Policy
from consumer.verdict import Ending
from gateway.contract.envelope import Envelope, Spent
from gateway.contract.history import RunRecord
from gateway.contract.outcomes import Outcome
from gateway.contract.trace_context import TraceContext


def is_stranger(envelope: Envelope) -> bool:
    """Tell whether an item came past the door; then its preflight runs before the handler in each attempt (P14)."""
    return envelope.admission is None or not envelope.admission.client


def order(envelope: Envelope, policy: Policy, *, run: str, trace: TraceContext | None = None) -> RunOrder:
    """Return the order for one licensed run, which is to be called `run`; `trace` is its span's, where it has one."""
    return RunOrder(
        run=run,
        ticket=envelope.ticket,
        kind=envelope.kind,
        generation=envelope.generation,
        attempt=envelope.attempt,
        interruptions=envelope.interruptions,
        content_type=envelope.content_type,
        content_encoding=envelope.content_encoding,
        charset=envelope.admission.charset if envelope.admission else None,
        body=envelope.body,
        stored=envelope.admission.stored if envelope.admission else "",
        examine=is_stranger(envelope),
        deadline=policy.run_deadline,
        memory_limit=policy.memory_limit,
        heartbeat=policy.heartbeat,
        suspect=envelope.suspect is not None,
        spent=envelope.spent,
        trace=trace or (envelope.trace if envelope.traceparent else None),
    )


def ended(envelope: Envelope, report: RunReport, node: str) -> Ending:
    """Return how a run ended, as its executor reports it."""
    error_type = report.evidence.get("error_type")
    return Ending(
        outcome=report.outcome,
        record=RunRecord(
            attempt=envelope.attempt,
            outcome=report.outcome,
            node=node,
            worker=report.worker,
            started=report.started,
            seconds=report.seconds,
            code=report.code,
        ),
        detail=report.detail,
        error_type=error_type if isinstance(error_type, str) else None,
        after=report.after,
        spent=report.spent,
        admission=report.admission,
    )


def vanished(envelope: Envelope, outcome: Outcome, spent: Spent, holder: str = "") -> Ending:
    """Return the ending of a run whose holder is gone, `outcome` being lost or outage, or released if it never began.

    `spent` is on its record; `holder` names the node where that is known.
    """
    record = RunRecord(
        attempt=envelope.attempt, outcome=outcome, node=holder, started=time.time(), code=_HOLDER_VANISHED
    )
    return Ending(outcome=outcome, record=record, detail=_VANISHED[outcome], spent=spent)


def was_spared(envelope: Envelope) -> bool:
    """Tell whether the last thing that became of an item is that its holder died before its run began.

    That happens once to whoever is near a death. What meets it again at once may be what brings it about, and has to be
    charged some time.
    """
    newest = envelope.history.newest
    return newest is not None and newest.outcome is Outcome.RELEASED and newest.code == _HOLDER_VANISHED


def unstarted(envelope: Envelope, node: str) -> Ending:
    """Return the ending of an item that a draining node gives back before it started."""
    record = RunRecord(attempt=envelope.attempt, outcome=Outcome.RELEASED, node=node, started=time.time(), code="drain")
    return Ending(outcome=Outcome.RELEASED, record=record, detail="released before it started: the node drains")


def unlicensed(envelope: Envelope, node: str) -> Ending:
    """Return the ending of an item that may not start, since the store says neither yes nor no."""
    record = RunRecord(
        attempt=envelope.attempt, outcome=Outcome.DEPENDENCY, node=node, started=time.time(), code="store"
    )
    return Ending(outcome=Outcome.DEPENDENCY, record=record, detail="not started: the store gives no answer")


_HOLDER_VANISHED: Final = "holder vanished"
_VANISHED: Final = {
    Outcome.OUTAGE: "its holder lost the broker's connection",
    Outcome.LOST: "whoever held it vanished without a word: the node died, or was killed",
    Outcome.RELEASED: "the node that was to run it died, or was killed, before it began",
}

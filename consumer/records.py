"""What the journal is told about an item: events from decisions. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from consumer.suspicion import suspicion
from consumer.verdict import Decision, next_message
from gateway.contract.envelope import Envelope
from gateway.contract.history import RunRecord
from gateway.contract.journal import Event, EventName, Verdict
from gateway.contract.outcomes import Outcome
from gateway.contract.topology import Lane


def record(name: EventName, envelope: Envelope, data: Mapping[str, Any], *, node: str, at: float) -> Event:
    """Return one event about an item under its stamp; `at` in Unix seconds.

    It names the item's client: a door that was killed may never have told whose ticket it accepted.
    """
    admission = envelope.admission
    owner = {"client": admission.client} if admission is not None and admission.client else {}
    return Event(
        event=name,
        at=at,
        ticket=envelope.ticket,
        kind=envelope.kind,
        node=node,
        stamp=envelope.stamp,
        crashes=envelope.crashes,
        data={**data, **owner},
    )


def of(
    envelope: Envelope, decision: Decision, *, node: str, lane: Lane, at: float, data: Mapping[str, Any]
) -> list[Event]:
    """Return the events that tell of a decision: how the run ended, what was refused, where the item ended.

    `data` is added to what is told of the run (evidence, build); `at` in Unix seconds.
    """
    found: list[Event] = []

    def tell(name: EventName, facts: Mapping[str, Any]) -> None:
        found.append(record(name, envelope, facts, node=node, at=at))

    if decision.outcome is not None and decision.record is not None:
        facts = {
            "outcome": decision.outcome,
            "verdict": decision.verdict,
            "lane": lane,
            "seconds": decision.record.seconds,
            "started_at": decision.record.started,
            "worker": decision.record.worker,
            **data,
        }
        if decision.record.code:
            facts["code"] = decision.record.code
        if decision.detail:
            facts["detail"] = decision.detail
        if not decision.final:
            facts |= {"delay": decision.delay, "to_lane": decision.lane}
        if (became := suspicion(envelope, decision)) is not None:
            facts["suspicion"] = became
        tell(_name(decision.outcome, decision.record), facts)
    if decision.outcome is Outcome.INADMISSIBLE:
        evidence = data.get("evidence") or {}
        refusal = {"violations": evidence.get("violations", []), "bytes": len(envelope.body), "lane": lane}
        tell(EventName.REFUSED, refusal)
    if decision.pardoned:
        found.append(record(EventName.ACCEPTED, next_message(envelope, decision), {"lane": lane}, node=node, at=at))
    ended = {"reason": decision.reason, "detail": decision.detail, "outcome": decision.outcome}
    if decision.verdict is Verdict.QUARANTINE:
        tell(EventName.QUARANTINED, ended)
    elif decision.verdict is Verdict.DISCARD:
        tell(EventName.DISCARDED, ended)
    return found


def _name(outcome: Outcome, run: RunRecord) -> EventName:
    if outcome is Outcome.OVERSPENT and run.worker == 0:  # whoever has seen a run end names its worker
        return EventName.CLAIMED
    return _NAMES.get(outcome, EventName.FINISHED)


_NAMES: Final = {
    Outcome.LOST: EventName.CLAIMED,
    Outcome.OUTAGE: EventName.CLAIMED,
    Outcome.RELEASED: EventName.RELEASED,
}

"""What follows from an outcome: the next message of the item, its lane and its delay, or its end.

Pure: randomness and clocks come in as arguments. A decision is a value that can be written down and repeated, so that
whoever finds it after a crash carries it out instead of deciding anew.
"""

from dataclasses import field, replace
from typing import Any, Final

import orjson

from consumer.claim import overspent, waited
from consumer.isolation import MOLD_LOST, is_convicted, isolated_for
from consumer.policy import OnExhausted, Policy
from consumer.storm import STOPPED
from gateway.contract.envelope import Admission, Envelope, Spent, supersede
from gateway.contract.history import RunRecord
from gateway.contract.journal import Verdict
from gateway.contract.outcomes import CHARGED, CRASHES, UNCHARGED, Outcome, Reason
from gateway.contract.topology import Lane
from gateway.contract.values import value


@value(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run, or the wait for one, ended: the facts a decision rests on."""

    outcome: Outcome
    record: RunRecord
    detail: str = ""
    error_type: str | None = None
    after: float | None = None
    """Seconds that must pass at least before the next run."""
    wait: float | None = None
    """Seconds that the breaker of its dependency asks for, in place of a backoff."""
    spent: Spent = field(default_factory=Spent)
    admission: Admission | None = None


@value(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is done about one start, once and for all; the numbers are those of the next message."""

    verdict: Verdict
    outcome: Outcome | None
    """None where a claim ended the item without a run."""
    attempt: int
    crashes: int
    interruptions: int
    waits: int = 0
    waiting_since: float = 0.0
    """Unix seconds; 0 while the item waits for no dependency."""
    record: RunRecord | None
    lane: Lane = Lane.WORK
    delay: float = 0.0
    """Seconds in the delay ladder."""
    suspect: str | None = None
    reason: Reason | None = None
    detail: str = ""
    spent: Spent = field(default_factory=Spent)
    admission: Admission | None = None
    pardoned: bool = False
    """An operator gave the attempts back: the next message belongs to the next generation (`reset`)."""

    @property
    def final(self) -> bool:
        """True when the item ends here, for good or until somebody replays it."""
        return self.verdict in _FINAL

    @property
    def closes(self) -> bool:
        """True when nothing of this generation may start any more."""
        return self.final or self.pardoned


_FINAL: Final = frozenset({Verdict.ACK, Verdict.QUARANTINE, Verdict.DISCARD})
_BUDGETS: Final = frozenset({Reason.ATTEMPTS_EXHAUSTED, Reason.CRASHES_EXHAUSTED, Reason.INTERRUPTIONS_EXHAUSTED})
_DEPENDENCY_FLOOR: Final = 1.0
"""Seconds: what is down now is down in the next moment, too."""
_UNCHARGED_FLOOR: Final = frozenset({Outcome.LOST, Outcome.OUTAGE})


def backoff(attempt: int, policy: Policy, jitter: float) -> float:
    """Return the delay before run `attempt + 1` in seconds: exponential, capped, with full jitter in [0, 1) (C4)."""
    return jitter * min(policy.backoff_cap, policy.backoff_base * 2.0 ** min(attempt - 1, 63))


def decide(
    envelope: Envelope, ending: Ending, policy: Policy, *, jitter: float, reclaim_floor: float = 0.0
) -> Decision:
    """Decide about one ended start.

    `jitter` is a random number in [0, 1). `reclaim_floor` in seconds is the shortest delay of an item whose holder
    vanished, and of one whose build was stopped; it exceeds the grace after which a cut-off run is killed, so that one
    item never runs twice at once (P10).
    """
    outcome = ending.outcome
    charged, crashed = outcome in CHARGED, outcome in CRASHES
    attempt = envelope.attempt + charged
    crashes = envelope.crashes + crashed
    uncharged = outcome in UNCHARGED
    waits = outcome is Outcome.DEPENDENCY
    ended_at = ending.record.started + ending.record.seconds
    plan: dict[str, Any] = {
        "outcome": outcome,
        "record": ending.record,
        "detail": ending.detail,
        "spent": ending.spent,
        "admission": ending.admission,
        "attempt": attempt,
        "crashes": crashes,
        "interruptions": envelope.interruptions + uncharged,
        "waits": envelope.waits + waits,
        "waiting_since": _waiting_since(envelope, ended_at, charged=charged, waits=waits),
    }
    if outcome is Outcome.SUCCEEDED:
        return Decision(verdict=Verdict.ACK, **plan)
    over = _hopeless(ending, policy)
    words = overspent(envelope.spent + ending.spent, policy)
    if over is None and charged and words is not None:
        over, plan["outcome"] = Reason.OVERSPENT, Outcome.OVERSPENT
        plan["record"] = replace(ending.record, outcome=Outcome.OVERSPENT)
        plan["detail"] = f"{words}; the last run was {outcome}: {ending.detail}"
    if over is None and crashed and is_convicted(envelope, policy):
        over = Reason.CRASHES_EXHAUSTED
        plan["detail"] = f"convicted: it had died before, and died again in isolation; {ending.detail}"
    over = over or _used_up(policy, plan, crashed=crashed, charged=charged)
    left = policy.max_wait - (ended_at - plan["waiting_since"])
    if over is None and waits and left < 0:
        over, plan["detail"] = Reason.DEPENDENCY, f"{waited(policy.max_wait - left, policy)}; {ending.detail}"
    if over is not None:
        ends = policy.on_exhausted is OnExhausted.DISCARD and outcome is not Outcome.MALFORMED
        return Decision(verdict=Verdict.DISCARD if ends else Verdict.QUARANTINE, reason=over, **plan)
    suspect = isolated_for(envelope, outcome, ending.record.code)
    delay = backoff(envelope.attempt, policy, jitter) if charged else 0.0
    if waits:
        delay = backoff(envelope.waits + 1, policy, jitter) if ending.wait is None else ending.wait
        delay = max(delay, min(policy.backoff_base, _DEPENDENCY_FLOOR))
    if outcome is Outcome.RELEASED and ending.record.code == MOLD_LOST and suspect:
        delay = backoff(envelope.interruptions + 1, policy, jitter)
    # What a stopped build gave back would go from node to node as long as one of them has not heard of the storm.
    if outcome in _UNCHARGED_FLOOR or (outcome is Outcome.RELEASED and ending.record.code == STOPPED):
        delay = max(delay, reclaim_floor)
    if ending.after is not None:
        # No mere floor: what was told the same seconds in the same moment must not come back in one moment (D33).
        delay = delay + ending.after if ending.wait is None else max(delay, ending.after)
    return Decision(
        verdict=Verdict.RETRY if charged or waits else Verdict.RELEASE,
        lane=Lane.SUSPECTS if suspect else Lane.WORK,
        suspect=suspect,
        delay=min(delay, left) if waits else delay,  # the end of its patience is told when it comes, not hours later
        **plan,
    )


def end_at_claim(envelope: Envelope, verdict: Verdict, reason: Reason, detail: str) -> Decision:
    """Decide about an item whose budget was used up before this delivery: it ends without another record."""
    return Decision(
        verdict=verdict,
        outcome=None,
        attempt=envelope.attempt,
        crashes=envelope.crashes,
        interruptions=envelope.interruptions,
        waits=envelope.waits,
        waiting_since=envelope.waiting_since,
        record=None,
        reason=reason,
        detail=detail,
    )


def excused(decision: Decision) -> Decision:
    """Return what is done instead where an operator has given the attempts back that the item was ended for."""
    if decision.reason not in _BUDGETS:
        return decision
    return replace(pardon(), outcome=decision.outcome, record=decision.record, admission=decision.admission)


def pardon() -> Decision:
    """Decide about an item whose attempts an operator has given back: it begins anew, with its history."""
    return Decision(
        verdict=Verdict.RELEASE, outcome=None, attempt=1, crashes=0, interruptions=0, record=None, pardoned=True
    )


def next_message(envelope: Envelope, decision: Decision) -> Envelope:
    """Return the message that carries the decision: for a lane, or for quarantine with its reason."""
    final, record, history = decision.final, decision.record, envelope.history
    if record is not None:
        goes_on = record.outcome is Outcome.DEPENDENCY and envelope.waits > 0 and envelope.waiting_since > 0
        history = history.add_wait(record) if goes_on else history.add(record)
    return supersede(
        envelope,
        attempt=envelope.attempt if final else decision.attempt,
        crashes=decision.crashes,
        interruptions=decision.interruptions,
        waits=decision.waits,
        waiting_since=decision.waiting_since,
        suspect=envelope.suspect if final else decision.suspect,
        spent=Spent() if decision.pardoned else envelope.spent + decision.spent,
        generation=envelope.generation + decision.pardoned,
        history=history,
        admission=envelope.admission or decision.admission,
        reason=str(decision.reason) if decision.reason else None,
        detail=decision.detail or None if final else None,
    )


def write(decision: Decision) -> str:
    """Return the decision as text for the store."""
    admission = decision.admission
    return orjson.dumps(
        {
            "verdict": decision.verdict,
            "outcome": decision.outcome,
            "attempt": decision.attempt,
            "crashes": decision.crashes,
            "interruptions": decision.interruptions,
            "waits": decision.waits,
            "waiting_since": decision.waiting_since,
            "record": None if decision.record is None else decision.record.packed(),
            "lane": decision.lane,
            "delay": decision.delay,
            "suspect": decision.suspect,
            "reason": decision.reason,
            "detail": decision.detail,
            "spent": [decision.spent.tokens, decision.spent.usd],
            "admission": None
            if admission is None
            else {name: getattr(admission, name) for name in Admission.__slots__},
            **({"pardoned": True} if decision.pardoned else {}),
        }
    ).decode()


def read(text: str) -> Decision:
    """Read a decision that `write` wrote; raises ValueError when it is none."""
    try:
        row = orjson.loads(text)
        tokens, usd = row["spent"]
        return Decision(
            verdict=Verdict(row["verdict"]),
            outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
            attempt=row["attempt"],
            crashes=row["crashes"],
            interruptions=row["interruptions"],
            waits=row.get("waits", 0),  # decisions of a version that did not count them are still in stores
            waiting_since=row.get("waiting_since", 0.0),
            record=None if row["record"] is None else RunRecord.unpacked(row["record"]),
            lane=Lane(row["lane"]),
            delay=row["delay"],
            suspect=row["suspect"],
            reason=None if row["reason"] is None else Reason(row["reason"]),
            detail=row["detail"],
            spent=Spent(tokens=tokens, usd=usd),
            admission=None if row["admission"] is None else Admission(**row["admission"]),
            pardoned=row.get("pardoned", False),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a decision: {error}") from error


def _hopeless(ending: Ending, policy: Policy) -> Reason | None:
    match ending.outcome:
        case Outcome.REJECTED:
            return Reason.REJECTED
        case Outcome.OVERSPENT:
            return Reason.OVERSPENT
        case Outcome.INADMISSIBLE:
            return Reason.INADMISSIBLE
        case Outcome.MALFORMED:
            return Reason.MALFORMED
        case Outcome.FAILED if ending.error_type is not None and _named(ending.error_type, policy.permanent):
            return Reason.REJECTED
        case _:
            return None


def _named(error_type: str, permanent: frozenset[str]) -> bool:
    """Tell whether a policy names the class, by its full name or by the last part alone."""
    return error_type in permanent or error_type.rpartition(".")[2] in permanent


def _used_up(policy: Policy, plan: dict[str, Any], *, crashed: bool, charged: bool) -> Reason | None:
    if crashed and plan["crashes"] >= policy.max_crashes:
        return Reason.CRASHES_EXHAUSTED
    if charged and plan["attempt"] > policy.max_attempts:
        return Reason.CRASHES_EXHAUSTED if crashed else Reason.ATTEMPTS_EXHAUSTED
    if not charged and plan["interruptions"] - plan["waits"] > policy.max_interruptions:
        return Reason.INTERRUPTIONS_EXHAUSTED
    return None


def _waiting_since(envelope: Envelope, ended_at: float, *, charged: bool, waits: bool) -> float:
    """Return when the item's wait for a dependency began, 0 for none.

    A charged run ends it: the item got through to something else. What merely interrupted the wait (a release, an
    outage) does not, or a deploy each day would let an item wait for ever.
    """
    if charged:
        return 0.0
    if not waits:
        return envelope.waiting_since
    return min(envelope.waiting_since or ended_at, ended_at)

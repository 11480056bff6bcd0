"""What people read about an item: alerts and the sentence about how a run ended; pure.

Owns the words. Everything that came with a ticket is bounded and made one printable line before it is quoted.
"""

import math
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gateway.contract.outcomes import Outcome
from gateway.contract.text import clip
from gateway.station.cases import Subject
from gateway.station.dossier import Item, Run
from gateway.station.escalation_state import EscalationState
from gateway.station.escalations import Escalation

_MAX_QUOTE: Final = 240
_TWO_DAYS: Final = 48
_MAX_FIGURE: Final = 1e12
"""Beyond it a figure is somebody's joke, and too long for a line."""


def title(item: Item | Subject) -> str:
    """A subject line for an item, held or decided."""
    if item.decided_at is not None:
        return f"Resolved: ticket {item.ticket}, {item.state}"
    return quarantine_title(item.ticket, item.attempts)


def quarantine_title(ticket: str, attempts: int) -> str:
    """A subject line for an item that waits for a decision."""
    return f"Quarantine: ticket {ticket} after {_attempts(attempts)}"


def quarantined(item: Item | Subject, run: Run | None, link: str) -> str:
    """The alert about an item: what, which, how often, why, the evidence of its last `run`, and where to look."""
    last = " It was never started." if run is None else f" Last run: {sentence(run)}."
    told = run is not None and run.evidence.get("detail") == item.detail
    detail = f" ({one_line(item.detail)})" if item.detail and not told else ""
    again = f" in generation {item.generation}" if item.generation else ""
    return (
        f"Ticket {item.ticket} ({one_line(item.kind)}) is in quarantine{again} after {_attempts(item.attempts)}:"
        f" {one_line(item.reason)}{detail}.{last} {link}"
    )


def resolved(item: Item | Subject, link: str) -> str:
    """The alert that ends an earlier one: who decided what, and why."""
    who, why = one_line(item.decided_by or "nobody"), one_line(item.decision_reason or "no reason given")
    what = f"Ticket {item.ticket} ({one_line(item.kind)}) is out of quarantine"
    return f"{what}: {item.state} by {who}, because: {why}. {link}"


def retained(item: Item, removal_at: float | None, now: float) -> str | None:
    """What has become of an item's contents, or when they go; None while nothing makes them go."""
    if item.removed_at is not None:
        return (
            f"Body and headers were removed, {clock(item.removed_at)}: {item.size} bytes, SHA-256 {item.digest}."
            " The decision and the audit stay."
        )
    if removal_at is None or removal_at > _MAX_FIGURE:
        return None
    hours = max(0.0, removal_at - now) / 3600
    left = f"in {hours / 24:.0f} days" if hours >= _TWO_DAYS else f"in {hours:.0f} hours"
    return f"Body and headers go {left if hours >= 1 else 'within the hour'}, {clock(removal_at)}."


def sentence(run: Run) -> str:
    """How a run ended and how we know, in a few words."""
    evidence = run.evidence
    how = _HOW.get(run.outcome, run.outcome)
    # The node that saw it end has put it into words already; without them, the facts have to do.
    parts = (
        [f"{run.outcome}, {one_line(str(evidence['detail']))}"] if evidence.get("detail") else [how, *_facts(evidence)]
    )
    if (became := _SUSPICION.get(str(evidence.get("suspicion")))) is not None:
        parts.append(became)
    if run.seconds and abs(run.seconds) < _MAX_FIGURE:
        parts.append(f"after {run.seconds:.1f} s")
    if run.node:
        parts.append(f"on {one_line(run.node)}")
    if evidence.get("progress") and not evidence.get("detail"):
        parts.append(f"last words: {one_line(str(evidence['progress']))!r}")
    return ", ".join(parts)


def handed_over(one: Escalation) -> str:
    """Return how far an escalation is, in one line."""
    called = f", called {one_line(one.reference)} there" if one.reference else ""
    match one.state:
        case EscalationState.OWED:
            failed = f", {one.tries} tries failed: {one_line(one.last_error or '')}" if one.tries else ""
            return f"owed since {clock(one.created_at)}{failed}"
        case EscalationState.SENT:
            return f"sent {clock(one.sent_at)}, nobody has taken it on"
        case EscalationState.ACKNOWLEDGED:
            by = one_line(one.acknowledged_by or "")
            return f"acknowledged by {by}, {clock(one.acknowledged_at)}{called}"
        case EscalationState.CLOSED:
            return f"closed{called}"


def owned(owner: str) -> str:
    """Say whose something is."""
    return one_line(owner) if owner else "nobody's"


def clock(moment: float | None) -> str:
    """Write a moment (Unix seconds) for people; anybody may have named it, so it may be none."""
    try:
        told = datetime.fromtimestamp(math.nan if moment is None else moment, UTC)
    except (ValueError, OverflowError, OSError):
        return "unknown"
    return told.strftime("%Y-%m-%d %H:%M:%S UTC")


def one_line(text: str, limit: int = _MAX_QUOTE) -> str:
    """Return `text` cut to `limit` bytes, with everything unprintable written as an escape."""
    shown = clip(text, limit)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


_SUSPICION: Final = {"cleared": "cleared of suspicion", "dropped": "no suspect any more"}
_HOW: Final[dict[str, str]] = {
    Outcome.FAILED: "failed",
    Outcome.REJECTED: "rejected by its handler",
    Outcome.CRASHED: "its worker died",
    Outcome.MEMORY: "memory, its worker went over its ceiling",
    Outcome.TIMED_OUT: "timed_out, no end by its deadline",
    Outcome.OVERSPENT: "overspent its budget",
    Outcome.LOST: "lost, whoever held it vanished",
    Outcome.RELEASED: "released",
    Outcome.OUTAGE: "outage, the broker's connection was lost",
    Outcome.INADMISSIBLE: "inadmissible, not started",
}


def _facts(evidence: Mapping[str, Any]) -> list[str]:
    facts = []
    if evidence.get("error_type") or evidence.get("message"):
        named = (str(evidence[name]) for name in ("error_type", "message") if evidence.get(name))
        facts.append(one_line(": ".join(named)))
    if evidence.get("signal"):
        facts.append(f"signal {_signal(evidence['signal'])}")
    elif evidence.get("exit_status"):
        facts.append(f"exit status {one_line(str(evidence['exit_status']))}")
    if not facts and evidence.get("code"):
        facts.append(one_line(str(evidence["code"])))
    peak = evidence.get("peak_rss")
    if isinstance(peak, int | float) and 0 < peak < 2**20 * _MAX_FIGURE:
        facts.append(f"peak memory {peak / 2**20:.0f} MiB")
    return facts


def _signal(number: object) -> str:
    try:
        return f"{number} ({signal.Signals(int(str(number))).name})"
    except ValueError:
        return one_line(str(number))


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"

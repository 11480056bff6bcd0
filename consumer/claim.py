"""What a delivery licenses: the one place where a limit is enforced before anything runs.

Pure. Judges by the item's own durable headers and the broker's `redelivered` flag alone, never by the broker's
counters: their meaning differs between versions.
"""

from dataclasses import dataclass

from consumer.policy import OnExhausted, Policy
from gateway.contract.envelope import Envelope, Malformed, Spent
from gateway.contract.outcomes import Outcome, Reason
from gateway.contract.values import value


@value(frozen=True, slots=True)
class Run:
    """Nobody ever held this message: its number was durable before, so it may start (P1)."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Somebody held this message and vanished: it must not run; its earlier run is closed first."""

    envelope: Envelope
    outcome: Outcome
    """What it is closed with where nobody knows better."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Over its budget, or not to be understood: nothing of it may start."""

    item: Envelope | Malformed
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Over its budget, of a kind that keeps no exhausted items."""

    envelope: Envelope
    reason: Reason
    detail: str


Claim = Run | Reclaim | Quarantine | Discard


def claim(
    item: Envelope | Malformed,
    *,
    redelivered: bool,
    policy: Policy,
    outage_window: float | None,
    now: float,
) -> Claim:
    """Decide what one delivery licenses; `now` in Unix seconds.

    `outage_window` in seconds where this node itself has just regained a connection that it lost (P8), else None: a
    second outage of one item within the window is a loss. A message that waits to be judged licenses no run, whether it
    was handed over before or not.
    """
    if isinstance(item, Malformed):
        return Quarantine(item, Reason.MALFORMED, item.detail)
    exhausted = _exhausted(item, policy, now)
    if exhausted is not None:
        reason, detail = exhausted
        if policy.on_exhausted is OnExhausted.DISCARD:
            return Discard(item, reason, detail)
        return Quarantine(item, reason, detail)
    if item.loss is not None:
        return Reclaim(item, Outcome.LOST)
    if not redelivered:
        return Run(item)
    return Reclaim(item, Outcome.OUTAGE if _is_outage(item, outage_window, now) else Outcome.LOST)


def _exhausted(item: Envelope, policy: Policy, now: float) -> tuple[Reason, str] | None:
    if item.attempt > policy.max_attempts:
        return Reason.ATTEMPTS_EXHAUSTED, f"asks for run {item.attempt} of at most {policy.max_attempts}"
    if item.crashes >= policy.max_crashes:
        return (
            Reason.CRASHES_EXHAUSTED,
            f"{item.crashes} earlier runs ended with a dead worker, {policy.max_crashes} is the limit",
        )
    returns = item.interruptions - item.waits
    if returns > policy.max_interruptions:
        return (
            Reason.INTERRUPTIONS_EXHAUSTED,
            f"came back uncharged {returns} times, {policy.max_interruptions} is the limit",
        )
    if (over := overspent(item.spent, policy)) is not None:
        return Reason.OVERSPENT, over
    if item.waiting_since and now - item.waiting_since > policy.max_wait:
        return Reason.DEPENDENCY, waited(now - item.waiting_since, policy)
    return None


def overspent(spent: Spent, policy: Policy) -> str | None:
    """Say by how much an item's runs exceed what its kind may spend; None where they do not."""
    budget = policy.max_spend
    found = []
    if budget.tokens and spent.tokens > budget.tokens:
        found.append(f"{spent.tokens} tokens, {budget.tokens} is the limit")
    if budget.usd and spent.usd > budget.usd:
        found.append(f"{spent.usd:g} USD, {budget.usd:g} is the limit")
    return f"its runs have spent {' and '.join(found)}" if found else None


def waited(seconds: float, policy: Policy) -> str:
    """Say that an item has waited for its dependency for too long."""
    return f"has waited for a dependency for {seconds:.0f} s, {policy.max_wait:g} s is the limit"


def _is_outage(item: Envelope, window: float | None, now: float) -> bool:
    if window is None:
        return False
    newest = item.history.newest
    return newest is None or newest.outcome is not Outcome.OUTAGE or now - newest.started > window

"""What a delivery licenses (P1, P8, P12)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumer.claim import Discard, Quarantine, Reclaim, Run, claim
from consumer.policy import OnExhausted, Policy
from gateway.contract.envelope import Envelope, Loss, Malformed
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.outcomes import Outcome, Reason
from gateway.contract.wire import Wire

NOW = 1_000_000.0
POLICY = Policy()


def item(attempt: int = 1, crashes: int = 0, interruptions: int = 0) -> Envelope:
    return Envelope(
        ticket=TicketId("9417"),
        kind="support.ticket",
        body=b"",
        content_type="text/plain",
        attempt=attempt,
        crashes=crashes,
        interruptions=interruptions,
    )


def judged(envelope: Envelope | Malformed, *, redelivered: bool = False, outage_window: float | None = None) -> object:
    return claim(envelope, redelivered=redelivered, policy=POLICY, outage_window=outage_window, now=NOW)


def test_only_what_was_never_handed_over_may_run() -> None:
    assert isinstance(judged(item()), Run)
    assert isinstance(judged(item(), redelivered=True), Reclaim)


@given(st.integers(1, 10), st.integers(0, 10), st.integers(0, 40), st.booleans())
def test_nothing_over_any_budget_ever_runs(
    attempt: int,
    crashes: int,
    interruptions: int,
    redelivered: bool,  # noqa: FBT001  a drawn value
) -> None:
    decided = judged(item(attempt=attempt, crashes=crashes, interruptions=interruptions), redelivered=redelivered)
    within = attempt <= 3 and crashes < 3 and interruptions <= 20
    assert isinstance(decided, Quarantine) is not within
    assert isinstance(decided, Run) is (within and not redelivered)


def test_a_message_that_waits_for_its_judgement_licenses_no_run_however_it_comes() -> None:
    waiting = replace(item(), loss=Loss(holder="n1#1", beat=1.0, at=NOW))
    assert judged(waiting) == judged(waiting, redelivered=True, outage_window=60.0) == Reclaim(waiting, Outcome.LOST)


def test_waits_for_a_dependency_use_no_interruption_up() -> None:
    waiting = replace(item(interruptions=50), waits=30)
    assert isinstance(judged(waiting), Run)
    assert judged(replace(waiting, waits=29)) == Quarantine(
        replace(waiting, waits=29),
        Reason.INTERRUPTIONS_EXHAUSTED,
        "came back uncharged 21 times, 20 is the limit",
    )


def test_what_has_waited_for_too_long_is_not_started_again() -> None:
    waiting = replace(item(interruptions=1), waits=1, waiting_since=NOW - POLICY.max_wait)
    assert isinstance(judged(waiting), Run)
    late = replace(waiting, waiting_since=NOW - POLICY.max_wait - 1)
    decided = judged(late)
    assert isinstance(decided, Quarantine)
    assert (decided.reason, decided.detail) == (
        Reason.DEPENDENCY,
        "has waited for a dependency for 86401 s, 86400 s is the limit",
    )


def test_a_kind_that_keeps_no_exhausted_items_ends_in_a_record() -> None:
    policy = Policy(on_exhausted=OnExhausted.DISCARD)
    decided = claim(item(attempt=4), redelivered=False, policy=policy, outage_window=None, now=NOW)
    assert decided == Discard(item(attempt=4), Reason.ATTEMPTS_EXHAUSTED, "asks for run 4 of at most 3")


def test_what_cannot_be_understood_goes_to_quarantine_raw() -> None:
    malformed = Malformed(detail="lz-schema is 2", ticket=TicketId("x"), kind="unknown", wire=Wire(body=b"x"))
    assert judged(malformed, redelivered=True) == Quarantine(malformed, Reason.MALFORMED, "lz-schema is 2")


def outcome_of(envelope: Envelope, outage_window: float | None) -> Outcome:
    decided = judged(envelope, redelivered=True, outage_window=outage_window)
    assert isinstance(decided, Reclaim)
    return decided.outcome


def test_a_redelivery_in_this_nodes_own_outage_is_uncharged() -> None:
    assert outcome_of(item(), 60) is Outcome.OUTAGE


def test_a_redelivery_without_an_outage_of_this_node_is_a_loss() -> None:
    assert outcome_of(item(), None) is Outcome.LOST


def test_a_second_outage_of_one_item_within_the_window_is_a_loss() -> None:
    earlier = RunRecord(attempt=1, outcome=Outcome.OUTAGE, started=NOW - 30)
    again = Envelope(
        ticket=TicketId("9417"), kind="k", body=b"", content_type="text/plain", history=History((earlier,))
    )
    assert outcome_of(again, 60) is Outcome.LOST
    assert outcome_of(again, 20) is Outcome.OUTAGE

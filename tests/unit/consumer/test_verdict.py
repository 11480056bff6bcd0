"""What follows from an outcome: budgets, lanes, delays, and decisions that survive being written down."""

from dataclasses import replace
from itertools import pairwise

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from consumer import verdict
from consumer.policy import OnExhausted, Policy
from consumer.storm import STOPPED
from consumer.verdict import Decision, Ending, backoff, decide, next_message
from gateway.contract.envelope import Envelope, Spent
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import Verdict
from gateway.contract.outcomes import CHARGED, CRASHES, Outcome, Reason
from gateway.contract.topology import Lane

POLICY = Policy()
outcomes = st.sampled_from(Outcome)
envelopes = st.builds(
    Envelope,
    ticket=st.just(TicketId("9417")),
    kind=st.just("support.ticket"),
    body=st.just(b""),
    content_type=st.just("text/plain"),
    attempt=st.integers(1, 3),
    crashes=st.integers(0, 2),
    interruptions=st.integers(0, 20),
    waiting_since=st.sampled_from([0.0, 0.5]),
    suspect=st.sampled_from([None, "crashed"]),
)
SEVERITY = {Verdict.ACK: 0, Verdict.RELEASE: 1, Verdict.RETRY: 2, Verdict.DISCARD: 3, Verdict.QUARANTINE: 3}


def ending(outcome: Outcome, **changes: object) -> Ending:
    record = RunRecord(attempt=1, outcome=outcome, node="n", worker=1, started=1.0, seconds=1.0)
    return replace(Ending(outcome=outcome, record=record), **changes)  # type: ignore[arg-type]


def decided(envelope: Envelope, outcome: Outcome, policy: Policy = POLICY, jitter: float = 0.5) -> Decision:
    return decide(envelope, ending(outcome), policy, jitter=jitter, reclaim_floor=6.0)


def first(**changes: object) -> Envelope:
    return Envelope(
        ticket=TicketId("9417"),
        kind="support.ticket",
        body=b"",
        content_type="text/plain",
        **changes,  # type: ignore[arg-type]
    )


@given(envelopes, outcomes)
def test_every_continued_item_has_a_greater_stamp(envelope: Envelope, outcome: Outcome) -> None:
    decision = decided(envelope, outcome)
    assume(not decision.final)
    assert next_message(envelope, decision).stamp > envelope.stamp


@given(envelopes, outcomes)
def test_an_attempt_is_used_up_by_charged_outcomes_alone(envelope: Envelope, outcome: Outcome) -> None:
    decision = decided(envelope, outcome)
    assert decision.attempt - envelope.attempt == (outcome in CHARGED)
    assert decision.crashes - envelope.crashes == (outcome in CRASHES)


@given(envelopes)
def test_worse_evidence_never_gets_a_milder_verdict(envelope: Envelope) -> None:
    for worse in (Outcome.TIMED_OUT, Outcome.CRASHED, Outcome.MEMORY, Outcome.LOST):
        for harm in ([Outcome.SUCCEEDED, Outcome.FAILED, worse, Outcome.REJECTED],):
            verdicts = [SEVERITY[decided(envelope, outcome).verdict] for outcome in harm]
            assert verdicts == sorted(verdicts)


@given(envelopes, st.sampled_from(sorted(CRASHES)))
def test_a_suspect_never_runs_in_the_work_lane_again(envelope: Envelope, outcome: Outcome) -> None:
    decision = decided(envelope, outcome)
    assert decision.final or decision.lane is Lane.SUSPECTS
    later = decided(replace(envelope, suspect="crashed"), Outcome.RELEASED)
    assert later.final or later.lane is Lane.SUSPECTS


def test_a_reported_failure_in_isolation_drops_the_suspicion() -> None:
    decision = decided(first(suspect="crashed", attempt=2, crashes=1), Outcome.FAILED)
    assert (decision.lane, decision.suspect) == (Lane.WORK, None)


def test_a_killer_input_is_started_exactly_three_times() -> None:
    envelope, starts = first(), 0
    while True:
        starts += 1
        decision = decided(envelope, Outcome.CRASHED)
        if decision.final:
            break
        envelope = next_message(envelope, decision)
    assert (starts, decision.verdict, decision.reason) == (3, Verdict.QUARANTINE, Reason.CRASHES_EXHAUSTED)


@given(st.lists(outcomes.filter(lambda outcome: outcome is not Outcome.SUCCEEDED), min_size=30, max_size=60))
def test_no_sequence_of_outcomes_licenses_more_starts_than_the_budgets(sequence: list[Outcome]) -> None:
    envelope, starts = first(), 0
    for outcome in sequence:
        starts += 1
        decision = decided(envelope, outcome)
        if decision.final:
            break
        envelope = next_message(envelope, decision)
    assert envelope.attempt <= POLICY.max_attempts
    assert starts - envelope.waits <= POLICY.max_attempts + POLICY.max_interruptions


def test_a_rejection_is_quarantined_at_once() -> None:
    assert decided(first(), Outcome.REJECTED).verdict is Verdict.QUARANTINE


@pytest.mark.parametrize("name", ["ContextLengthExceeded", "provider.ContextLengthExceeded"])
def test_an_exception_that_the_policy_calls_permanent_is_quarantined_at_once(name: str) -> None:
    policy = Policy(permanent=frozenset({"ContextLengthExceeded"}))
    decision = decide(first(), ending(Outcome.FAILED, error_type=name), policy, jitter=0.5)
    assert (decision.verdict, decision.reason) == (Verdict.QUARANTINE, Reason.REJECTED)


def test_a_second_time_out_goes_to_the_isolation_lane() -> None:
    envelope = first()
    once = decided(envelope, Outcome.TIMED_OUT)
    assert once.lane is Lane.WORK
    record = RunRecord(attempt=1, outcome=Outcome.TIMED_OUT)
    again = replace(envelope, attempt=2, history=History((record,)))
    assert decided(again, Outcome.TIMED_OUT).lane is Lane.SUSPECTS


def test_interruptions_end_as_their_own_reason() -> None:
    decision = decided(first(interruptions=20), Outcome.RELEASED)
    assert (decision.verdict, decision.reason) == (Verdict.QUARANTINE, Reason.INTERRUPTIONS_EXHAUSTED)


def wait(started: float, seconds: float = 0.0, worker: int = 0) -> Ending:
    record = RunRecord(attempt=1, outcome=Outcome.DEPENDENCY, worker=worker, started=started, seconds=seconds)
    return Ending(outcome=Outcome.DEPENDENCY, record=record, detail="openai is down")


def test_a_wait_makes_the_stamp_grow_and_uses_no_interruption_up() -> None:
    envelope = first(interruptions=30, waits=30, waiting_since=5.0)
    decision = decide(envelope, wait(10.0), POLICY, jitter=0.5)
    assert (decision.verdict, decision.interruptions, decision.waits) == (Verdict.RETRY, 31, 31)
    released = decided(next_message(envelope, decision), Outcome.RELEASED)
    assert (released.verdict, released.interruptions, released.waits) == (Verdict.RELEASE, 32, 31)


def test_a_wait_begins_with_its_first_return_and_ends_with_a_charged_run() -> None:
    begun = next_message(first(), decide(first(), wait(10.0, seconds=2.0), POLICY, jitter=0.5))
    assert begun.waiting_since == 12.0
    again = next_message(begun, decide(begun, wait(500.0), POLICY, jitter=0.5))
    assert again.waiting_since == 12.0
    released = next_message(again, decided(again, Outcome.RELEASED))
    assert released.waiting_since == 12.0
    failed = next_message(again, decided(again, Outcome.FAILED))
    assert (failed.waiting_since, failed.waits) == (0.0, 2)


def test_a_wait_that_a_clock_puts_into_the_future_begins_now() -> None:
    envelope = first(waiting_since=1e9, waits=1, interruptions=1)
    assert decide(envelope, wait(10.0), POLICY, jitter=0.5).waiting_since == 10.0


def test_what_waits_for_longer_than_it_may_is_quarantined_for_that_reason() -> None:
    envelope = first(waiting_since=10.0, waits=3, interruptions=3)
    policy = Policy(max_wait=60.0)
    decision = decide(envelope, wait(71.0), policy, jitter=0.5)
    assert (decision.verdict, decision.reason) == (Verdict.QUARANTINE, Reason.DEPENDENCY)
    assert "for 61 s" in decision.detail
    assert "openai is down" in decision.detail
    discarded = decide(envelope, wait(71.0), replace(policy, on_exhausted=OnExhausted.DISCARD), jitter=0.5)
    assert discarded.verdict is Verdict.DISCARD


def test_no_delay_of_a_wait_goes_beyond_its_bound() -> None:
    envelope = first(waiting_since=10.0, waits=9, interruptions=9)
    decision = decide(envelope, replace(wait(60.0), after=3600.0), Policy(max_wait=60.0), jitter=0.5)
    assert (decision.verdict, decision.delay) == (Verdict.RETRY, 10.0)


def test_a_day_of_waiting_leaves_the_records_of_crashes_where_they_are() -> None:
    crash = RunRecord(attempt=1, outcome=Outcome.CRASHED, worker=7, started=1.0)
    envelope = first(attempt=2, crashes=1, suspect="crashed", history=History((crash,)))
    for turn in range(40):
        envelope = next_message(envelope, decide(envelope, wait(10.0 + turn, worker=turn % 2), POLICY, jitter=0.5))
    crashed, opening, rest = envelope.history.runs
    assert (crashed, opening.times, rest.times, envelope.history.left_out) == (crash, 1, 39, 0)
    assert (rest.started, rest.seconds) == (11.0, 38.0)
    assert History.decode(envelope.history.encode()) == envelope.history


def test_waits_of_an_earlier_generation_stay_records_of_their_own() -> None:
    earlier = RunRecord(attempt=1, outcome=Outcome.DEPENDENCY, started=1.0)
    envelope = first(generation=1, history=History((earlier, earlier)))
    assert len(next_message(envelope, decide(envelope, wait(10.0), POLICY, jitter=0.5)).history.runs) == 3


def test_a_decision_of_a_version_that_counted_no_waits_is_read() -> None:
    written = orjson.loads(verdict.write(decided(first(), Outcome.FAILED)))
    del written["waits"], written["waiting_since"]
    assert verdict.read(orjson.dumps(written).decode()) == decided(first(), Outcome.FAILED)


def test_a_kind_may_discard_what_is_exhausted() -> None:
    decision = decided(first(attempt=3), Outcome.FAILED, Policy(on_exhausted=OnExhausted.DISCARD))
    assert decision.verdict is Verdict.DISCARD


@given(st.integers(1, 2000), st.floats(0, 1, exclude_max=True))
def test_backoff_is_exponential_capped_and_fully_jittered(attempt: int, jitter: float) -> None:
    delay = backoff(attempt, POLICY, jitter)
    assert 0 <= delay <= min(3600.0, 30.0 * 2.0 ** min(attempt - 1, 20))
    assert delay == pytest.approx(jitter * backoff(attempt, POLICY, 1.0))


@given(st.sampled_from([Outcome.FAILED, Outcome.DEPENDENCY]), st.floats(0, 1e5), st.floats(0, 1, exclude_max=True))
def test_what_a_handler_asks_for_is_a_floor(outcome: Outcome, after: float, jitter: float) -> None:
    assert decide(first(), ending(outcome, after=after), Policy(max_wait=1e6), jitter=jitter).delay >= after
    held = ending(outcome, after=after, wait=60.0)
    assert decide(first(), held, Policy(max_wait=1e6), jitter=jitter).delay >= after


def test_what_asks_for_the_same_pause_in_one_moment_does_not_come_back_in_one_moment() -> None:
    delays = [decide(first(), ending(Outcome.FAILED, after=600.0), POLICY, jitter=n / 200).delay for n in range(200)]
    assert min(delays) == 600.0
    assert all(later - earlier == pytest.approx(0.15) for earlier, later in pairwise(delays))


def test_a_breaker_says_when_in_place_of_a_backoff() -> None:
    held = ending(Outcome.DEPENDENCY, wait=47.0)
    assert decide(first(waits=9, interruptions=9), held, POLICY, jitter=0.9).delay == 47.0
    assert decide(first(), replace(held, wait=0.0), POLICY, jitter=0.9).delay == 1.0


def test_a_vanished_holder_has_time_to_die_before_the_next_run() -> None:
    for outcome in (Outcome.LOST, Outcome.OUTAGE):
        assert decided(first(), outcome, jitter=0.0).delay >= 6.0


@given(envelopes, outcomes)
def test_a_decision_reads_as_it_was_written(envelope: Envelope, outcome: Outcome) -> None:
    decision = decided(envelope, outcome)
    assert verdict.read(verdict.write(decision)) == decision


def test_spend_travels_with_the_item() -> None:
    decision = decide(first(), ending(Outcome.FAILED, spent=Spent(tokens=7, usd=0.5)), POLICY, jitter=0.5)
    message = next_message(first(spent=Spent(tokens=3)), decision)
    assert message.spent == Spent(tokens=10, usd=0.5)


@given(envelopes, st.floats(0, 0.999))
def test_what_a_stopped_build_gave_back_waits_until_every_node_has_heard_of_the_storm(
    envelope: Envelope, jitter: float
) -> None:
    given_back = ending(Outcome.RELEASED, record=RunRecord(attempt=1, outcome=Outcome.RELEASED, code=STOPPED))
    decision = decide(envelope, given_back, Policy(max_interruptions=100), jitter=jitter, reclaim_floor=6.0)
    assert (decision.verdict, decision.delay) == (Verdict.RELEASE, 6.0)
    assert decided(envelope, Outcome.RELEASED, Policy(max_interruptions=100)).delay == 0.0

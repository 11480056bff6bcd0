"""What earlier runs mean for the next one, and what decisions about items without a run look like."""

import pytest

from consumer import verdict
from consumer.claim import Quarantine, claim
from consumer.isolation import MOLD_LOST
from consumer.policy import Policy
from consumer.records import of
from consumer.suspicion import suspicion
from consumer.verdict import Decision, Ending, decide, end_at_claim, next_message, pardon
from gateway.contract.envelope import Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName, Verdict
from gateway.contract.outcomes import Outcome, Reason
from gateway.contract.topology import Lane


def item(*runs: RunRecord, attempt: int = 1, suspect: str | None = None) -> Envelope:
    return Envelope(
        ticket=TicketId("9417"),
        kind="k",
        body=b"",
        content_type="text/plain",
        attempt=attempt,
        suspect=suspect,
        history=History(runs),
    )


def run(outcome: Outcome, attempt: int = 1, code: str = "") -> RunRecord:
    return RunRecord(attempt=attempt, outcome=outcome, worker=1, started=1.0, code=code)


def decided(envelope: Envelope, outcome: Outcome, code: str = "") -> Decision:
    record = run(outcome, envelope.attempt, code)
    return decide(envelope, Ending(outcome=outcome, record=record), Policy(), jitter=0.5)


def told_of(envelope: Envelope, decision: Decision, **data: object) -> list[Event]:
    return of(envelope, decision, node="n", lane=Lane.WORK, at=1.0, data=data)


def test_an_item_that_is_there_whenever_a_mold_dies_is_isolated_the_second_time() -> None:
    first = decided(item(), Outcome.RELEASED, MOLD_LOST)
    assert (first.lane, first.delay) == (Lane.WORK, 0.0)
    second = decided(item(run(Outcome.RELEASED, code=MOLD_LOST)), Outcome.RELEASED, MOLD_LOST)
    assert (second.lane, second.suspect, second.verdict) == (Lane.SUSPECTS, MOLD_LOST, Verdict.RELEASE)
    assert second.delay > 0
    drained = decided(item(run(Outcome.RELEASED, code="drain")), Outcome.RELEASED, MOLD_LOST)
    assert drained.lane is Lane.WORK


def test_time_outs_of_an_earlier_generation_do_not_count_against_a_replayed_item() -> None:
    earlier = (run(Outcome.TIMED_OUT, 1), run(Outcome.TIMED_OUT, 2), run(Outcome.TIMED_OUT, 3))
    assert decided(item(*earlier), Outcome.TIMED_OUT).lane is Lane.WORK
    assert decided(item(*earlier, run(Outcome.TIMED_OUT, 1), attempt=2), Outcome.TIMED_OUT).lane is Lane.SUSPECTS


def test_an_item_refused_at_its_claim_ends_with_its_history_as_it_was() -> None:
    envelope = item(run(Outcome.FAILED), attempt=4, suspect="crashed")
    refused = claim(envelope, redelivered=False, policy=Policy(), outage_window=None, now=1.0)
    assert isinstance(refused, Quarantine)
    decision = end_at_claim(envelope, Verdict.QUARANTINE, refused.reason, refused.detail)
    message = next_message(envelope, decision)
    assert (message.history, message.stamp, message.reason) == (
        envelope.history,
        envelope.stamp,
        Reason.ATTEMPTS_EXHAUSTED,
    )
    told = told_of(envelope, decision)
    assert [event.event for event in told] == [EventName.QUARANTINED]
    assert suspicion(envelope, decision) is None
    gone = told_of(envelope, end_at_claim(envelope, Verdict.DISCARD, refused.reason, refused.detail))
    assert [event.event for event in gone] == [EventName.DISCARDED]


def test_what_the_preflight_refused_is_told_with_its_violations() -> None:
    decision = decided(item(), Outcome.INADMISSIBLE)
    told = told_of(item(), decision, evidence={"violations": [{"rule": "binary"}]})
    assert [event.event for event in told] == [EventName.FINISHED, EventName.REFUSED, EventName.QUARANTINED]
    assert told[1].data["violations"] == [{"rule": "binary"}]


def test_a_pardoned_item_is_a_suspect_no_more_without_having_been_tried() -> None:
    envelope = item(run(Outcome.CRASHED), attempt=2, suspect="crashed")
    message = next_message(envelope, pardon())
    assert (message.attempt, message.suspect, message.history) == (1, None, envelope.history)
    assert message.stamp > envelope.stamp
    assert suspicion(envelope, pardon()) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"spent": [0]}', '{"spent": [0, 0], "verdict": "burn"}'])
def test_text_that_is_no_decision_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a decision"):
        verdict.read(text)

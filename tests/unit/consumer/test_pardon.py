"""What an operator's pardon does to an item and to the decision that had just ended it."""

from dataclasses import replace

import pytest

from consumer import records, verdict
from consumer.policy import Policy
from consumer.verdict import Decision, Ending, decide, excused, next_message, pardon
from gateway.contract.envelope import Envelope, Spent
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import EventName, Verdict
from gateway.contract.outcomes import Outcome, Reason, Stamp
from gateway.contract.topology import Lane

LAST = RunRecord(attempt=3, outcome=Outcome.CRASHED, started=5.0, seconds=1.0, code="signal:9")
ITEM = Envelope(
    ticket=TicketId("9417"),
    kind="support.ticket",
    body=b"x",
    content_type="text/plain",
    attempt=3,
    crashes=2,
    interruptions=4,
    waits=1,
    suspect="crashed",
    spent=Spent(tokens=10, usd=1.0),
    history=History((replace(LAST, attempt=1), replace(LAST, attempt=2))),
)


def last_run(outcome: Outcome) -> Decision:
    return decide(ITEM, Ending(outcome=outcome, record=replace(LAST, outcome=outcome)), Policy(), jitter=0.5)


def test_a_pardoned_item_begins_a_generation_with_full_budgets_and_its_history() -> None:
    begun = next_message(ITEM, pardon())
    assert begun.stamp == Stamp(generation=1, attempt=1, interruptions=0)
    assert (begun.crashes, begun.waits, begun.suspect, begun.spent) == (0, 0, None, Spent())
    assert begun.history == ITEM.history


def test_a_pardon_closes_the_generation_that_it_ends_and_is_no_end_of_the_item() -> None:
    assert pardon().closes
    assert not pardon().final
    assert last_run(Outcome.SUCCEEDED).closes


def test_a_pardon_is_written_down_and_read_like_other_decisions() -> None:
    assert verdict.read(verdict.write(pardon())) == pardon()


def test_a_used_up_budget_is_excused_and_the_last_run_stays_on_record() -> None:
    ended = last_run(Outcome.CRASHED)
    assert ended.reason is Reason.CRASHES_EXHAUSTED
    spared = excused(ended)
    assert spared.pardoned
    assert spared.verdict is Verdict.RELEASE
    assert next_message(ITEM, spared).history.newest == ended.record


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.SUCCEEDED, Outcome.RELEASED])
def test_what_no_budget_ended_is_not_excused(outcome: Outcome) -> None:
    assert excused(last_run(outcome)) == last_run(outcome)


def test_the_journal_hears_of_the_new_generation_of_a_pardoned_item() -> None:
    told = records.of(ITEM, pardon(), node="node-1", lane=Lane.WORK, at=7.0, data={})
    assert [(event.event, event.stamp.generation) for event in told] == [(EventName.ACCEPTED, 1)]

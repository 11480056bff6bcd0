"""Spend and suspicion: what is over its budget never runs again, what dies twice may be convicted (C7, C10)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.claim import Discard, Quarantine, Run, claim
from consumer.policy import OnExhausted, Policy
from consumer.records import of
from consumer.suspicion import Suspicion, suspicion
from consumer.verdict import Decision, Ending, decide, next_message
from gateway.contract.envelope import Envelope, Spent
from gateway.contract.history import RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import EventName, Verdict
from gateway.contract.outcomes import CHARGED, CRASHES, Outcome, Reason
from gateway.contract.topology import Lane

BUDGET = Policy(max_spend=Spent(tokens=1000, usd=1.0))
OVER = Spent(tokens=1001)

spends = st.builds(Spent, tokens=st.integers(0, 2000), usd=st.floats(0, 2))
policies = st.builds(
    Policy,
    max_attempts=st.integers(1, 4),
    max_crashes=st.integers(1, 4),
    max_interruptions=st.integers(0, 4),
    max_spend=spends,
    convict_in_isolation=st.booleans(),
    on_exhausted=st.sampled_from(OnExhausted),
    backoff_base=st.just(0.0),
)
outcomes = st.sampled_from(Outcome)


def item(**changes: object) -> Envelope:
    return replace(
        Envelope(ticket=TicketId("9417"), kind="k", body=b"", content_type="text/plain"),
        **changes,  # type: ignore[arg-type]
    )


def ended(envelope: Envelope, outcome: Outcome, policy: Policy, spent: Spent = Spent(), worker: int = 1) -> Decision:  # noqa: B008
    record = RunRecord(attempt=envelope.attempt, outcome=outcome, worker=worker, started=1.0, code="signal:9")
    ending = Ending(outcome=outcome, record=record, detail="its worker died", spent=spent)
    return decide(envelope, ending, policy, jitter=0.5)


def claimed(envelope: Envelope, policy: Policy) -> object:
    return claim(envelope, redelivered=False, policy=policy, outage_window=None, now=1.0)


@pytest.mark.parametrize(
    ("spent", "said"),
    [
        (Spent(tokens=1001), "1001 tokens, 1000 is the limit"),
        (Spent(usd=1.25), "1.25 USD, 1 is the limit"),
        (Spent(tokens=1001, usd=1.25), "1001 tokens, 1000 is the limit and 1.25 USD, 1 is the limit"),
    ],
    ids=["tokens", "usd", "both"],
)
def test_an_item_over_its_budget_is_refused_before_another_run(spent: Spent, said: str) -> None:
    refused = claimed(item(spent=spent), BUDGET)
    assert refused == Quarantine(item(spent=spent), Reason.OVERSPENT, f"its runs have spent {said}")
    telemetry = replace(BUDGET, on_exhausted=OnExhausted.DISCARD)
    assert isinstance(claimed(item(spent=spent), telemetry), Discard)


def test_a_budget_is_used_up_when_it_is_exceeded_and_not_when_it_is_reached() -> None:
    assert isinstance(claimed(item(spent=BUDGET.max_spend), BUDGET), Run)
    assert isinstance(claimed(item(spent=Spent(tokens=2**50, usd=1e9)), Policy()), Run)


@pytest.mark.parametrize("outcome", sorted(CHARGED - {Outcome.REJECTED, Outcome.OVERSPENT}))
def test_a_charged_end_over_the_budget_is_overspent_and_says_what_it_was(outcome: Outcome) -> None:
    decision = ended(item(spent=Spent(tokens=600)), outcome, BUDGET, Spent(tokens=401))
    assert (decision.verdict, decision.outcome, decision.reason) == (
        Verdict.QUARANTINE,
        Outcome.OVERSPENT,
        Reason.OVERSPENT,
    )
    assert decision.record is not None
    assert (decision.record.outcome, decision.record.code) == (Outcome.OVERSPENT, "signal:9")
    assert decision.detail == (
        f"its runs have spent 1001 tokens, 1000 is the limit; the last run was {outcome}: its worker died"
    )
    assert next_message(item(spent=Spent(tokens=600)), decision).spent == OVER


def test_a_success_over_the_budget_stays_a_success() -> None:
    assert ended(item(), Outcome.SUCCEEDED, BUDGET, OVER).verdict is Verdict.ACK


def test_a_rejection_over_the_budget_stays_a_rejection() -> None:
    assert ended(item(), Outcome.REJECTED, BUDGET, OVER).reason is Reason.REJECTED


@pytest.mark.parametrize("outcome", [Outcome.RELEASED, Outcome.OUTAGE, Outcome.DEPENDENCY])
def test_an_uncharged_return_over_the_budget_is_caught_at_the_next_claim(outcome: Outcome) -> None:
    decision = ended(item(), outcome, BUDGET, OVER)
    assert not decision.final
    refused = claimed(next_message(item(), decision), BUDGET)
    assert isinstance(refused, Quarantine)
    assert refused.reason is Reason.OVERSPENT


def test_an_overspent_start_whose_holder_vanished_is_told_as_inferred() -> None:
    def told(worker: int) -> EventName:
        decision = ended(item(), Outcome.LOST, BUDGET, OVER, worker=worker)
        return of(item(), decision, node="n", lane=Lane.WORK, at=1.0, data={})[0].event

    assert told(worker=0) is EventName.CLAIMED
    assert told(worker=7) is EventName.FINISHED


CONVICTING = Policy(convict_in_isolation=True)
SUSPECT = item(suspect="crashed", attempt=2, crashes=1)


@pytest.mark.parametrize("outcome", sorted(CRASHES))
def test_a_second_death_in_isolation_convicts_at_once_where_the_policy_says_so(outcome: Outcome) -> None:
    decision = ended(SUSPECT, outcome, CONVICTING)
    assert (decision.verdict, decision.reason) == (Verdict.QUARANTINE, Reason.CRASHES_EXHAUSTED)
    assert decision.detail.startswith("convicted: it had died before, and died again in isolation; its worker died")
    assert ended(SUSPECT, outcome, Policy()).verdict is Verdict.RETRY


def test_nobody_is_convicted_of_a_first_death_or_of_one_outside_of_isolation() -> None:
    assert ended(item(suspect="timed_out", attempt=3), Outcome.CRASHED, Policy(max_attempts=9)).lane is Lane.SUSPECTS
    policy = replace(CONVICTING, max_attempts=9)
    assert not ended(item(suspect="timed_out", attempt=3), Outcome.CRASHED, policy).final
    assert not ended(item(attempt=2, crashes=1), Outcome.CRASHED, policy).final


def test_isolation_clears_drops_convicts_or_goes_on_and_the_journal_is_told_which() -> None:
    def became(outcome: Outcome, envelope: Envelope = SUSPECT, policy: Policy = CONVICTING) -> object:
        decision = ended(envelope, outcome, policy)
        told = of(envelope, decision, node="n", lane=Lane.SUSPECTS, at=1.0, data={})[0].data.get("suspicion")
        assert told == suspicion(envelope, decision)
        return told

    assert became(Outcome.SUCCEEDED) is Suspicion.CLEARED
    assert became(Outcome.FAILED) is Suspicion.DROPPED
    assert became(Outcome.CRASHED) is Suspicion.CONVICTED
    assert became(Outcome.RELEASED) is Suspicion.ISOLATED
    assert became(Outcome.CRASHED, item()) is Suspicion.ISOLATED
    assert became(Outcome.REJECTED) is None
    assert became(Outcome.SUCCEEDED, item()) is None
    assert became(Outcome.FAILED, item()) is None


SEVERITY = {Verdict.ACK: 0, Verdict.RELEASE: 1, Verdict.RETRY: 2, Verdict.DISCARD: 3, Verdict.QUARANTINE: 3}
envelopes = st.builds(
    item,
    attempt=st.integers(1, 4),
    crashes=st.integers(0, 4),
    interruptions=st.integers(0, 4),
    spent=spends,
    suspect=st.sampled_from([None, "crashed", "timed_out"]),
)


@given(envelopes, policies, spends)
def test_worse_evidence_never_gets_a_milder_verdict_whatever_the_policy(
    envelope: Envelope, policy: Policy, spent: Spent
) -> None:
    for worse in (Outcome.TIMED_OUT, *sorted(CRASHES)):
        order = [Outcome.SUCCEEDED, Outcome.FAILED, worse, Outcome.REJECTED]
        verdicts = [SEVERITY[ended(envelope, outcome, policy, spent).verdict] for outcome in order]
        assert verdicts == sorted(verdicts)


@given(envelopes, policies, outcomes, spends, spends)
def test_more_spend_never_gets_a_milder_verdict(
    envelope: Envelope, policy: Policy, outcome: Outcome, spent: Spent, more: Spent
) -> None:
    less = ended(envelope, outcome, policy, spent)
    assert SEVERITY[ended(envelope, outcome, policy, spent + more).verdict] >= SEVERITY[less.verdict]


@given(policies, st.lists(st.tuples(outcomes, spends), max_size=40))
def test_budgets_hold_and_stamps_grow_whatever_sequence_of_ends_an_item_has(
    policy: Policy, sequence: list[tuple[Outcome, Spent]]
) -> None:
    envelope, charged, uncharged, paid = item(), 0, 0, Spent()
    for outcome, spent in sequence:
        if not isinstance(claimed(envelope, policy), Run):
            break
        decision = ended(envelope, outcome, policy, spent)
        paid += spent
        charged += outcome in CHARGED
        uncharged += outcome in {Outcome.RELEASED, Outcome.OUTAGE}
        following = next_message(envelope, decision)
        assert following.spent == paid
        if decision.final:
            break
        assert following.stamp > envelope.stamp
        envelope = following
    assert charged <= policy.max_attempts
    assert uncharged <= policy.max_interruptions + 1

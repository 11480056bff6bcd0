"""What is reported of a run, whatever ended it: the whole of the pure rules, beside the deaths of real workers."""

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.briefing import HardLimits
from consumer.evidence import MAX_ALONGSIDE, Death, Trial, conclude, hear, shown, unstarted
from consumer.execution import RunOrder
from consumer.intentions import Cause
from consumer.pipe import Finished, Measured, Progress, Spend
from consumer.usage import Usage
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Outcome

MIB = 1 << 20


def _exited(status: int) -> Death:
    return Death(status=status << 8)


def _signalled(number: int, *, oom: bool = False) -> Death:
    return Death(status=number, oom=oom)


def _trial(*, examine: bool = False, revoked_with: Outcome | None = None, **other: Any) -> Trial:
    order = RunOrder(
        run="r",
        ticket="t",
        kind="k",
        generation=0,
        attempt=1,
        interruptions=0,
        content_type="text/plain",
        content_encoding=None,
        body=b"",
        examine=examine,
        deadline=7.0,
        heartbeat=3.0,
        memory_limit=64 * MIB,
    )
    return Trial(order=order, build="b", worker=1, started=100.0, begun=0.0, revoked_with=revoked_with, **other)


_SUCCEEDED = Finished(run="r", outcome=Outcome.SUCCEEDED)


@pytest.mark.parametrize(
    ("cause", "death", "outcome", "code", "words"),
    [
        (Cause.DEADLINE, _signalled(9), Outcome.TIMED_OUT, "deadline", "still running after 7 s"),
        (Cause.SILENT, _signalled(9), Outcome.TIMED_OUT, "silent", "said nothing for 3 s"),
        (Cause.MEMORY, _signalled(9), Outcome.MEMORY, "memory:ceiling", "used 80 MiB where 64 MiB is the limit"),
        (Cause.REVOKED, _signalled(9), Outcome.RELEASED, "revoked", "its claim was taken away"),
        (Cause.STOPPED, _signalled(9), Outcome.RELEASED, "stopped", "the node stopped"),
        (Cause.MOLD_LOST, None, Outcome.RELEASED, "mold_lost", "took its worker along"),
        (Cause.GARBLED, _signalled(9), Outcome.CRASHED, "pipe", "wrote nonsense"),
        (Cause.DIED, None, Outcome.CRASHED, "vanished", "vanished"),
        (Cause.DIED, Death(), Outcome.CRASHED, "vanished", "vanished"),
        (Cause.DIED, _exited(3), Outcome.CRASHED, "exit:3", "exit status 3"),
        (Cause.DIED, _signalled(11), Outcome.CRASHED, "signal:11", "signal 11 (SIGSEGV)"),
        (Cause.DIED, _signalled(40), Outcome.CRASHED, "signal:40", "signal 40 (a real-time signal)"),
        (Cause.DIED, _signalled(9), Outcome.CRASHED, "signal:9", "signal 9 (SIGKILL)"),
        (Cause.DIED, _signalled(9, oom=True), Outcome.MEMORY, "memory:kernel", "the kernel killed its worker"),
        (Cause.DIED, _signalled(11, oom=True), Outcome.CRASHED, "signal:11", "signal 11"),
        (Cause.DIED, _signalled(signal.SIGXCPU), Outcome.CRASHED, f"signal:{signal.SIGXCPU.value}", "SIGXCPU"),
        (Cause.FINISHED, _exited(0), Outcome.CRASHED, "exit:0", "exit status 0"),
    ],
    ids=lambda value: str(value.value) if isinstance(value, Cause) else None,
)
def test_each_end_of_a_run_is_told_in_a_code_and_a_sentence(
    cause: Cause, death: Death | None, outcome: Outcome, code: str, words: str
) -> None:
    trial = _trial(peak=80 * MIB, progress="half way")
    report = conclude(trial, cause, death, "tail", 2.0)
    assert (report.outcome, report.code) == (outcome, code)
    assert words in report.detail
    assert cause in {Cause.STOPPED, Cause.MOLD_LOST} or report.detail.endswith("; last words: half way")
    assert (report.seconds, report.started, report.worker) == (2.0, 100.0, 1)
    assert (report.evidence["log_tail"], report.evidence["progress"]) == ("tail", "half way")


def test_no_cause_is_without_a_report() -> None:
    for cause in Cause:
        assert conclude(_trial(), cause, None, "", 1.0).code


def test_what_the_worker_has_said_counts_only_if_it_ended_the_run() -> None:
    for cause in set(Cause) - {Cause.FINISHED}:
        trial = _trial(finished=_SUCCEEDED)
        assert conclude(trial, cause, _signalled(9), "", 1.0).outcome is not Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        (
            Finished(run="r", outcome="failed", code="ValueError", error_type="ValueError", message="no"),
            "ValueError: no",
        ),
        (Finished(run="r", outcome="rejected", code="Reject", message="not a ticket"), "not a ticket"),
        (
            Finished(run="r", outcome="memory", code="memory:error", error_type="MemoryError", message="", last=True),
            "the handler raised MemoryError: ",
        ),
    ],
    ids=lambda value: value.outcome if isinstance(value, Finished) else None,
)
def test_words_of_a_handler_are_the_detail(said: Finished, detail: str) -> None:
    report = conclude(_trial(finished=said), Cause.FINISHED, None, "", 1.0)
    assert (report.outcome, report.code, report.detail) == (said.outcome, said.code, detail)


def test_limit_that_was_passed_is_named() -> None:
    hard = HardLimits(cpu_seconds=2.0, open_files=64, processes=0)
    limits = {
        (cause, hard): conclude(_trial(hard=hard), cause, death, "", 1.0).evidence.get("limit")
        for cause, death, hard in (
            (Cause.DEADLINE, None, None),
            (Cause.SILENT, None, None),
            (Cause.MEMORY, None, None),
            (Cause.DIED, _signalled(signal.SIGXCPU), hard),
            (Cause.DIED, _signalled(9), hard),
        )
    }
    assert list(limits.values()) == [7.0, 3.0, 64 * MIB, None]
    died = conclude(_trial(hard=hard), Cause.DIED, _signalled(signal.SIGXCPU), "", 1.0)
    assert (died.outcome, died.code, died.evidence["limit"]) == (Outcome.TIMED_OUT, "cpu", 2.0)
    assert "used 2 s of processor time" in died.detail


@pytest.mark.parametrize(
    ("hard", "words"),
    [
        (HardLimits(), "7 s of processor time, 1024 open files, 64 more processes or threads"),
        (HardLimits(cpu_seconds=2.0, open_files=0, processes=0), "2 s of processor time"),
    ],
    ids=["all", "processor time alone"],
)
def test_hard_limits_of_a_run_in_isolation_are_evidence(hard: HardLimits, words: str) -> None:
    assert conclude(_trial(hard=hard), Cause.DIED, None, "", 1.0).evidence["hard_limits"] == words
    assert "hard_limits" not in conclude(_trial(), Cause.DIED, None, "", 1.0).evidence


@pytest.mark.parametrize(
    ("death", "facts"),
    [
        (None, {}),
        (Death(), {}),
        (_exited(0), {"exit_status": 0}),
        (_signalled(11), {"signal": 11}),
        (_signalled(9, oom=True), {"signal": 9, "oom_kill": True}),
    ],
    ids=["unknown", "unseen", "exit", "signal", "oom"],
)
def test_how_the_process_ended_is_evidence(death: Death | None, facts: dict[str, Any]) -> None:
    evidence = conclude(_trial(), Cause.DIED, death, "", 1.0).evidence
    assert {name: evidence[name] for name in ("exit_status", "signal", "oom_kill") if name in evidence} == facts


def test_usage_is_what_came_on_top_of_what_the_worker_had_used_before() -> None:
    before = Usage(user=1.0, system=0.5, minor_faults=10, major_faults=1)
    total = Usage(user=3.0, system=1.0, minor_faults=30, major_faults=2)
    wanted = {"cpu_user": 2.0, "cpu_system": 0.5, "minor_faults": 20, "major_faults": 1}
    died = conclude(_trial(used_before=before), Cause.DIED, Death(status=9, usage=total), "", 1.0)
    said = Finished(run="r", outcome="succeeded", usage=total)
    done = conclude(_trial(used_before=before, finished=said), Cause.FINISHED, None, "", 1.0)
    for report in (died, done):
        assert {name: report.evidence[name] for name in wanted} == wanted
    lies = Finished(run="r", outcome="succeeded", usage=Usage(user=0.5))
    told = conclude(_trial(used_before=before, finished=lies), Cause.FINISHED, None, "", 1.0)
    assert not wanted.keys() & told.evidence.keys()


def test_success_carries_no_log_and_a_failure_all_that_is_known() -> None:
    def report(outcome: Outcome) -> Any:
        trial = _trial(stack="in handle", alongside=["k other"] * 40, finished=Finished(run="r", outcome=outcome))
        trial.look(5 * MIB)
        trial.look(3 * MIB)
        trial.look(0)
        return conclude(trial, Cause.FINISHED, None, "tail", 1.0).evidence

    assert report(Outcome.SUCCEEDED) == {"cause": "finished", "build": "b", "peak_rss": 5 * MIB}
    failed = report(Outcome.FAILED)
    assert (failed["last_rss"], failed["peak_rss"]) == (3 * MIB, 5 * MIB)
    assert (failed["stack"], failed["log_tail"]) == ("in handle", "tail")
    assert failed["alongside"] == ["k other"] * MAX_ALONGSIDE


def test_what_was_asked_for_and_spent_goes_on_to_the_verdict() -> None:
    trial = _trial(finished=Finished(run="r", outcome="dependency", code="DependencyDown", after=9.0, dependency="d"))
    hear(trial, Spend(run="r", number=1, tokens=5, usd=0.5))
    hear(trial, Spend(run="r", number=2, tokens=2, usd=0.0))
    report = conclude(trial, Cause.FINISHED, None, "", 1.0)
    assert (report.after, report.dependency, report.spent) == (9.0, "d", Spent(tokens=7, usd=0.5))
    assert conclude(trial, Cause.DIED, None, "", 1.0).after is None


def test_order_that_no_worker_has_seen_has_lasted_no_time() -> None:
    report = unstarted(Outcome.OUTAGE, "revoked", now=5.0)
    assert (report.outcome, report.code, report.started, report.seconds) == (Outcome.OUTAGE, "revoked", 5.0, 0.0)


def test_death_in_a_word() -> None:
    words = [shown(death) for death in (Death(), _exited(2), _signalled(15), _signalled(9, oom=True))]
    assert words == ["vanished", "exit:2", "signal:15", "memory:kernel"]


@given(status=st.none() | st.integers(0, 255).map(lambda code: code << 8) | st.integers(1, 64), oom=st.booleans())
def test_dead_worker_is_never_a_success_and_always_a_crash_or_a_limit(status: int | None, *, oom: bool) -> None:
    outcome = conclude(_trial(hard=HardLimits()), Cause.DIED, Death(status=status, oom=oom), "", 1.0).outcome
    assert outcome in {Outcome.CRASHED, Outcome.MEMORY, Outcome.TIMED_OUT}


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_run_whose_claim_nobody_took_away_cannot_have_given_it_up(outcome: Outcome) -> None:
    trial = _trial()
    trial.finished = Finished(run="r", outcome=outcome, code="x", gave_up=True)
    report = conclude(trial, Cause.FINISHED, None, "", 1.0)
    assert (report.outcome, report.code) == (outcome, "x")


def test_run_that_gave_up_is_reported_as_its_claim_was_taken() -> None:
    trial = _trial(revoked_with=Outcome.OUTAGE)
    trial.finished = Finished(run="r", outcome=Outcome.SUCCEEDED, gave_up=True)
    report = conclude(trial, Cause.FINISHED, None, "", 1.0)
    assert (report.outcome, report.code) == (Outcome.OUTAGE, "gave_up")


def test_worker_measures_only_what_it_was_asked_to_examine() -> None:
    found = Measured(bytes=1, charset="u" * 8000, tokens=1, exact=True, attachments=0)
    admitted, came_past = _trial(), _trial(examine=True)
    for trial in (admitted, came_past):
        hear(trial, found)
    assert conclude(admitted, Cause.DIED, None, "", 1.0).admission is None
    measured = conclude(came_past, Cause.DIED, None, "", 1.0).admission
    assert measured is not None
    assert len(measured.charset.encode()) <= 64


def test_words_of_a_worker_are_short_and_can_be_stored_even_if_it_does_not_see_to_that() -> None:
    trial = _trial()
    hear(trial, Progress(run="r", text="a\x00" * 4000))
    trial.finished = Finished(run="r", outcome=Outcome.FAILED, code="c" * 8000, message="m" * 8000)
    report = conclude(trial, Cause.FINISHED, None, "", 1.0)
    assert "\x00" not in report.evidence["progress"]
    assert (
        max(len(report.code.encode()), len(report.detail.encode()), len(report.evidence["progress"].encode())) <= 1024
    )

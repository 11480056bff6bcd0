import pytest

from consumer.evidence import Trial, conclude, hear
from consumer.execution import RunOrder
from consumer.intentions import Cause
from consumer.pipe import Finished, Measured, Progress
from gateway.contract.outcomes import Outcome


def _trial(*, examine: bool = False, revoked_with: Outcome | None = None) -> Trial:
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
        deadline=1.0,
        memory_limit=1 << 20,
    )
    return Trial(order=order, build="b", worker=1, started=0.0, begun=0.0, revoked_with=revoked_with)


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

import asyncio
import os

import pytest

from consumer.execution import Executor, ExecutorUnavailable, RunReport
from consumer.inline import Inline
from consumer.pool import Pool
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Outcome
from tests.integration.workers.orders import order

pytestmark = pytest.mark.timeout(30)
HANDLER = "tests.integration.workers.accidents:handle_async"


@pytest.fixture(scope="module")
def loaded() -> Inline:
    return Inline.load(HANDLER, slots=2)


def test_both_executors_fit_the_same_seam(loaded: Inline) -> None:
    executors: list[type[Executor]] = [Inline, Pool]
    assert all(hasattr(executor, "revoke") for executor in executors)


def test_plain_def_is_refused_in_clear_words() -> None:
    with pytest.raises(ExecutorUnavailable, match="is a plain def"):
        Inline.load("tests.integration.workers.accidents:handle", slots=1)


async def test_inline_runs_give_the_same_reports(loaded: Inline) -> None:
    fine, raised = await loaded.run(order("fine")), await loaded.run(order("raise"))
    assert (fine.outcome, raised.outcome, raised.code) == (Outcome.SUCCEEDED, Outcome.FAILED, "ValueError")
    assert (await loaded.run(order("spend"))).spent == Spent(tokens=7)


@pytest.mark.parametrize(
    ("accident", "outcome", "code"),
    [
        ("panic", Outcome.FAILED, "tests.integration.workers.accidents.Panic"),
        ("exit", Outcome.FAILED, "SystemExit"),
        ("interrupt", Outcome.FAILED, "KeyboardInterrupt"),
        ("cancel", Outcome.FAILED, "asyncio.exceptions.CancelledError"),
        ("mute", Outcome.REJECTED, "Reject"),
    ],
)
async def test_whatever_an_inline_handler_raises_ends_its_run_and_not_the_node(
    loaded: Inline, accident: str, outcome: Outcome, code: str
) -> None:
    report = await loaded.run(order(accident))
    assert (report.outcome, report.code) == (outcome, code)
    assert (await loaded.run(order("fine"))).outcome is Outcome.SUCCEEDED


async def test_inline_handler_that_cancels_its_own_wait_and_goes_on_has_succeeded(loaded: Inline) -> None:
    report = await loaded.run(order("cancel_and_catch"))
    assert report.outcome is Outcome.SUCCEEDED


async def test_inline_run_whose_handler_has_not_begun_is_released_by_a_stop() -> None:
    inline = Inline.load(HANDLER, slots=1)
    run = asyncio.create_task(inline.run(order("fine")))
    await asyncio.sleep(0)
    await inline.stop()
    assert (await run).outcome is Outcome.RELEASED


async def test_start_of_an_inline_run_is_told_when_it_has_a_slot() -> None:
    inline = Inline.load(HANDLER, slots=1)
    started: list[int] = []
    sleeps = order("sleep")
    first = asyncio.create_task(inline.run(sleeps, started=started.append))
    second = asyncio.create_task(inline.run(order("fine"), started=started.append))
    await asyncio.sleep(0)
    assert started == [os.getpid()]
    inline.revoke(sleeps.run, outcome=Outcome.RELEASED, grace=0)
    await asyncio.gather(first, second)
    assert started == [os.getpid()] * 2


@pytest.mark.parametrize("end", ["revoked", "stopped"])
async def test_inline_run_that_is_called_and_taken_back_in_one_moment_never_begins(end: str) -> None:
    inline = Inline.load(HANDLER, slots=1)
    started: list[int] = []
    first, second, third = order("fine"), order("sleep"), order("fine")

    async def run_and_take_back() -> RunReport:
        report = await inline.run(first, started=started.append)
        # Still in the step that has handed the slot over; whoever gets it goes on in a later one.
        if end == "revoked":
            inline.revoke(second.run, outcome=Outcome.OUTAGE, grace=0)
        else:
            await inline.stop()
        return report

    later = (inline.run(one, started=started.append) for one in (second, third))
    reports = await asyncio.wait_for(asyncio.gather(run_and_take_back(), *later), 20)
    expected = [Outcome.OUTAGE, Outcome.SUCCEEDED] if end == "revoked" else [Outcome.RELEASED] * 2
    assert [report.outcome for report in reports] == [Outcome.SUCCEEDED, *expected]
    assert len(started) == (2 if end == "revoked" else 1)


async def test_inline_run_is_cancelled_at_its_deadline(loaded: Inline) -> None:
    report = await loaded.run(order("sleep", deadline=0.1))
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "deadline")
    assert "in handle_async" in report.evidence["stack"]


@pytest.mark.parametrize("accident", ["swallow", "swallow and fail"])
async def test_inline_handler_that_catches_its_cancellation_has_not_ended_by_itself(
    loaded: Inline, accident: str
) -> None:
    report = await loaded.run(order(accident, deadline=0.1))
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "deadline")
    revoked = order(accident)
    run = asyncio.create_task(loaded.run(revoked))
    await asyncio.sleep(0)
    loaded.revoke(revoked.run, outcome=Outcome.OUTAGE, grace=0)
    assert (await run).outcome is Outcome.OUTAGE


async def test_what_an_inline_handler_has_left_behind_is_not_heard_after_its_run(loaded: Inline) -> None:
    kept: list[Spent] = []

    async def keep(spent: Spent) -> None:
        kept.append(spent)

    assert (await loaded.run(order("spend_later"), spent=keep)).spent == Spent()
    assert (await loaded.run(order("collect"), spent=keep)).spent == Spent()
    assert kept == []


async def test_inline_item_that_came_past_the_door_is_examined(loaded: Inline) -> None:
    assert (await loaded.run(order(body=b"\xff\xff\xfe", examine=True))).outcome is Outcome.INADMISSIBLE
    passed = await loaded.run(order("fine", examine=True))
    assert passed.admission is not None


async def test_inline_run_that_is_revoked_gives_up_or_is_cancelled(loaded: Inline) -> None:
    listens, sleeps = order("until_lost"), order("sleep")
    runs = [asyncio.create_task(loaded.run(one)) for one in (listens, sleeps)]
    await asyncio.sleep(0)
    waiting = order("fine")
    runs.append(asyncio.create_task(loaded.run(waiting)))
    await asyncio.sleep(0)
    loaded.revoke(waiting.run, outcome=Outcome.OUTAGE, grace=0.1)
    loaded.revoke(listens.run, outcome=Outcome.OUTAGE, grace=10)
    loaded.revoke(sleeps.run, outcome=Outcome.OUTAGE, grace=0.1)
    reports = await asyncio.gather(*runs)
    assert [report.outcome for report in reports] == [Outcome.OUTAGE] * 3


async def test_inline_run_that_waits_for_a_slot_is_given_back_at_once_when_it_is_revoked() -> None:
    inline = Inline.load(HANDLER, slots=1)
    started: list[int] = []
    runs = [order("sleep"), order("fine"), order("fine"), order("fine")]
    sleeps, revoked, cancelled, last = (asyncio.create_task(inline.run(one, started=started.append)) for one in runs)
    await asyncio.sleep(0)
    inline.revoke(runs[1].run, outcome=Outcome.RELEASED, grace=10)
    assert ((await revoked).outcome, (await revoked).code) == (Outcome.RELEASED, "revoked")
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert not sleeps.done()
    inline.revoke(runs[0].run, outcome=Outcome.RELEASED, grace=0)
    assert (await last).outcome is Outcome.SUCCEEDED
    assert len(started) == 2
    assert (await inline.run(order("fine"))).outcome is Outcome.SUCCEEDED


async def test_inline_stop_releases_what_still_runs_and_what_waits() -> None:
    inline = Inline.load(HANDLER, slots=1)
    runs = [asyncio.create_task(inline.run(order("sleep"))) for _ in range(2)]
    await asyncio.sleep(0)
    await inline.stop()
    reports = [await run for run in runs]
    assert [report.outcome for report in reports] == [Outcome.RELEASED] * 2
    assert [report.code for report in reports] == ["stopped"] * 2
    assert (await inline.run(order("fine"))).outcome is Outcome.RELEASED

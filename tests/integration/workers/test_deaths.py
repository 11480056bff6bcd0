"""Accidents: something is killed, starves or never starts, and only what must be charged is charged."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from consumer.execution import ExecutorUnavailable
from consumer.pool import Pool
from gateway.contract.outcomes import Outcome
from tests.integration.workers.accidents import FORK_GATE
from tests.integration.workers.conftest import NewPool
from tests.integration.workers.orders import MIB, order
from tests.support.descriptors import descriptors_left
from tests.support.processes import is_gone
from tests.support.program import Programs
from tests.support.waiting import eventually, soon

pytestmark = pytest.mark.timeout(30)


async def test_killed_worker_charges_only_the_item_it_was_running(new_pool: NewPool, tmp_path: Path) -> None:
    pool = new_pool(slots=4)
    await pool.start()
    runs = [asyncio.create_task(pool.run(order(f"wait {tmp_path / 'go'}"))) for _ in range(4)]
    await asyncio.sleep(0)
    victim = pool.worker_pids()[1]
    os.kill(victim, signal.SIGKILL)
    done, _ = await asyncio.wait(runs, return_when=asyncio.FIRST_COMPLETED)
    (report,) = (run.result() for run in done)
    assert (report.outcome, report.code, report.worker) == (Outcome.CRASHED, "signal:9", victim)
    await soon(lambda: pool.ready == 4)
    (tmp_path / "go").touch()
    others = [await run for run in runs if run not in done]
    assert [other.outcome for other in others] == [Outcome.SUCCEEDED] * 3


async def test_run_that_waits_is_not_given_to_a_worker_that_has_said_it_finished_and_is_dead(pool: Pool) -> None:
    (worker,) = pool.worker_pids()
    process = psutil.Process(worker)
    first = asyncio.create_task(pool.run(order("finish says-goodbye", run="says-goodbye")))
    second = asyncio.create_task(pool.run(order()))
    await asyncio.sleep(0)  # both are ordered; from here the supervisor is too slow to see anything happen in between
    assert psutil.wait_procs([process], timeout=20)[1] == []
    assert (await first).outcome is Outcome.SUCCEEDED
    report = await second
    assert (report.outcome, report.worker != worker) == (Outcome.SUCCEEDED, True)


async def test_worker_that_dies_idle_charges_nobody_and_is_replaced(pool: Pool) -> None:
    (before,) = pool.worker_pids()
    os.kill(before, signal.SIGKILL)
    await soon(lambda: before not in pool.worker_pids() and pool.ready == 1)
    assert (await pool.run(order())).outcome is Outcome.SUCCEEDED


async def test_worker_that_was_told_to_leave_may_take_its_time(
    new_pool: NewPool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pool = new_pool(handler="tests.integration.workers.slow_goodbye:handle")
    await pool.start()
    await pool.stop()
    ours = [record for record in caplog.records if record.name.startswith("consumer")]
    worse = [record.getMessage() for record in ours if record.levelname != "INFO"]
    (exited,) = (record for record in caplog.records if record.getMessage() == "worker.exited")
    assert worse == []
    assert vars(exited)["lazaretto_fields"]["status"] == "exit:0"


async def test_sigterm_to_a_worker_right_after_its_start_ends_only_that_worker(new_pool: NewPool) -> None:
    heard: list[int] = []
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, heard.append, 1)
    try:
        pool = new_pool(slots=2)
        await pool.start()
        stays, goes = pool.worker_pids()
        os.kill(goes, signal.SIGKILL)
        fresh = await soon(lambda: [pid for pid in pool.worker_pids() if pid not in (stays, goes)])
        os.kill(fresh[0], signal.SIGTERM)
        await soon(lambda: not psutil.pid_exists(fresh[0]))
        await soon(lambda: pool.ready == 2)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    assert heard == []
    assert stays in pool.worker_pids()
    assert psutil.pid_exists(pool.mold_pid)


async def test_worker_that_never_starts_is_replaced_and_nobody_is_charged(
    new_pool: NewPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    monkeypatch.setenv(FORK_GATE, str(gate))
    pool = new_pool(start_deadline=0.5)
    await pool.start()
    assert not gate.exists(), "the first fork must have stalled"
    assert (await pool.run(order())).outcome is Outcome.SUCCEEDED


async def test_lock_that_a_thread_held_at_the_fork_costs_a_start_and_no_run(
    new_pool: NewPool, caplog: pytest.LogCaptureFixture
) -> None:
    pool = new_pool(handler="tests.integration.workers.held_lock:handle", slots=2, fresh=True, start_deadline=0.5)
    await pool.start()
    runs = 0
    while "worker.stuck" not in caplog.messages or runs < 20:  # which fork copies a held lock is a matter of luck
        report = await pool.run(order())
        assert report.outcome is Outcome.SUCCEEDED
        runs += 1
        assert runs < 500
    assert "mold.threads" in caplog.messages, "and the operator was warned"


async def test_worker_whose_descriptors_find_no_room_gets_no_run_and_another_one_is_tried(
    new_pool: NewPool, caplog: pytest.LogCaptureFixture
) -> None:
    pool = new_pool(slots=3, start_deadline=100.0)
    # Three requests take five descriptors at a time and keep three; each birth that is announced brings two.
    with descriptors_left(12):
        start = asyncio.create_task(pool.start())
        mold = await soon(lambda: pool.mold_pid)
        await soon(lambda: "worker.unheld" in caplog.messages, 60.0)
    await start
    reports = await asyncio.gather(*(pool.run(order()) for _ in range(9)))
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}
    assert pool.mold_pid == mold


async def test_spike_that_was_freed_is_no_reason_to_kill(pool: Pool) -> None:
    first = await pool.run(order("spike", memory_limit=800 * MIB))
    second = await pool.run(order("fine", memory_limit=100 * MIB))
    third = await pool.run(order("exit 1", memory_limit=100 * MIB))
    assert [first.outcome, second.outcome] == [Outcome.SUCCEEDED, Outcome.SUCCEEDED]
    assert first.worker == second.worker == third.worker
    assert third.evidence["peak_rss"] < 100 * MIB, "the peak is this run's own"


async def test_runaway_allocation_is_stopped_at_its_ceiling_and_harms_nobody_else(
    new_pool: NewPool, tmp_path: Path
) -> None:
    pool = new_pool(slots=2)
    await pool.start()
    neighbour = asyncio.create_task(pool.run(order(f"wait {tmp_path / 'go'}")))
    report = await pool.run(order("eat", memory_limit=200 * MIB))
    (tmp_path / "go").touch()
    assert (report.outcome, report.evidence["progress"]) == (Outcome.MEMORY, "eating")
    assert report.code in ("memory:ceiling", "memory:error"), "watched, or the last wall if it was quicker"
    assert 200 * MIB < report.evidence["peak_rss"] < 1000 * MIB
    assert report.evidence["limit"] == 200 * MIB
    assert (await neighbour).outcome is Outcome.SUCCEEDED


async def test_allocation_beyond_the_last_wall_is_a_memory_outcome_and_the_worker_retires(pool: Pool) -> None:
    report = await pool.run(order("gulp"))
    after = await pool.run(order("fine"))
    assert (report.outcome, report.code) == (Outcome.MEMORY, "memory:error")
    assert after.worker != report.worker


async def test_a_module_that_leaves_its_children_to_the_kernel_costs_its_mold_nothing(
    new_pool: NewPool, caplog: pytest.LogCaptureFixture
) -> None:
    pool = new_pool(handler="tests.integration.workers.deaf_parent:handle", slots=2)
    await pool.start()
    report = await pool.run(order("die"))
    assert (report.outcome, report.code) == (Outcome.CRASHED, "signal:9")
    assert (await pool.run(order("fine"))).outcome is Outcome.SUCCEEDED
    assert [message for message in caplog.messages if message.startswith("mold.")] == []


async def test_what_a_worker_has_started_dies_with_it(pool: Pool, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    report = await pool.run(order(f"child {note}", deadline=1.5))
    assert report.outcome is Outcome.TIMED_OUT
    child = int(note.read_text())
    await soon(lambda: is_gone(child))


async def test_what_a_worker_has_started_dies_with_it_though_it_has_left_its_group(pool: Pool, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    report = await pool.run(order(f"stray {note}", deadline=1.5))
    assert report.outcome is Outcome.TIMED_OUT
    stray = int(note.read_text())
    await soon(lambda: not psutil.pid_exists(stray))  # waited for, too
    assert (await pool.run(order())).outcome is Outcome.SUCCEEDED


async def test_memory_of_what_a_run_has_started_counts(pool: Pool) -> None:
    report = await pool.run(order("feed", memory_limit=250 * MIB))
    assert (report.outcome, report.code) == (Outcome.MEMORY, "memory:ceiling")
    assert report.evidence["peak_rss"] > 250 * MIB


async def test_copies_of_a_worker_do_not_count_what_they_share(pool: Pool) -> None:
    assert (await pool.run(order("copies", memory_limit=350 * MIB))).outcome is Outcome.SUCCEEDED


async def test_lost_mold_charges_nobody_and_is_replaced(new_pool: NewPool, tmp_path: Path) -> None:
    pool = new_pool(slots=2)
    await pool.start()
    runs = [asyncio.create_task(pool.run(order(f"deaf {tmp_path / 'never'}"))) for _ in range(2)]
    await asyncio.sleep(0)
    mold, workers = pool.mold_pid, pool.worker_pids()
    os.kill(mold, signal.SIGKILL)
    reports = await asyncio.gather(*runs)
    assert [(report.outcome, report.code) for report in reports] == [(Outcome.RELEASED, "mold_lost")] * 2
    await soon(lambda: all(is_gone(pid) for pid in workers))
    assert (await pool.run(order())).outcome is Outcome.SUCCEEDED
    assert pool.mold_pid != mold


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_supervisor(programs: Programs, tmp_path: Path, number: signal.Signals) -> None:
    note = tmp_path / "pid"
    node = programs.python(
        "node", "-m", "tests.integration.workers.node", f"child {note}", f"deaf {tmp_path / 'never'}"
    )
    node.wait_for_log(r"^up \d+ mold \d+ workers \d+ \d+$")
    eventually(lambda: note.exists() and note.read_text())
    assert len(node.children()) == 4, "mold, two workers, and what one of them has started"
    node.signal(number)
    eventually(lambda: not node.children())


async def test_handler_that_is_not_there_fails_the_start_in_clear_words(new_pool: NewPool) -> None:
    for handler, words in (
        ("tests.integration.workers.acidents:handle", "there is no module tests.integration.workers.acidents"),
        ("tests.integration.workers.accidents:handel", "has no handel"),
        ("tests.integration.workers.broken:handle", "RuntimeError: broken at import"),
        ("nonsense", "package.module:function"),
    ):
        with pytest.raises(ExecutorUnavailable, match=words):
            await new_pool(handler=handler).start()


async def test_pool_starts_from_another_directory_with_the_same_modules(
    new_pool: NewPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere_handler.py").write_text("def handle(run):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    pool = new_pool(handler="elsewhere_handler:handle")
    monkeypatch.chdir("/")
    await pool.start()
    first = pool.mold_pid
    os.kill(first, signal.SIGKILL)  # the next mold is started from where the supervisor is now
    await soon(lambda: pool.mold_pid != first)  # a run that comes earlier may still be taken by the old one's worker
    assert (await pool.run(order())).outcome is Outcome.SUCCEEDED

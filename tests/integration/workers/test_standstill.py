"""Silence and slowness: whose they are. A supervisor that stood still holds nothing against anybody."""

import asyncio
import signal
import time
from pathlib import Path

import psutil
import pytest

from consumer.inline import Inline
from consumer.pool import Pool
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Outcome
from tests.integration.workers.accidents import BIRTH_GATE
from tests.integration.workers.conftest import NewPool
from tests.integration.workers.node import DEADLINE, HEARTBEAT
from tests.integration.workers.orders import order
from tests.support.program import Program, Programs
from tests.support.waiting import eventually, soon

pytestmark = pytest.mark.timeout(120)


async def test_run_that_says_nothing_for_longer_than_its_heartbeat_is_killed(pool: Pool, tmp_path: Path) -> None:
    report = await pool.run(order(f"deaf {tmp_path / 'never'}", heartbeat=0.5))
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "silent")
    assert (report.evidence["progress"], report.evidence["limit"]) == ("deaf", 0.5)
    assert (await pool.run(order("fine"))).outcome is Outcome.SUCCEEDED


async def test_run_that_goes_on_speaking_outlives_many_heartbeats(pool: Pool, tmp_path: Path) -> None:
    gate, beats = tmp_path / "gate", tmp_path / "beats"
    run = asyncio.create_task(pool.run(order(f"beat {gate} {beats}", heartbeat=2.0)))
    await soon(lambda: beats.exists() and int(beats.read_text() or 0) > 100, 30)
    gate.touch()
    assert (await run).outcome is Outcome.SUCCEEDED


async def test_run_that_waits_for_the_store_is_not_silent(pool: Pool, tmp_path: Path) -> None:
    asked: list[Spent] = []
    may_write = asyncio.Event()

    async def keep(total: Spent) -> None:
        asked.append(total)
        await may_write.wait()

    run = asyncio.create_task(pool.run(order(f"pay {tmp_path / 'beyond'}", heartbeat=0.3), spent=keep))
    await soon(lambda: asked)
    await asyncio.wait([run], timeout=1.5)  # several heartbeats, which is the accident itself
    may_write.set()
    assert (await run).outcome is Outcome.SUCCEEDED


async def test_silent_inline_run_is_cancelled() -> None:
    inline = Inline.load("tests.integration.workers.accidents:handle_async", slots=1)
    report = await inline.run(order("sleep", heartbeat=0.3))
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "silent")


def _beats(path: Path) -> int:
    return int(path.read_text() or 0) if path.exists() else 0


def _beating(programs: Programs, tmp_path: Path) -> tuple[Program, list[Path], Path]:
    """Start a node whose two runs have short heartbeats, and wait for both to beat."""
    gate, beats = tmp_path / "gate", [tmp_path / "first", tmp_path / "second"]
    node = programs.python(
        "node",
        "-m",
        "tests.integration.workers.node",
        *(f"beat {gate} {path}" for path in beats),
        env={HEARTBEAT: "2", DEADLINE: "600"},
    )
    node.wait_for_log(r"^up \d+ mold \d+ workers \d+ \d+$")
    eventually(lambda: all(_beats(path) > 3 for path in beats))
    return node, beats, gate


def _all_succeeded(node: Program) -> None:
    eventually(lambda: node.exit_code == 0)
    assert node.log.count("ended succeeded") == 2


def test_supervisor_that_was_stopped_for_many_heartbeats_kills_no_healthy_worker(
    programs: Programs, tmp_path: Path
) -> None:
    node, beats, gate = _beating(programs, tmp_path)
    node.signal(signal.SIGSTOP)
    before = [_beats(path) for path in beats]
    eventually(lambda: all(_beats(path) > was + 160 for path, was in zip(beats, before, strict=True)), 60)
    node.signal(signal.SIGCONT)
    before = [_beats(path) for path in beats]
    eventually(lambda: all(_beats(path) > was + 60 for path, was in zip(beats, before, strict=True)), 30)
    gate.touch()
    _all_succeeded(node)


def test_machine_that_stood_still_as_a_whole_kills_no_healthy_worker(programs: Programs, tmp_path: Path) -> None:
    node, beats, gate = _beating(programs, tmp_path)
    family = [psutil.Process(process.pid) for process in node.family()]
    for process in family:
        process.suspend()
    stopped_at = time.monotonic()
    eventually(lambda: time.monotonic() > stopped_at + 8.0)  # four heartbeats, which is the accident itself
    for process in family:
        process.resume()
    before = [_beats(path) for path in beats]
    eventually(lambda: all(_beats(path) > was + 60 for path, was in zip(beats, before, strict=True)), 30)
    gate.touch()
    _all_succeeded(node)


def test_run_that_ended_in_time_while_its_supervisor_was_stopped_is_done(programs: Programs, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    node = programs.python(
        "node", "-m", "tests.integration.workers.node", *[f"wait {gate}"] * 2, env={DEADLINE: "4", HEARTBEAT: "2"}
    )
    node.wait_for_log(r"^up \d+ mold \d+ workers \d+ \d+$")
    node.signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    gate.touch()
    eventually(lambda: time.monotonic() > stopped_at + 6.0)  # beyond the deadline, which is the accident itself
    node.signal(signal.SIGCONT)
    _all_succeeded(node)


async def test_start_is_not_called_stuck_for_the_time_in_which_the_supervisor_stood_still(
    new_pool: NewPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv(BIRTH_GATE, str(gate))
    pool = new_pool(start_deadline=1.5)
    await pool.start()
    gate.touch()
    (first,) = pool.worker_pids()
    psutil.Process(first).kill()
    await soon(lambda: pool.worker_pids() and pool.worker_pids() != [first])
    time.sleep(3)  # the whole process stands still, which is the accident itself
    for _ in range(5):
        await asyncio.sleep(0)
    gate.unlink()
    await soon(lambda: pool.ready == 1)
    assert "worker.stuck" not in [record.getMessage() for record in caplog.records]

"""Several processes are one door: one port, one end, one set of figures, and one memory of what they have accepted."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import psutil
import pytest

from gateway.embedded import EmbeddedBroker, free_port
from tests.integration.door.conftest import StartDoor
from tests.integration.door.key_file import KeyFile
from tests.integration.door.running import RunningDoor
from tests.support.processes import those
from tests.support.program import Program, Programs
from tests.support.waiting import eventually, soon

WORKERS = 3
WITHIN = 30.0


@pytest.fixture
async def crowd(start: StartDoor) -> AsyncIterator[RunningDoor]:
    async with await start(door_workers=str(WORKERS)) as door:
        await soon(lambda: _all_ready(door), WITHIN)
        yield door


async def _all_ready(door: RunningDoor, count: int = WORKERS) -> bool:
    answer = await _fresh(door, "/readyz")
    return answer is not None and f"{count} of {count} ready" in answer


async def _fresh(door: RunningDoor, path: str) -> str | None:
    """Ask on a connection of its own, which any of the processes may take; None while the one that took it dies."""
    try:
        async with aiohttp.ClientSession(door.url) as session, session.get(path) as response:
            return f"{response.status} {await response.text()}"
    except aiohttp.ClientConnectionError:
        return None


def _workers(program: Program) -> list[psutil.Process]:
    return those(program.children(), lambda process: process.ppid() == program.pid)


async def _metric(door: RunningDoor, line: str) -> float:
    text = await _fresh(door, "/metrics") or ""
    found = [row for row in text.splitlines() if row.startswith(line + " ")]
    return float(found[0].rsplit(" ", 1)[1]) if found else 0.0


async def test_what_one_process_has_accepted_every_process_knows_and_counts(crowd: RunningDoor) -> None:
    answers = []
    for _ in range(12):  # each on a connection of its own, so that several processes have some
        async with RunningDoor(crowd.program, crowd.url, crowd.broker_url, crowd.topology.prefix) as client:
            answers.append(await client.submit())
    assert {answer.status for answer in answers} == {202}

    for answer in answers:
        for _ in range(4):
            told = await _fresh(crowd, answer.headers["Location"])
            assert told is not None
            assert told.startswith("200 ")
            assert '"state":"accepted"' in told
    assert await _metric(crowd, 'lazaretto_admission_requests_total{kind="support.ticket",outcome="accepted"}') == 12
    assert await _metric(crowd, "lazaretto_door_processes") == WORKERS
    busy = [process for process in _workers(crowd.program) if process.cpu_times().user > 0]
    assert len(busy) == WORKERS


async def test_who_cannot_be_replaced_on_a_full_disk_leaves_the_others_open_until_there_is_room(
    crowd: RunningDoor,
) -> None:
    supervisor = psutil.Process(crowd.program.pid)
    room = supervisor.rlimit(psutil.RLIMIT_FSIZE)
    supervisor.rlimit(psutil.RLIMIT_FSIZE, (900_000, room[1]))  # the log has room
    _workers(crowd.program)[0].kill()
    await asyncio.to_thread(crowd.program.wait_for_log, "door_process_not_begun", WITHIN)
    async with RunningDoor(crowd.program, crowd.url, crowd.broker_url, crowd.topology.prefix) as client:
        assert (await client.submit()).status == 202

    supervisor.rlimit(psutil.RLIMIT_FSIZE, room)
    await soon(lambda: _all_ready(crowd), WITHIN)


async def test_a_killed_process_is_replaced_and_its_counters_stay(crowd: RunningDoor) -> None:
    for _ in range(9):
        async with RunningDoor(crowd.program, crowd.url, crowd.broker_url, crowd.topology.prefix) as client:
            assert (await client.submit()).status == 202
    before = {process.pid for process in _workers(crowd.program)}
    accepted = 'lazaretto_admission_requests_total{kind="support.ticket",outcome="accepted"}'

    for pid in before:
        os.kill(pid, signal.SIGKILL)

    await soon(lambda: not before & {process.pid for process in _workers(crowd.program)}, WITHIN)
    await soon(lambda: _all_ready(crowd), WITHIN)
    assert await _metric(crowd, accepted) == 9
    assert await _metric(crowd, "lazaretto_door_restarts_total") == WORKERS
    assert await _metric(crowd, "lazaretto_inflight_publishes") == 0
    async with RunningDoor(crowd.program, crowd.url, crowd.broker_url, crowd.topology.prefix) as client:
        assert (await client.submit()).status == 202
    assert await _metric(crowd, accepted) == 10


async def test_the_end_of_the_supervisor_is_the_end_of_all(crowd: RunningDoor) -> None:
    assert len(_workers(crowd.program)) == WORKERS

    await asyncio.to_thread(crowd.program.kill9)

    await soon(lambda: not crowd.program.children(), WITHIN)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_to_end_all_of_them_do_in_order_with_exit_code_0(crowd: RunningDoor, number: signal.Signals) -> None:
    crowd.program.signal(number)

    assert await asyncio.to_thread(crowd.program.wait) == 0
    assert crowd.program.log.count("door_closed") == WORKERS
    assert not crowd.program.children()


def test_no_moment_of_its_start_swallows_a_signal_to_end(programs: Programs, tmp_path: Path) -> None:
    trying = programs.python("stopped-early", "-m", "tests.integration.door.stopped_early", str(tmp_path))

    assert trying.wait(120) == 0
    fates = re.findall(r"^\d+ (\S+)$", trying.log, re.MULTILINE)
    assert fates[0] == "-15"  # nobody listens yet, so the system ends it
    assert fates[-1] == "0"
    assert set(fates) == {"-15", "0"}


async def test_a_hang_up_reaches_all_of_them(start: StartDoor, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys")
    async with await start(door_workers=str(WORKERS), keys=str(keys.path)) as door:
        await soon(lambda: _all_ready(door), WITHIN)
        before = door.program.log.count("reloaded what=keys")

        door.program.signal(signal.SIGHUP)

        await soon(lambda: door.program.log.count("reloaded what=keys") == before + WORKERS, WITHIN)
        assert len(_workers(door.program)) == WORKERS


def _door(programs: Programs, **settings: str) -> Program:
    env = {f"LAZARETTO_{name.upper()}": value for name, value in settings.items()}
    return programs.python("door", "-m", "gateway", "--workers", "2", env={"LAZARETTO_DOOR": "127.0.0.1:0", **env})


def test_a_door_of_which_no_process_can_begin_ends_with_the_reason(programs: Programs, tmp_path: Path) -> None:
    door = _door(programs, broker_url=f"amqp://guest:guest@127.0.0.1:{free_port()}/", data=str(tmp_path))

    assert door.wait(60) == 3
    assert "broker unreachable" in door.log
    eventually(lambda: not door.family())


async def test_a_port_that_another_door_has_is_not_shared_with_it(
    crowd: RunningDoor, programs: Programs, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    door = _door(programs, door="{}:{}".format(*crowd.host_port), broker_url=broker.url, data=str(tmp_path / "other"))

    assert await asyncio.to_thread(door.wait, 60) == 2
    assert "cannot listen on" in door.log


async def test_processes_that_die_young_come_back_ever_later_while_others_serve(crowd: RunningDoor) -> None:
    async def kill_one() -> bool:
        found = _workers(crowd.program)
        if len(found) == WORKERS:
            os.kill(max(found, key=psutil.Process.create_time).pid, signal.SIGKILL)
        return crowd.program.log.count("door_process_died") >= 3

    await soon(kill_one, 60)

    pauses = [float(pause) for pause in re.findall(r"again_in=(\S+)", crowd.program.log)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > pauses[0]
    assert await _fresh(crowd, "/healthz") is not None

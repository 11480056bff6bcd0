"""What a node of short runs has read ahead, and what becomes of it when runs get long, the node drains or dies (P5)."""

import contextlib
import signal
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from aio_pika.abc import AbstractChannel
from pamqp.commands import Queue

from tests.support.house import House
from tests.support.plain import on_channel
from tests.support.program import Program
from tests.support.waiting import eventually

HANDLER = "tests.support.handlers:handle_patiently"
SLOTS = 2
LONG_SECONDS = 1.0
"""Two runs of this length, among twenty short ones, are a mean far beyond what counts as short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A node whose slots are taken by tickets that wait for a gate, and that has read others ahead, which do not."""

    node: Program
    running: list[str]
    ahead: list[str]


def work_queue(house: House) -> Queue.DeclareOk:
    async def look(channel: AbstractChannel) -> Queue.DeclareOk:
        return (await channel.declare_queue(f"{house.prefix}.work", passive=True)).declaration_result

    return on_channel(house.broker_url, look)


def inline(house: House, **env: str) -> Program:
    arguments = ("--handler", HANDLER, "--isolation", "inline", "--workers", str(SLOTS))
    node = house.programs.python("inline", "-m", "consumer", *arguments, env={**house.env, **env})
    node.wait_for_log("consumer.consuming")
    return node


def started(house: House, kind: str) -> set[str]:
    return {start.ticket for start in house.starts() if start.ticket.startswith(kind)}


def licensed(house: House, kind: str) -> int:
    """Count the tickets that a node may start: it is handed them a moment before."""
    with contextlib.closing(sqlite3.connect(house.folder / "data" / "station.db", timeout=20)) as store:
        (number,) = store.execute(
            "SELECT count(*) FROM starts WHERE ticket LIKE ? AND holder != ''", [f"{kind}-%"]
        ).fetchone()
    return int(number)


def read_ahead(house: House, kind: str) -> Reading:
    house.door(), house.station()
    node = inline(house)
    house.open_gate("good")

    def reads_ahead() -> bool:  # a machine that is busy with others makes no short runs
        short = [house.accepted("good") for _ in range(20)]
        assert house.balance(short, 60.0) == Counter(done=20)
        return (work_queue(house).consumer_count or 0) >= 3

    eventually(reads_ahead, 60.0)
    running = [house.accepted("wait.held", f"held-{number}") for number in range(SLOTS)]
    eventually(lambda: len(started(house, "held")) == SLOTS, 30.0)
    ahead = [house.accepted(kind, f"ahead-{number}") for number in range(2 * SLOTS)]
    eventually(lambda: licensed(house, "ahead") == len(ahead), 30.0)
    return Reading(node=node, running=running, ahead=ahead)


@pytest.fixture
def reading(house: House) -> Reading:
    return read_ahead(house, "good")


def test_node_of_short_runs_reads_ahead_until_its_runs_get_long(house: House, reading: Reading) -> None:
    began = max(start.at for start in house.starts() if start.ticket in reading.running)
    eventually(lambda: time.time() > began + LONG_SECONDS)
    house.open_gate("wait.held")
    assert house.balance([*reading.running, *reading.ahead], 60.0) == Counter(done=3 * SLOTS)
    eventually(lambda: work_queue(house).consumer_count == 2, 30.0)
    later = [house.accepted("wait.later", f"later-{number}") for number in range(6)]
    eventually(lambda: len(started(house, "later")) == SLOTS, 30.0)
    assert work_queue(house).message_count == len(later) - SLOTS
    house.open_gate("wait.later")
    assert house.balance(later, 60.0) == Counter(done=6)
    assert {start.attempt for start in house.starts()} == {1}


def test_what_was_read_ahead_and_waits_behind_runs_that_got_long_is_given_to_others(
    house: House, reading: Reading
) -> None:
    inline(house)
    assert house.balance(reading.ahead, 60.0) == Counter(done=2 * SLOTS)
    assert list(map(house.runs, reading.ahead)) == [["released", "succeeded"]] * 2 * SLOTS
    house.open_gate("wait.held")
    assert house.balance(reading.running, 60.0) == Counter(done=SLOTS)
    assert {start.attempt for start in house.starts()} == {1}


def test_what_waits_behind_long_runs_is_given_to_others_though_its_node_reads_ahead_no_more(house: House) -> None:
    reading = read_ahead(house, "wait.ahead")
    began = max(start.at for start in house.starts() if start.ticket in reading.running)
    eventually(lambda: time.time() > began + LONG_SECONDS)
    house.open_gate("wait.held")
    assert house.balance(reading.running, 60.0) == Counter(done=SLOTS)
    reading.node.wait_for_log("run.released", 60.0, count=SLOTS)
    assert len(started(house, "ahead")) == SLOTS
    inline(house)
    eventually(lambda: len(started(house, "ahead")) > SLOTS, 60.0)  # a new node takes one at first
    house.open_gate("wait.ahead")
    assert house.balance(reading.ahead, 60.0) == Counter(done=2 * SLOTS)
    assert sorted(map(house.runs, reading.ahead)) == [["released", "succeeded"]] * SLOTS + [["succeeded"]] * SLOTS
    assert {start.attempt for start in house.starts()} == {1}


def test_what_was_read_ahead_is_given_back_uncharged_when_its_node_drains(house: House, reading: Reading) -> None:
    reading.node.signal(signal.SIGTERM)
    reading.node.wait_for_log("run.released", 30.0, count=len(reading.ahead))
    house.open_gate("wait.held")
    assert reading.node.wait(30.0) == 0
    inline(house)
    assert house.balance([*reading.running, *reading.ahead], 60.0) == Counter(done=3 * SLOTS)
    assert list(map(house.runs, reading.running)) == [["succeeded"]] * SLOTS
    assert list(map(house.runs, reading.ahead)) == [["released", "succeeded"]] * 2 * SLOTS
    assert {start.attempt for start in house.starts()} == {1}


def test_of_a_dead_nodes_licensed_starts_those_are_charged_that_had_begun_and_no_others(
    house: House, reading: Reading
) -> None:
    reading.node.kill9()
    inline(house)
    assert house.balance(reading.ahead, 60.0) == Counter(done=2 * SLOTS)
    assert list(map(house.runs, reading.ahead)) == [["released", "succeeded"]] * 2 * SLOTS
    house.node("suspects")
    house.open_gate("wait.held")
    assert house.balance(reading.running, 90.0) == Counter(done=SLOTS)
    assert list(map(house.runs, reading.running)) == [["lost", "succeeded"]] * SLOTS
    assert [len(house.starts(ticket)) for ticket in reading.running] == [2] * SLOTS
    assert {start.attempt for start in house.starts() if start.ticket in reading.ahead} == {1}
    assert [len(house.starts(ticket)) for ticket in reading.ahead] == [1] * 2 * SLOTS

import asyncio
import os
import socket

from consumer.leash import Leash
from consumer.pipe import Progress, Record, encode
from consumer.spawn import WorkerEnds


class Hearing:
    """Counts what is said."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.nonsense: list[str] = []

    def on_record(self, _: Leash, record: Record) -> None:
        self.records.append(record)

    def on_nonsense(self, _: Leash, why: str) -> None:
        self.nonsense.append(why)

    def on_output(self, _: Leash, lines: list[str], dropped: int) -> None:
        raise AssertionError(f"nobody prints: {lines} {dropped}")


def _leash(hearing: Hearing) -> tuple[Leash, socket.socket]:
    ours, worker = socket.socketpair()
    for end in (ours, worker):
        end.settimeout(0)
    output, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.close(writing)
    ends = WorkerEnds(channel=ours, output=output, stack=os.memfd_create("stack"))
    return Leash(1, ends, hearing, mold=1, build="b", hunted=False), worker


def _fill(worker: socket.socket) -> int:
    """Say as much as the pipe takes; returns how many records that are, whole ones only."""
    word = encode(Progress(run="r", text="bla"))
    sent = 0
    try:
        while True:
            sent += worker.send(word * 1000)
    except BlockingIOError:
        return sent // len(word)


async def test_worker_that_never_stops_speaking_has_one_share_of_each_turn_of_the_loop() -> None:
    hearing = Hearing()
    leash, worker = _leash(hearing)
    with worker:
        shares = []
        said = _fill(worker)
        while len(hearing.records) < said:
            before = len(hearing.records)
            await asyncio.sleep(0)
            shares.append(len(hearing.records) - before)
        assert max(shares) * 4 < said
        leash.close()


async def test_all_that_a_worker_has_said_is_read_before_it_is_judged() -> None:
    hearing = Hearing()
    leash, worker = _leash(hearing)
    with worker:
        said = _fill(worker)
        leash.read()
        assert len(hearing.records) == said
        assert hearing.nonsense == []
        leash.close()

"""BullMQ, the peer that has another broker and another language: Node on Redis, measured as all consumers are.

Owns its Redis, which keeps its log on disk as BullMQ's manual asks (`appendfsync everysec`): what was added in the last
second may be lost with the machine, where every other broker here has confirmed it.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.depth import Look, Slope, slope
from benchmarks.house import House
from benchmarks.programs import ROOT, Program, cpu_seconds
from benchmarks.waiting import BenchmarkFailed, until
from gateway.embedded import free_port

NAME: Final = "bullmq"
SOURCES: Final = Path(__file__).resolve().parent / "bullmq"
MODULES: Final = ROOT / ".venv" / "peers" / "bullmq" / "node_modules"
_REDIS: Final = ("redis-server", "--save", "", "--appendonly", "yes", "--bind", "127.0.0.1", "--daemonize", "no")
_FILLS_WITHIN: Final = 300.0


def why_missing(modules: Path = MODULES) -> str | None:
    """Return why BullMQ cannot be measured here, for a person; None when it can."""
    absent = [name for name in ("node", "redis-server") if shutil.which(name) is None]
    if absent:
        return f"{NAME} is left out: there is no {' and no '.join(absent)}"
    return None if (modules / NAME).is_dir() else f"{NAME} is left out: `make peers` has not fetched it"


def version(modules: Path = MODULES) -> str | None:
    """Return which BullMQ is there, if one is."""
    described = modules / NAME / "package.json"
    return str(json.loads(described.read_text("utf-8"))["version"]) if described.is_file() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redis:
    """A private Redis in a house's folder."""

    program: Program
    port: int

    def waiting(self, queue: str) -> int:
        """Return how many items of `queue` nobody has taken yet."""
        return asyncio.run(self.ask(queue))

    async def ask(self, queue: str) -> int:
        """The same, for those who are in a loop already; raises OSError."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"LLEN bull:{queue}:wait\r\n".encode())
            return int((await reader.readline()).removeprefix(b":"))
        finally:
            writer.close()
            await writer.wait_closed()


@contextmanager
def redis(house: House) -> Iterator[Redis]:
    """Have a Redis while the context lasts."""
    port = free_port()
    program = house.run(*_REDIS, "--port", str(port), "--dir", str(house.folder))
    found = Redis(program=program, port=port)

    def answers() -> bool:
        try:
            return found.waiting("none") == 0
        except OSError:
            if program.ended:
                raise BenchmarkFailed(f"Redis ended at once:\n{program.tail()}") from None
            return False

    try:
        until(answers, 30.0, "Redis answers")
        yield found
    finally:
        program.stop()


def drained(house: House, broker: Redis, queue: str, items: int) -> Slope:
    """Fill `queue` and return the slope of one worker that empties it; `broker_us` is Redis's."""
    env = {"PEER_QUEUE": queue, "PEER_REDIS_PORT": str(broker.port), "NODE_PATH": str(MODULES)}
    done = subprocess.run(
        [shutil.which("node") or "node", str(SOURCES / "fill.js"), str(items)],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_FILLS_WITHIN,
        check=False,
    )
    if done.returncode:
        raise BenchmarkFailed(f"{NAME} could not be given its items: {done.stderr.strip()[-2000:]}")
    worker = house.run("node", str(SOURCES / "worker.js"), **env)

    async def look() -> Look:
        ready = await broker.ask(queue)
        if worker.ended:
            raise BenchmarkFailed(f"it ended with {ready} items to go:\n{worker.tail()}")
        at = asyncio.get_running_loop().time()
        return Look(at=at, cpu=worker.cpu_seconds(), broker=cpu_seconds(broker.program.pid), ready=ready)

    try:
        return asyncio.run(slope(look, items))
    finally:
        worker.kill()

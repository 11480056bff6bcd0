"""Which peers there are, what starts each, and which of them a command line asked for. Starts nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A program of others; `PEER_BROKER` and `PEER_QUEUE` tell it where to work, `PEER_TASK` what on."""

    name: str
    """On the command line and in the figures."""
    module: str
    """Ours: the small application. A consumer's has `fill(bodies)`."""
    command: tuple[str, ...]
    """What follows `python -m`; a door's port is appended."""
    env: Mapping[str, str] = field(default_factory=dict)


def _uvicorn(name: str, module: str) -> Peer:
    fast = ("--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning")
    return Peer(name=name, module=module, command=("uvicorn", f"{module}:app", *fast, "--host", "127.0.0.1", "--port"))


def _celery(name: str, **env: str) -> Peer:
    module = "benchmarks.peers.celery_tasks"
    quiet = ("--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat")
    command = ("celery", "-A", module, "worker", "--pool", "prefork", "--concurrency", "2", *quiet)
    return Peer(name=name, module=module, command=command, env=env)


DOORS: Final = (_uvicorn("fastapi", "benchmarks.peers.fastapi_door"), _uvicorn("uvicorn", "benchmarks.peers.asgi_door"))


def _dramatiq(processes: int) -> Peer:
    module = "benchmarks.peers.dramatiq_tasks"
    command = ("dramatiq", module, "--processes", str(processes), "--threads", "1")
    return Peer(name="dramatiq", module=module, command=command, env={"dramatiq_queue_prefetch": str(32 // processes)})


def _taskiq(workers: int) -> Peer:
    module = "benchmarks.peers.taskiq_tasks"
    command = ("taskiq", "worker", f"{module}:broker", "--workers", str(workers), "--log-level", "WARNING")
    return Peer(name="taskiq", module=module, command=command, env={"PEER_PREFETCH": str(32 // workers)})


_CELERY: Final = (
    _celery("celery"),
    _celery("celery-late", PEER_ACKS="late"),
    _celery("celery-quorum", PEER_ACKS="late", PEER_QUEUE_TYPE="quorum"),
)
_FASTSTREAM: Final = Peer(
    name="faststream", module="benchmarks.peers.faststream_tasks", command=("benchmarks.peers.faststream_tasks",)
)
CONSUMERS: Final = (*_CELERY, _dramatiq(1), _taskiq(1), _FASTSTREAM)
"""At their cheapest, an item."""
BULLMQ: Final = Peer(name="bullmq", module="benchmarks.peers.on_redis", command=())
"""Has another broker and another language, so that module does for it what `running` does for the others."""
STORMED: Final = tuple(
    replace(peer, env={**peer.env, "PEER_TASK": "work"}) for peer in (*_CELERY, _dramatiq(2), _taskiq(2), _FASTSTREAM)
)
"""With two worker processes, where they have such; items that work, or kill."""
PEERS: Final[Mapping[str, tuple[Peer, ...]]] = {"admission": DOORS, "consume": (*CONSUMERS, BULLMQ), "storm": STORMED}
"""By the benchmark that measures beside them."""


def chosen(benchmarks: Iterable[str], wanted: str | None) -> dict[str, tuple[Peer, ...]]:
    """Return the peers of those `benchmarks` that have any: all with None, else those in the list `a,b`, in our order.

    Raises ValueError for a name that none of the benchmarks has.
    """
    there = {benchmark: PEERS[benchmark] for benchmark in benchmarks if benchmark in PEERS}
    if wanted is None:
        return there
    names = {name.strip() for name in wanted.split(",")} - {""}
    known = sorted({peer.name for peers in there.values() for peer in peers})
    if unknown := sorted(names.difference(known)):
        raise ValueError(f"no peer here is called {', '.join(unknown)}; there are: {', '.join(known) or 'none'}")
    return {benchmark: tuple(peer for peer in peers if peer.name in names) for benchmark, peers in there.items()}

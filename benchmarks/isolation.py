"""What does a worker process of its own add to a run, when the handler does nothing?

The fleet's two executors alone, in turn: no broker, no store, nothing that both would do alike. The one benchmark that
drives a part of the product, `consumer.execution.Executor`, and not its programs: beside a whole node's work, what is
asked here is smaller than the noise.
"""

import asyncio
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

from benchmarks.load import bodies_of
from benchmarks.scale import Scale
from benchmarks.waiting import BenchmarkFailed
from consumer.execution import Executor, RunOrder
from consumer.inline import Inline
from consumer.pool import Pool
from gateway.contract.outcomes import Outcome

WORKERS: Final = 2
_HANDLER: Final = "benchmarks.handlers:handle_nothing"
_WARM_UP: Final = 200
_BODY_BYTES: Final = 1024
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """Orders that were run one after the other in each of some slots; microseconds, of processor time but for `p50`."""

    node: float
    """A run, in the process that gives the orders; inline that is all there is."""
    workers: float
    p50: float
    """From an order to its report, by the clock."""


def measure(scale: Scale) -> dict[str, Any]:
    """Run both executors in turn; medians."""
    pool = Pool.launch(handler=_HANDLER, slots=WORKERS)
    inline = Inline.load(f"{_HANDLER}_inline", slots=WORKERS)
    return asyncio.run(_measure(pool, inline, scale))


async def _measure(pool: Pool, inline: Inline, scale: Scale) -> dict[str, Any]:
    orders = _orders()
    isolated, beside = list[Leg](), list[Leg]()
    alone = list[tuple[Leg, Leg]]()
    try:
        await pool.start()
        for executor in (inline, pool):
            await _run(executor, [], orders, _WARM_UP, at_once=WORKERS)
        for _ in range(scale.pairs):
            beside.append(await _run(inline, [], orders, scale.no_ops, at_once=WORKERS))
            isolated.append(await _run(pool, pool.worker_pids(), orders, scale.no_ops, at_once=WORKERS))
            alone.append(
                (
                    await _run(inline, [], orders, scale.requests, at_once=1),
                    await _run(pool, [], orders, scale.requests, at_once=1),
                )
            )
    finally:
        await pool.stop()
    return {
        "inline_us_per_run": _median(leg.node for leg in beside),
        "isolated_us_per_run": _median(leg.node + leg.workers for leg in isolated),
        "isolated_node_us_per_run": _median(leg.node for leg in isolated),
        "isolated_workers_us_per_run": _median(leg.workers for leg in isolated),
        "added_us_per_run": _median(
            ours.node + ours.workers - base.node for ours, base in zip(isolated, beside, strict=True)
        ),
        "added_us_p50": _median(ours.p50 - base.p50 for base, ours in alone),
        "runs": scale.no_ops,
    }


def _orders() -> Iterator[RunOrder]:
    for number, body in enumerate(cycle(bodies_of(_BODY_BYTES))):
        yield RunOrder(
            run=f"isolation-{number}",
            ticket=f"isolation-{number}",
            kind="benchmark",
            generation=0,
            attempt=1,
            interruptions=0,
            content_type="application/json",
            content_encoding=None,
            body=body,
            examine=False,
            deadline=600.0,
            memory_limit=512 * _MIB,
        )


async def _run(executor: Executor, workers: list[int], orders: Iterator[RunOrder], runs: int, *, at_once: int) -> Leg:
    left = iter(range(runs))
    took = list[float]()

    async def keep_a_slot_busy() -> None:
        for _ in left:
            order, begun = next(orders), time.perf_counter()
            report = await executor.run(order)
            took.append(time.perf_counter() - begun)
            if report.outcome is not Outcome.SUCCEEDED:
                raise BenchmarkFailed(f"a run that does nothing ended as {report.outcome}: {report.detail}")

    used, own = sum(map(_processor_time, workers)), time.process_time()
    await asyncio.gather(*(keep_a_slot_busy() for _ in range(at_once)))
    own, used = time.process_time() - own, sum(map(_processor_time, workers)) - used
    return Leg(node=own / runs * 1e6, workers=used / runs * 1e6, p50=statistics.median(took) * 1e6)


def _processor_time(pid: int) -> float:
    """Return the seconds of a whole process by its clock, which counts finer than `/proc` (clock_getcpuclockid(3))."""
    return time.clock_gettime(~pid << 3 | 2)


def _median(figures: Iterable[float]) -> float:
    return round(statistics.median(figures), 1)

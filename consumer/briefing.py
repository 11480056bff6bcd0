"""What of an order the worker is told: all that the handler and the preflight need, nothing of how it is counted."""

from dataclasses import dataclass

from msgspec import structs

from consumer.execution import RunOrder
from consumer.pipe import Order, TracedOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class HardLimits:
    """What the kernel holds a run in isolation to, besides its memory; 0 for files or processes is no limit."""

    cpu_seconds: float = 0.0
    """Of processor time, all threads together; 0 stands for the run's deadline."""
    open_files: int = 1024
    processes: int = 64
    """Tasks, threads included, beyond those that the worker's user has when the run begins."""

    def cpu_of(self, order: RunOrder) -> float:
        """Return the processor seconds that `order` may use."""
        return self.cpu_seconds or order.deadline


def briefing(order: RunOrder, hard: HardLimits | None = None) -> Order:
    """Return the record that sends `order` to its worker."""
    plain = Order(
        run=order.run,
        ticket=order.ticket,
        kind=order.kind,
        generation=order.generation,
        attempt=order.attempt,
        content_type=order.content_type,
        content_encoding=order.content_encoding,
        charset=order.charset,
        stored=order.stored,
        examine=order.examine,
        memory_limit=order.memory_limit,
        cpu_seconds=hard.cpu_of(order) if hard else 0.0,
        open_files=hard.open_files if hard else 0,
        processes=hard.processes if hard else 0,
        body=order.body,
    )
    if order.trace is None or not (headers := order.trace.presentable):
        return plain
    return TracedOrder(**structs.asdict(plain), trace=headers)

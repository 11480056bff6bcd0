"""What a run is given, and the one value that every run becomes: the seam between the protocol and the processes.

Success, exception, deadline, memory kill, kill -9 and revocation all end as a `RunReport` and pass the same road from
there (verdict, settlement). Knows neither broker nor processes.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from consumer.census import Census
from gateway.contract.envelope import Admission, Spent
from gateway.contract.outcomes import Outcome
from gateway.contract.trace_context import TraceContext
from gateway.contract.values import value


@value(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """One licensed run, as an executor needs it; the body is opaque to everything but the worker (P11)."""

    run: str
    """Names this run on this node; unique per order."""
    ticket: str
    kind: str
    generation: int
    attempt: int
    interruptions: int
    content_type: str
    content_encoding: str | None
    charset: str | None = None
    """What the door found (`lz-admission`), for a content type that declares none."""
    body: bytes = field(repr=False)
    stored: str = ""
    """The depot's folder with attachments that the body only refers to (`lz-admission`)."""
    examine: bool
    """True for an item that came past the door: the worker runs the preflight before the handler (C16)."""
    deadline: float
    """Seconds of wall clock, armed before the worker hears of the run."""
    memory_limit: int
    """Bytes of current memory at which the supervisor kills the worker."""
    heartbeat: float = 0.0
    """Seconds for which it may say nothing; 0 for as long as it likes."""
    suspect: bool = False
    spent: Spent = field(default_factory=Spent)
    trace: TraceContext | None = None
    """What a handler's own spans, and its requests to others, follow from."""


@value(frozen=True, slots=True, kw_only=True)
class RunReport:
    """How one run ended and how we know; exactly one per order, whatever happened."""

    outcome: Outcome
    started: float
    """Unix seconds."""
    seconds: float
    worker: int
    """Process id; the node's own for an inline run."""
    code: str = ""
    """Evidence in a word: `signal:9`, `exit:1`, `memory:ceiling`, `deadline`, `ValueError`."""
    detail: str = ""
    """One sentence for a person, at most 1 KiB."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """cause, build, progress, peak_rss and last_rss (bytes), limit; cpu_user and cpu_system (seconds), minor_faults,
    major_faults; exit_status, signal, oom_kill; error_type, message, traceback, violations; log_tail, stack, and
    alongside: kind and ticket of what else ran on the node; hard_limits, in words, of a run in isolation."""
    after: float | None = None
    """Seconds that the handler asked to wait at least (`Retry`, `DependencyDown`)."""
    dependency: str | None = None
    spent: Spent = field(default_factory=Spent)
    """Reported by this run alone."""
    admission: Admission | None = None
    """Measured by the worker for an item that came past the door."""


class Executor(Protocol):
    """Runs orders; two implementations: worker processes (`pool`) and the supervisor's own loop (`inline`)."""

    @property
    def slots(self) -> int:
        """How many runs can be under way at once."""

    @property
    def ready(self) -> int:
        """How many slots could take a run, or have one; 0 means that nothing can run now."""

    @property
    def build(self) -> str:
        """Identifies the handler's code."""

    def census(self) -> Census:
        """Return the workers that there are now, and their memory; takes microseconds for each."""

    async def start(self) -> None:
        """Make every slot ready; raises ExecutorUnavailable when that fails."""

    async def run(
        self,
        order: RunOrder,
        *,
        started: Callable[[int], None] | None = None,
        spent: Callable[[Spent], Awaitable[None]] | None = None,
    ) -> RunReport:
        """Run one order to its end; raises nothing. Not to be cancelled while the run is alive: revoke it instead.

        `started` is called with the process id of its worker, just before that hears of it, and never for an order that
        ends without a worker. It must not raise.

        `spent` is called with all that this run has spent so far, one call at a time, and returns when that is durable;
        only then does a handler in a worker go on behind its `run.spend` (inline, it has gone on already). The run's
        deadline does not stop meanwhile. When it raises, the handler waits on, until a later call, its deadline or the
        loss of its claim. The report is given after the last call has ended, so it must end, too. Without it
        everything counts as durable at once.
        """

    def revoke(self, run: str, *, outcome: Outcome, grace: float) -> None:
        """Take a run's claim away: it is told at once, killed after `grace` seconds, and reported with `outcome`.

        A run that ends by itself within the grace keeps its own outcome. Unknown runs are ignored.
        """

    async def stop(self) -> None:
        """End every worker and wait for it; what still runs is killed and reported as released."""


class ExecutorUnavailable(Exception):
    """The handler could not be loaded or no worker could be started; the text says why and what to do."""

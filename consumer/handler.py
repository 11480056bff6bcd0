"""What handler authors import: the run they are given, and the words in which a handler can say how it went.

    from consumer.handler import DependencyDown, Reject, Retry, Run

    async def handle(run: Run) -> None:   # or a plain `def`
        ...

Return and the ticket is done. Raise `Reject`, `Retry` or `DependencyDown` to say more; any other exception is a
failure that counts against the ticket. A handler may be started more than once for one ticket, and for one attempt of
it: use `run.key` to make what an attempt does to the world happen once. Imports neither the broker nor the supervisor.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol

from gateway.contract.envelope import MAX_SPENT


class Reject(Exception):
    """This ticket is hopeless, now and later: to quarantine at once, with `reason` for the person who looks."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Exception):
    """It failed this time; counts as an attempt. Not again before `after` seconds (a provider's Retry-After)."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after


class DependencyDown(Exception):
    """The thing called `name` is down, which is not the ticket's fault: not counted, again after `after` seconds.

    Say so only for what other tickets need as well: when several different ones do, none that needs it is started until
    a single one has tried and succeeded. A ticket that goes on saying so while others that need it succeed is counted
    as failing. `name` is one of a few words of yours, at most 64 bytes: a service, never a ticket or a customer.
    """

    def __init__(self, name: str, after: float | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.after = after


class Source(Protocol):
    """Where an attachment's content comes from: the message, or the place where larger ones are kept."""

    @property
    def content(self) -> bytes:
        """The bytes."""

    @property
    def text(self) -> str | None:
        """The bytes as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with the ticket, bytes as sent; nobody has decoded or trusted it.

    A larger one is fetched when `content` or `text` is first asked for, which blocks like reading a file, and is proved
    to be what was sent. Where it is kept may be down: that raises `DependencyDown("attachments")`. What is gone, or is
    not what was sent, raises `Reject`. Let both pass, and the ticket waits uncharged, or goes to a person.
    """

    name: str
    """To show; never a path."""
    content_type: str
    """As the client declared it."""
    size: int
    """In bytes; known without fetching."""
    source: Source = field(repr=False)

    @property
    def content(self) -> bytes:
        """The bytes as they were sent."""
        return self.source.content

    @property
    def text(self) -> str | None:
        """The content as text, where the type says that it is text."""
        return self.source.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What the client sent, decoded."""

    id: str
    kind: str
    text: str = field(repr=False)
    """The body as text, whatever charset it came in."""
    subject: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()


class Line(Protocol):
    """Where a run's words go: a worker's pipe, or the supervisor itself for an inline run."""

    def spend(self, tokens: int, usd: float) -> None:
        """Pass on what was spent since the last call."""

    def progress(self, text: str) -> None:
        """Pass on last words."""

    def lost(self) -> bool:
        """Whether the run's claim was taken away."""


_exit_hooks: list[Callable[[], Any]] = []


def at_exit(hook: Callable[[], Any]) -> None:
    """Have `hook` called, or awaited if it is `async def`, when this worker leaves in order: flush what was buffered.

    Call it once, where the handler's module is loaded or in a run; the same function counts once. A worker leaves in
    order when it is recycled, when it has had the one run that it was for, and when its node drains or stops; the hook
    registered last is called first. It has 5 seconds together with all others, then the worker is killed, and no ticket
    pays for that. Nothing is called in a worker that dies: after SIGKILL, a crash, a deadline or too much memory, what
    was buffered is lost. So what a ticket needs to be done must be done before its run returns.
    """
    if hook not in _exit_hooks:
        _exit_hooks.append(hook)


def exit_hooks() -> tuple[Callable[[], Any], ...]:
    """Return what is to be called at the end, in that order."""
    return tuple(reversed(_exit_hooks))


_NOWHERE: Final[Mapping[str, str]] = MappingProxyType({})


class Run:
    """One execution of the handler for one ticket.

    `attempt` counts from 1. `key` ("ticket/generation/attempt") names the attempt: one that was interrupted and is not
    charged (release, outage, dependency) starts again under the same key, a charged one is followed by another key.
    That is what services that know idempotency keys want: give it to them.
    """

    __slots__ = ("_line", "_trace", "attempt", "generation", "key", "knows_of_loss", "ticket")

    def __init__(
        self, *, ticket: Ticket, generation: int, attempt: int, line: Line, trace: Mapping[str, str] = _NOWHERE
    ) -> None:
        self.ticket = ticket
        self.generation = generation
        self.attempt = attempt
        self.key = f"{ticket.id}/{generation}/{attempt}"
        self.knows_of_loss = False
        self._line = line
        self._trace = trace

    @property
    def trace_headers(self) -> dict[str, str]:
        """`traceparent` and `tracestate`: send them with requests to others, or begin spans of your own below them.

        They name this run's own span where the node has a tracer, else what the client sent, if that is a context;
        empty without either.
        """
        return dict(self._trace)

    @property
    def lost(self) -> bool:
        """Whether the claim to this ticket is gone (broker lost, shutdown): stop soon, or be killed in seconds.

        A handler that has been told so may simply return: this run then counts as given back, never as done.
        """
        self.knows_of_loss = self.knows_of_loss or self._line.lost()
        return self.knows_of_loss

    def spend(self, *, tokens: int = 0, usd: float = 0.0) -> None:
        """Report tokens and money as they are used; added up over all runs of the ticket, even if the worker dies.

        Returns when the report is durable. With a store that means that the node has written it there, so it counts
        whatever dies next, this worker, the node or the broker; without one (`LAZARETTO_FENCE=off`) that the node knows
        it, which outlives this worker. So nobody who reports before acting on an answer has paid for one that is
        forgotten. It blocks for about as long as a write takes, in an `async def` handler, too, and any thread may call
        it; while the store is down it waits, and the run's deadline goes on. When the claim is lost or the node is gone
        it returns at once, see `lost`. Inline runs (`--isolation inline`) are not made to wait; there, the report is
        durable before the run's end is.
        """
        if not (0 <= tokens <= MAX_SPENT and 0 <= usd <= MAX_SPENT):
            raise ValueError(f"spend cannot be negative or beyond all measure: tokens={tokens}, usd={usd}")
        self._line.spend(int(tokens), float(usd))

    def progress(self, text: str) -> None:
        """Say where the handler is: shown if the worker dies, and a sign of life meanwhile; the first 1 KiB is kept."""
        self._line.progress(text)

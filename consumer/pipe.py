"""What supervisor, mold and workers say to each other, and how it is framed; used by both sides of every pipe.

Owns the records and their bytes: length, type, a JSON head, and for an order the ticket's body as it is. No pickle: a
worker that a ticket has taken over can lie, but it cannot make the supervisor run anything, and what it says is no
larger, deeper or longer than the store and the headers it ends up in can hold. Does no I/O.
"""

import signal
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, Final, cast, get_args, get_origin

import orjson

from gateway.contract.text import printable

MAX_ORDER_BYTES: Final = 512 * 1024 * 1024
"""Supervisor to worker: no broker hands over a larger message."""
MAX_WORD_BYTES: Final = 64 * 1024
"""Worker to supervisor, and the mold both ways: last words are short, and a worker is not to be trusted."""
MAX_NUMBER: Final = 2**53
"""Of what a worker or a mold says: up to here every codec and every store agrees. None is negative."""
MAX_SAID_CHARACTERS: Final = 8192
MAX_SAID_ITEMS: Final = 64
MAX_SAID_DEPTH: Final = 8

STACK_SIGNAL: Final = signal.SIGRTMAX - 3
"""Asks a worker where it hangs; of the signals, one that handlers and their libraries are least likely to want."""

_FRAME: Final = struct.Struct("!IBI")
"""Bytes that follow the length, type, bytes of the head."""
_LENGTH_BYTES: Final = 4


class Garbled(Exception):
    """The bytes on a pipe are no record of ours; whoever wrote them is to be ended."""


# ---------------------------------------------------------------- supervisor to worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Run this ticket."""

    run: str
    ticket: str
    kind: str
    generation: int
    attempt: int
    content_type: str
    content_encoding: str | None
    charset: str | None
    examine: bool
    stored: str = ""
    """The depot's folder with attachments that the body only refers to."""
    memory_limit: int
    cpu_seconds: float
    """Of processor time; 0 is no limit, here and in the next two."""
    open_files: int
    processes: int
    """Tasks, threads included, beyond those that the worker's user has when it begins."""
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The claim to this run is gone; stop soon."""

    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What the run has spent, up to its report `number`, is durable."""

    run: str
    number: int


# ---------------------------------------------------------------- worker to supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The worker can take its first order; `resets_peak` says that its peak memory is counted per run."""

    resets_peak: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the preflight found in an item that came past the door; sent before the handler can die of it."""

    bytes: int
    charset: str
    tokens: int
    exact: bool
    attachments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Last words, should the worker die now; also its heartbeat."""

    run: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """Tokens and money used since the last of these; the handler waits until `Noted` has answered."""

    run: str
    number: int
    """Counts the reports of this run."""
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How the run ended in the worker's own words; `outcome` is a value of `Outcome`."""

    run: str
    outcome: str
    code: str = ""
    message: str = ""
    error_type: str = ""
    traceback: str = ""
    after: float | None = None
    dependency: str | None = None
    violations: list[dict[str, Any]] = field(default_factory=list)
    gave_up: bool = False
    """The handler had been told that its claim was gone; what it returned says nothing about the ticket."""
    last: bool = False
    """The worker is used up and must get no further order."""
    disturbed: bool = False
    """It had been asked for its stacks before it ended, which native code may have taken for the end of a wait."""
    usage: list[float] = field(default_factory=list)
    """Of the worker's life so far: user and system seconds, minor and major page faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What a hunted worker has allocated and not given back in so many runs; said between two runs."""

    runs: int
    traced: int
    """Bytes, over all places that have grown."""
    sites: list[dict[str, Any]]
    """The places that have grown most: where, bytes, blocks."""


# ---------------------------------------------------------------- supervisor and mold


@dataclass(frozen=True, slots=True, kw_only=True)
class Preload:
    """What the mold is to load before it forks anybody."""

    handler: str
    supervisor: int
    """Process id of whoever started the mold; when it is no longer the parent, the mold is an orphan."""
    encoding: str
    """The vocabulary of the preflight."""
    limits: dict[str, Any]
    """The preflight's limits, by name; what is left out keeps its default."""
    warm: bool
    """Load the vocabulary now, so that all workers share it, and not when it is first needed."""
    depot: str = ""
    """Where attachments lie that do not travel, as `gateway.depot` opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The mold has loaded the handler; `threads` above 1 means that forking it is a gamble."""

    build: str
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unloadable:
    """The handler could not be loaded."""

    message: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Fork a worker; its ends of the pipe and the output pipe, and the file for its stacks, come with it."""

    worker: int
    hunt: int = 0
    """Have it trace its memory and tell every so many runs where that grows; 0: not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A worker was forked; its pidfd and its open `statm` come with the record."""

    worker: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkFailed:
    """The system refused another process."""

    worker: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """A worker has ended and was waited for."""

    worker: int
    status: int
    """As `waitpid` gives it."""
    peak_rss: int
    """Bytes, from its resource usage; the peak of its life or of its last run, see `Ready`."""
    usage: list[float] = field(default_factory=list)
    """Of its life, the same four figures."""


Record = (
    Order
    | Lost
    | Noted
    | Ready
    | Measured
    | Progress
    | Spend
    | Finished
    | Grown
    | Preload
    | Loaded
    | Unloadable
    | Fork
    | Forked
    | ForkFailed
    | Reaped
)


def _json_types(annotation: Any) -> tuple[type[Any], ...]:
    """Return what JSON makes of a field; a tuple, for `isinstance` takes many times as long over a union."""
    union = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    plain = [get_origin(item) or item for item in union]
    return (*plain, int) if float in plain else tuple(plain)  # JSON does not tell 1.0 from 1


_TYPES: Final[dict[int, type[Any]]] = {
    1: Order,
    2: Lost,
    3: Ready,
    4: Measured,
    5: Progress,
    6: Spend,
    7: Finished,
    8: Preload,
    9: Loaded,
    10: Unloadable,
    11: Fork,
    12: Forked,
    13: ForkFailed,
    14: Reaped,
    15: Noted,
    16: Grown,
}
_OURS: Final = frozenset({Order, Lost, Noted, Preload, Fork})
"""What the supervisor says; it is believed."""
_CODES: Final = {record: code for code, record in _TYPES.items()}
_HEADS: Final[dict[type[Any], dict[str, tuple[type[Any], ...]]]] = {
    record: {item.name: _json_types(item.type) for item in fields(record) if item.name != "body"}
    for record in _TYPES.values()
}
"""The fields that travel in the head, and what `isinstance` must say of them."""


def encode(record: Record) -> bytes:
    """Return the bytes of one record; text that UTF-8 cannot hold is replaced, not refused."""
    body = record.body if isinstance(record, Order) else b""
    values = {name: getattr(record, name) for name in _HEADS[type(record)]}
    try:
        head = orjson.dumps(values)
    except orjson.JSONEncodeError:
        head = orjson.dumps(_printable(values))
    rest = _FRAME.size - _LENGTH_BYTES + len(head) + len(body)
    return b"".join((_FRAME.pack(rest, _CODES[type(record)], len(head)), head, body))


class Decoder:
    """Turns a byte stream, however it is cut, into its records.

    `limit` bounds one record in bytes: a longer one raises `Garbled` as soon as its length is known.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Record]:
        """Take more bytes and yield every record that is now whole; raises `Garbled`."""
        self._held += data
        while len(self._held) >= _FRAME.size:
            rest, code, head_bytes = _FRAME.unpack_from(self._held)
            end = _LENGTH_BYTES + rest
            if end > self._limit or rest < _FRAME.size - _LENGTH_BYTES + head_bytes:
                raise Garbled(f"a record of {rest} bytes with a head of {head_bytes}")
            if len(self._held) < end:
                return
            body_at = _FRAME.size + head_bytes
            with memoryview(self._held) as view:
                head, body = bytes(view[_FRAME.size : body_at]), bytes(view[body_at:end])
            del self._held[:end]
            yield _record(code, head, body)


def decode(data: bytes) -> Record:
    """Return the one record in `data`, a whole message of a socket that keeps messages apart; raises `Garbled`."""
    records = list(Decoder(limit=MAX_WORD_BYTES).feed(data))
    if len(records) != 1:
        raise Garbled(f"{len(records)} records in one message")
    return records[0]


def _record(code: int, head: bytes, body: bytes) -> Record:
    kind = _TYPES.get(code)
    if kind is None:
        raise Garbled(f"unknown record type {code}")
    try:
        values = orjson.loads(head)
    except ValueError as error:
        raise Garbled(f"a {kind.__name__} record that is not JSON: {error}") from error
    expected = _HEADS[kind]
    if not isinstance(values, dict) or values.keys() != expected.keys():
        raise Garbled(f"a {kind.__name__} record with the wrong fields")
    for name, value in values.items():
        if not isinstance(value, expected[name]):
            raise Garbled(f"a {kind.__name__} record whose {name} is a {type(value).__name__}")
    if kind not in _OURS:
        _check(values, kind.__name__, MAX_SAID_DEPTH)
    if kind is Order:
        values["body"] = body
    return cast("Record", kind(**values))


def _check(value: Any, where: str, depth: int) -> None:
    """Raise `Garbled` for what no honest worker says; `value` is fresh from JSON, so of a few plain types."""
    kind = type(value)
    if kind is str:
        if len(value) > MAX_SAID_CHARACTERS:
            raise Garbled(f"a {where} record with a text of {len(value)} characters")
    elif kind is int or kind is float:
        if not 0 <= value <= MAX_NUMBER:
            raise Garbled(f"a {where} record with the number {value}")
    elif kind is list or kind is dict:
        if len(value) > MAX_SAID_ITEMS or depth == 0:
            raise Garbled(f"a {where} record that holds too much")
        for item in value if kind is list else (*value, *value.values()):
            _check(item, where, depth - 1)


def _printable(value: Any) -> Any:
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable(str(key)): _printable(item) for key, item in value.items()}
        case list() | tuple():
            return [_printable(item) for item in value]
        case bool() | int() | float() | None:
            return value if not isinstance(value, int) or abs(value) < 2**63 else float(value)
        case _:
            return printable(str(value))

"""What supervisor, mold and workers say to each other, and how it is framed; used by both sides of every pipe.

Owns the records and their bytes: a length, then the record as MessagePack, a list of its type and its fields. No
pickle: a worker that a ticket has taken over can lie, but it cannot make the supervisor run anything, and what it says
is checked while it is read, by C code: types, sizes (`consumer.bounds`), and that its side may say such a thing at all.
Does no I/O.
"""

import signal
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct, field, structs

from consumer.bounds import Amount, Count, Listed, Text
from consumer.usage import Usage
from gateway.contract.text import printable

MAX_ORDER_BYTES: Final = 512 * 1024 * 1024
"""Supervisor to worker: no broker hands over a larger message."""
MAX_WORD_BYTES: Final = 64 * 1024
"""Worker to supervisor, and the mold both ways: last words are short, and a worker is not to be trusted."""

STACK_SIGNAL: Final = signal.SIGRTMAX - 3
"""Asks a worker where it hangs; of the signals, one that handlers and their libraries are least likely to want."""

_LENGTH: Final = struct.Struct("!I")
"""Of what follows, in bytes."""


class Garbled(Exception):
    """The bytes on a pipe are no record of ours; whoever wrote them is to be ended."""


class Record(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """One thing that is said; each kind has a number (`tag`) that is its own."""


# ---------------------------------------------------------------- supervisor to worker


class Order(Record, frozen=True, kw_only=True, tag=1):
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
    body: bytes

    def __repr__(self) -> str:
        """What a ticket says is for no log."""
        return f"Order(run={self.run!r}, ticket={self.ticket!r})"

    @property
    def trace_headers(self) -> dict[str, str]:
        """The run's place in a trace, for the handler alone."""
        return {}


class TracedOrder(Order, frozen=True, kw_only=True, tag=17):
    """The same of a ticket that is in a trace; one field more would treble what making an order costs."""

    trace: dict[str, str]

    @property
    def trace_headers(self) -> dict[str, str]:
        """As they came."""
        return self.trace


class Lost(Record, frozen=True, kw_only=True, tag=2):
    """The claim to this run is gone; stop soon."""

    run: str


class Noted(Record, frozen=True, kw_only=True, tag=3):
    """What the run has spent, up to its report `number`, is durable."""

    run: str
    number: int


# ---------------------------------------------------------------- worker to supervisor


class Ready(Record, frozen=True, kw_only=True, tag=4):
    """The worker can take its first order; `resets_peak` says that its peak memory is counted per run."""

    resets_peak: bool


class Measured(Record, frozen=True, kw_only=True, tag=5):
    """What the preflight found in an item that came past the door; sent before the handler can die of it."""

    bytes: Count
    charset: Text
    tokens: Count
    exact: bool
    attachments: Count


class Progress(Record, frozen=True, kw_only=True, tag=6):
    """Last words, should the worker die now; also its heartbeat."""

    run: Text
    text: Text


class Spend(Record, frozen=True, kw_only=True, tag=7):
    """Tokens and money used since the last of these; the handler waits until `Noted` has answered."""

    run: Text
    number: Count
    """Counts the reports of this run."""
    tokens: Count
    usd: Amount


class Finished(Record, frozen=True, kw_only=True, tag=8):
    """How the run ended in the worker's own words; `outcome` is a value of `Outcome`."""

    run: Text
    outcome: Text
    code: Text = ""
    message: Text = ""
    error_type: Text = ""
    traceback: Text = ""
    after: Amount | None = None
    dependency: Text | None = None
    violations: Listed = field(default_factory=list)
    gave_up: bool = False
    """The handler had been told that its claim was gone; what it returned says nothing about the ticket."""
    last: bool = False
    """The worker is used up and must get no further order."""
    disturbed: bool = False
    """It had been asked for its stacks before it ended, which native code may have taken for the end of a wait."""
    usage: Usage = field(default_factory=Usage)
    """Of the worker's life so far."""


class Grown(Record, frozen=True, kw_only=True, tag=9):
    """What a hunted worker has allocated and not given back in so many runs; said between two runs."""

    runs: Count
    traced: Count
    """Bytes, over all places that have grown."""
    sites: Listed
    """The places that have grown most: where, bytes, blocks."""


# ---------------------------------------------------------------- supervisor and mold


class Preload(Record, frozen=True, kw_only=True, tag=10):
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


class Loaded(Record, frozen=True, kw_only=True, tag=11):
    """The mold has loaded the handler; `threads` above 1 means that forking it is a gamble."""

    build: Text
    threads: Count


class Unloadable(Record, frozen=True, kw_only=True, tag=12):
    """The handler could not be loaded."""

    message: Text
    traceback: Text


class Fork(Record, frozen=True, kw_only=True, tag=13):
    """Fork a worker; its ends of the pipe and the output pipe, and the file for its stacks, come with it."""

    worker: int
    hunt: int = 0
    """Have it trace its memory and tell every so many runs where that grows; 0: not."""


class Forked(Record, frozen=True, kw_only=True, tag=14):
    """A worker was forked; its pidfd and its open `statm` come with the record."""

    worker: Count
    pid: Count


class ForkFailed(Record, frozen=True, kw_only=True, tag=15):
    """The system refused another process."""

    worker: Count
    message: Text


class Reaped(Record, frozen=True, kw_only=True, tag=16):
    """A worker has ended and was waited for."""

    worker: Count
    status: Count
    """As `waitpid` gives it."""
    peak_rss: Count
    """Bytes, from its resource usage; the peak of its life or of its last run, see `Ready`."""
    usage: Usage = field(default_factory=Usage)
    """Of its life."""


# ---------------------------------------------------------------- who may say what


@dataclass(frozen=True, slots=True)
class Speech:
    """What one side of a pipe may say, and how many bytes one record of it may have."""

    decoder: msgspec.msgpack.Decoder[Any]
    limit: int

    def read(self, content: bytes | bytearray | memoryview) -> Any:
        """Return the record that `content` is; raises `Garbled`."""
        try:
            return self.decoder.decode(content)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # ValueError: text that is no UTF-8
            raise Garbled(f"what is no record: {error}") from error


ORDERS: Final = Speech(msgspec.msgpack.Decoder(Order | TracedOrder | Lost | Noted), MAX_ORDER_BYTES)
"""Supervisor to worker."""
WORDS: Final = Speech(msgspec.msgpack.Decoder(Ready | Measured | Progress | Spend | Finished | Grown), MAX_WORD_BYTES)
"""Worker to supervisor."""
WISHES: Final = Speech(msgspec.msgpack.Decoder(Preload | Fork), MAX_WORD_BYTES)
"""Supervisor to mold."""
ANSWERS: Final = Speech(msgspec.msgpack.Decoder(Loaded | Unloadable | Forked | ForkFailed | Reaped), MAX_WORD_BYTES)
"""Mold to supervisor."""

_ENCODER: Final = msgspec.msgpack.Encoder()


def encode(record: Record) -> bytearray:
    """Return the bytes of one record; text that UTF-8 cannot hold is replaced, not refused."""
    framed = bytearray(_LENGTH.size)
    try:
        _ENCODER.encode_into(record, framed, _LENGTH.size)
    except UnicodeEncodeError:
        _ENCODER.encode_into(_printable(record), framed, _LENGTH.size)
    _LENGTH.pack_into(framed, 0, len(framed) - _LENGTH.size)
    return framed


class Decoder:
    """Turns a byte stream, however it is cut, into the records of one side's speech."""

    def __init__(self, speech: Speech) -> None:
        self._speech = speech
        self._held = bytearray()

    def feed(self, data: bytes | bytearray) -> Iterator[Any]:
        """Take more bytes and yield every record that is now whole.

        Raises `Garbled`; for one that is too long as soon as its length is known.
        """
        self._held += data
        while len(self._held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._held)
            end = _LENGTH.size + length
            if end > self._speech.limit:
                raise Garbled(f"a record of {length} bytes")
            if len(self._held) < end:
                return
            with memoryview(self._held)[_LENGTH.size : end] as content:
                record = self._speech.read(content)
            del self._held[:end]
            yield record


def decode(data: bytes | bytearray, speech: Speech) -> Any:
    """Return the one record in `data`, a whole message of a socket that keeps messages apart; raises `Garbled`."""
    records = list(Decoder(speech).feed(data))
    if len(records) != 1:
        raise Garbled(f"{len(records)} records in one message")
    return records[0]


def _printable(value: Any) -> Any:
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable(str(key)): _printable(item) for key, item in value.items()}
        case list():
            return [_printable(item) for item in value]
        case Record():
            return structs.replace(value, **{name: _printable(item) for name, item in structs.asdict(value).items()})
        case _:
            return value

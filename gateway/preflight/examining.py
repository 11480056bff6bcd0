"""The examiner: a process of its own that examines what a door sends it, one submission after the other.

Owns the child's life, its end with the socket included, and the form of what goes to and fro. A process and no thread,
since orjson, `re`, charset-normalizer and the building of a vocabulary keep the interpreter's lock for as long as they
work: a thread would hold up the loop, and on a crowded machine for as long as the system lets others go before it. Nor
does a body that kills its reader take the door along.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import struct
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from gateway.admission import Limits, Refused
from gateway.contract.text import printable
from gateway.preflight.allocation import give_back_what_is_large
from gateway.preflight.contents import digest_of
from gateway.preflight.examination import Passed, examine
from gateway.preflight.ticket import Submission
from gateway.preflight.tokens import OutOfTime
from gateway.preflight.vocabulary import Vocabulary

LENGTH: Final = struct.Struct(">I")
"""What stands before each message: the bytes that follow."""
_NICE: Final = 5
"""Steps of priority given up, so that the door's loop goes first where there is no core for both."""
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Which vocabulary the examiner is to build, once it needs it; the first message that it gets."""

    name: str
    file: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A submission of `client` to examine; `deadline` is on the monotonic clock, which all processes share."""

    number: int
    client: str
    submission: Submission = field(repr=False)
    limits: Limits
    deadline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of the order of that number: one of the two, or neither where time ran out.

    `failure` is the trace of our own bug, where that is what came of it.
    """

    number: int
    passed: Passed | None = None
    refused: Refused | None = None
    failure: str = ""

    @property
    def found(self) -> Passed | Refused | OutOfTime:
        """What `examine` has returned there."""
        return self.passed or self.refused or OutOfTime()


_ENCODER: Final = msgspec.msgpack.Encoder()
_NAMED: Final = msgspec.msgpack.Decoder(Named)
_ORDER: Final = msgspec.msgpack.Decoder(Order)
_VERDICT: Final = msgspec.msgpack.Decoder(Verdict)


def naming(vocabulary: Vocabulary) -> Named:
    """Return what the examiner is to be told of a vocabulary."""
    file = None if vocabulary.file is None else str(vocabulary.file)
    return Named(name=vocabulary.name, file=file, sha256=vocabulary.sha256)


def packed(message: Named | Order | Verdict) -> bytes:
    """Return a message as it goes over the socket, its length before it."""
    content = _ENCODER.encode(message)
    return LENGTH.pack(len(content)) + content


def legible(submission: Submission) -> Submission:
    """Return a submission that a message can carry: bytes in a header that are no text make no type and no kind."""
    said_type, said_kind = submission.content_type, submission.kind
    return replace(
        submission,
        content_type=None if said_type is None else printable(said_type),
        kind=None if said_kind is None else printable(said_kind),
    )


def verdict_of(content: bytes) -> Verdict:
    """Read a verdict; raises msgspec.DecodeError for what is none."""
    return _VERDICT.decode(content)


def main(descriptor: int, parent: int) -> int:
    """Examine what comes over the socket of that number until it ends, or the process `parent` does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL.value, 0, 0, 0)
    if os.getppid() != parent:
        return 0
    os.nice(_NICE)
    give_back_what_is_large()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=descriptor) as door:
        told = _receive(door)
        if told is None:
            return 0
        named = _NAMED.decode(told)
        file = None if named.file is None else Path(named.file)
        vocabulary = Vocabulary.at_need(named.name, file=file, sha256=named.sha256)
        while (order := _receive(door)) is not None:
            door.sendall(_answer(_ORDER.decode(order), vocabulary))
    return 0


def command(descriptor: int) -> list[str]:
    """Return what to start: a fresh interpreter that finds the same modules, wherever it begins."""
    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - "" means here
    boot = (
        "import gc, sys; gc.disable(); sys.path[:] = sys.argv[3:]; from gateway.preflight.examining import main;"
        " gc.enable(); sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))"
    )
    return [sys.executable, "-c", boot, str(descriptor), str(os.getpid()), *path]


def _answer(order: Order, vocabulary: Vocabulary) -> bytes:
    try:
        if time.monotonic() > order.deadline:
            return packed(Verdict(number=order.number))
        match examine(order.submission, order.limits, vocabulary, deadline=order.deadline):
            case Passed() as passed:
                return packed(Verdict(number=order.number, passed=_lightened(passed, order.client)))
            case Refused() as refused:
                return packed(Verdict(number=order.number, refused=refused))
            case OutOfTime():
                return packed(Verdict(number=order.number))
    except Exception:  # noqa: BLE001 - told to the door, whose answer is a 500
        return packed(Verdict(number=order.number, failure=traceback.format_exc()))


def _lightened(passed: Passed, client: str) -> Passed:
    """Leave here what a door needs nothing of but its digest: attributes can be 100,000 lists, 20 ms of its loop."""
    ticket = replace(passed.ticket, text="", attributes={})
    return replace(passed, ticket=ticket, contents=digest_of(passed.ticket, client))


def _receive(door: socket.socket) -> bytes | None:
    """Return the next message, None at the end."""
    head = _exactly(door, LENGTH.size)
    return None if head is None else _exactly(door, *LENGTH.unpack(head))


def _exactly(door: socket.socket, size: int) -> bytes | None:
    pieces, missing = list[bytes](), size
    while missing:
        try:
            piece = door.recv(min(missing, 1 << 20))
        except ConnectionResetError:
            return None
        if not piece:
            return None
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)

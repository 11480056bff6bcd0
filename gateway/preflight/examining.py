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
import pickle
import signal
import socket
import struct
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.admission import Limits, Refused
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
class Order:
    """A submission to examine; `deadline` is on the monotonic clock, which all processes share."""

    number: int
    submission: Submission = field(repr=False)
    limits: Limits
    deadline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of the order of that number; `failure` is the trace of our own bug, where that is what came of it."""

    number: int
    found: Passed | Refused | OutOfTime
    failure: str = ""


def packed(message: Order | Verdict | Vocabulary) -> bytes:
    """Return a message as it goes over the socket, its length before it."""
    # Pickled, because both ends are this program, on a socket that nobody else has.
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(content)) + content


def unpacked(content: bytes) -> Any:
    """Return the message that a content is."""
    return pickle.loads(content)  # noqa: S301 - as above


def main(descriptor: int, parent: int) -> int:
    """Examine what comes over the socket of that number until it ends, or the process `parent` does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL.value, 0, 0, 0)
    if os.getppid() != parent:
        return 0
    os.nice(_NICE)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=descriptor) as door:
        vocabulary = _receive(door)
        while vocabulary is not None and (order := _receive(door)) is not None:
            door.sendall(packed(_examined(order, vocabulary)))
    return 0


def command(descriptor: int) -> list[str]:
    """Return what to start: a fresh interpreter that finds the same modules, wherever it begins."""
    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - "" means here
    boot = (
        "import gc, sys; gc.disable(); sys.path[:] = sys.argv[3:]; from gateway.preflight.examining import main;"
        " gc.enable(); sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))"
    )
    return [sys.executable, "-c", boot, str(descriptor), str(os.getpid()), *path]


def _examined(order: Order, vocabulary: Vocabulary) -> Verdict:
    found: Passed | Refused | OutOfTime = OutOfTime()
    failure = ""
    try:
        if time.monotonic() <= order.deadline:
            found = examine(order.submission, order.limits, vocabulary, deadline=order.deadline)
    except Exception:  # noqa: BLE001 - told to the door, whose answer is a 500
        failure = traceback.format_exc()
    return Verdict(number=order.number, found=found, failure=failure)


def _receive(door: socket.socket) -> Any:
    """Return the next message, None at the end."""
    head = _exactly(door, LENGTH.size)
    content = None if head is None else _exactly(door, *LENGTH.unpack(head))
    return None if content is None else unpacked(content)


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

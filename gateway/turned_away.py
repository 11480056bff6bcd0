"""What a client hears for which there is no room: one answer, soon, whatever it was going to ask.

Owns the connection of such a client, which is short, and of which nothing is read but whether it asks if the door is
alive: whoever does, and heard no, would kill a door that has its hands full. Never waits for a whole request.
"""

import asyncio
from typing import Final, cast

from aiohttp import web

from gateway import answers, errors, problem_document
from gateway.contract.ids import uuid7
from gateway.serving import dress

_LINGER: Final = 1.0
"""Seconds for a client to read the answer, and to stop sending: closing on it would tear the answer away."""
_FIRST_WORDS: Final = 0.25
"""Seconds for a client to begin, before it is told all the same."""
_MOST_BYTES: Final = 65_536
_IS_ALIVE: Final = b"GET /healthz "


class TurnedAway(asyncio.Protocol):
    """One connection that is over when it begins; `crowd` holds those that still linger."""

    def __init__(self, crowd: set["TurnedAway"], most: int) -> None:
        """Beyond `most` in the crowd there is no answer either."""
        self._crowd = crowd
        self._most = most
        self._left = _MOST_BYTES
        self._transport: asyncio.Transport | None = None
        self._first_words: bytes | None = b""
        """What it has said so far; None once it was answered."""
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the client a moment for its first words."""
        stream = self._transport = cast("asyncio.Transport", transport)
        if len(self._crowd) >= self._most:
            stream.abort()
            return
        self._crowd.add(self)
        self._end = asyncio.get_running_loop().call_later(_FIRST_WORDS, self._tell, stream)

    def data_received(self, data: bytes) -> None:
        """Answer as soon as it is clear what is asked; throw away what is sent beyond that."""
        self._left -= len(data)
        if self._transport is None:
            return
        if self._left < 0:
            self._transport.abort()
        elif self._first_words is not None:
            self._first_words += data[: len(_IS_ALIVE)]
            if len(self._first_words) >= len(_IS_ALIVE) or not _IS_ALIVE.startswith(self._first_words):
                self._tell(self._transport)

    def _tell(self, stream: asyncio.Transport) -> None:
        """Answer, and give the client a moment to hear it."""
        is_probe = (self._first_words or b"").startswith(_IS_ALIVE)
        self._first_words = None
        request_id = uuid7()
        stream.write(_written(_answer(request_id, is_probe=is_probe), request_id))
        if stream.can_write_eof():
            stream.write_eof()
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(_LINGER, stream.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it went
        """Let it go."""
        self._crowd.discard(self)
        if self._end is not None:
            self._end.cancel()


def _answer(request_id: str, *, is_probe: bool) -> web.Response:
    if is_probe:
        return answers.alive()
    return problem_document.response(errors.overloaded("connections"), request_id=request_id, instance="")


def _written(answer: web.Response, request_id: str) -> bytes:
    dress(answer, request_id)
    body = answer.body if isinstance(answer.body, bytes) else b""
    head = [f"HTTP/1.1 {answer.status} {answer.reason}"]
    head += [f"{name}: {value}" for name, value in answer.headers.items() if name != "Content-Length"]
    head += [f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join((*head, "", "")).encode("ascii") + body

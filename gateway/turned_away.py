"""What a client hears for which there is no room: one answer, at once, whatever it was going to ask.

Owns the connection of such a client, which is short and reads nothing. Never waits for a request.
"""

import asyncio
from typing import Final, cast

from gateway import errors
from gateway.contract.ids import uuid7
from gateway.serving import dress

_LINGER: Final = 1.0
"""Seconds for a client to read the answer, and to stop sending: closing on it would tear the answer away."""
_MOST_BYTES: Final = 65_536


class TurnedAway(asyncio.Protocol):
    """One connection that is over when it begins; `crowd` holds those that still linger."""

    def __init__(self, crowd: set["TurnedAway"], most: int) -> None:
        """Beyond `most` in the crowd there is no answer either."""
        self._crowd = crowd
        self._most = most
        self._left = _MOST_BYTES
        self._transport: asyncio.Transport | None = None
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Answer, and give the client a moment to hear it."""
        stream = self._transport = cast("asyncio.Transport", transport)
        if len(self._crowd) >= self._most:
            stream.abort()
            return
        self._crowd.add(self)
        stream.write(_answer())
        if stream.can_write_eof():
            stream.write_eof()
        self._end = asyncio.get_running_loop().call_later(_LINGER, stream.abort)

    def data_received(self, data: bytes) -> None:
        """Throw away what is sent."""
        self._left -= len(data)
        if self._left < 0 and self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it went
        """Let it go."""
        self._crowd.discard(self)
        if self._end is not None:
            self._end.cancel()


def _answer() -> bytes:
    request_id = uuid7()
    answer = errors.response(errors.overloaded("connections"), request_id=request_id, instance="")
    dress(answer, request_id)
    body = answer.body if isinstance(answer.body, bytes) else b""
    head = [f"HTTP/1.1 {answer.status} {answer.reason}"]
    head += [f"{name}: {value}" for name, value in answer.headers.items() if name != "Content-Length"]
    head += [f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join((*head, "", "")).encode("ascii") + body

"""The least that uvicorn can run: one ASGI function without a framework, JSON that parses, a confirmed publish, 202."""

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from benchmarks.peers.publishing import publisher

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_JSON: Final = (b"content-type", b"application/json")


async def app(scope: _Message, receive: _Receive, send: _Send) -> None:
    """Take what uvicorn brings: its lifespan once, then requests."""
    if scope["type"] == "lifespan":
        await _live(scope, receive, send)
    elif scope["path"] == "/v1/tickets" and scope["method"] == "POST":
        body = await _whole(receive)
        json.loads(body)
        ticket = await scope["state"]["publish"](body)
        await _answer(send, 202, json.dumps({"id": ticket, "state": "accepted"}).encode())
    else:
        await _answer(send, 200 if scope["path"] == "/readyz" else 404, b"{}")


async def _live(scope: _Message, receive: _Receive, send: _Send) -> None:
    await receive()
    scope["state"]["publish"] = await publisher(os.environ["PEER_BROKER"], os.environ["PEER_QUEUE"])
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def _whole(receive: _Receive) -> bytes:
    event = await receive()
    body: bytes = event.get("body", b"")
    while event.get("more_body"):
        event = await receive()
        body += event.get("body", b"")
    return body


async def _answer(send: _Send, status: int, body: bytes) -> None:
    headers = [_JSON, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""A client's own server: takes callbacks, and checks them as the specification of Standard Webhooks has it."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Call:
    """One request that came."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> Any:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """Tell whether one of its signatures is made with this secret."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        content = b".".join([self.id.encode(), self.headers["webhook-timestamp"].encode(), self.body])
        mine = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        given = [part.split(",", 1) for part in self.headers["webhook-signature"].split(" ")]
        return any(version == "v1" and hmac.compare_digest(mine, other) for version, other in given)


async def _take(_: Call) -> web.Response:
    return web.Response(status=204)


@dataclass
class Receiver:
    """Listens on loopback. `answer` says what it answers."""

    answer: Callable[[Call], Awaitable[web.Response]] = _take
    calls: list[Call] = field(default_factory=list)
    url: str = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/hooks"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def states(self) -> list[str]:
        return [call.event["data"]["state"] for call in self.calls]

    async def _handle(self, request: web.Request) -> web.Response:
        call = Call(dict(request.headers), await request.read())
        self.calls.append(call)
        return await self.answer(call)


async def never(_: Call) -> web.Response:
    """Answer nothing."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")

"""The node's own address: health, readiness and metrics. Reads the supervisor, never steers it."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Final

from aiohttp import web
from prometheus_client import generate_latest

from consumer import metrics
from consumer.breaker import State
from consumer.dependencies import BreakerView
from consumer.execution import Executor

_LEVEL: Final = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}


class Node:
    """A small HTTP server beside the supervisor."""

    def __init__(
        self,
        *,
        obstacles: Callable[[], list[str]],
        under_way: Callable[[], int],
        breakers: Callable[[], Iterable[BreakerView]],
        executor: Executor,
    ) -> None:
        self._obstacles = obstacles
        self._under_way = under_way
        self._breakers = breakers
        self._executor = executor
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self, address: str) -> str:
        """Listen on `host:port` (port 0: a free one) and return the address in use; raises OSError."""
        host, _, port = address.rpartition(":")
        await self._runner.setup()
        site = web.TCPSite(self._runner, host.strip("[]"), int(port))
        await site.start()
        bound = self._runner.addresses[0]
        return f"{bound[0]}:{bound[1]}"

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _readyz(self, _: web.Request) -> web.Response:
        reasons = self._obstacles()
        ready = not reasons
        body: dict[str, object] = {
            "ready": ready,
            "reasons": reasons,
            "under_way": self._under_way(),
            "slots": self._executor.slots,
            "breakers": [asdict(breaker) for breaker in self._breakers()],
        }
        if not self._executor.slots:
            body["note"] = "takes nothing: LAZARETTO_WORKERS is 0"
        return web.json_response(body, status=200 if ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        under_way = self._under_way()
        metrics.BREAKER_STATE.clear()  # handlers invent the names: only those that there are now may be labels
        for breaker in self._breakers():
            metrics.BREAKER_STATE.labels(breaker.dependency).set(_LEVEL[breaker.state])
        metrics.SLOTS.labels("busy").set(under_way)
        metrics.SLOTS.labels("free").set(max(0, self._executor.ready - under_way))
        metrics.SLOTS.labels("away").set(self._executor.slots - self._executor.ready)
        return web.Response(
            body=generate_latest(metrics.REGISTRY), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

"""A door process as tests see it: an address, and the broker behind it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aio_pika
import aiohttp
from aio_pika.abc import AbstractIncomingMessage

from gateway.contract import journal
from gateway.contract.topology import Lane, Topology
from tests.support.program import Program, Programs
from tests.support.waiting import eventually

QUICK = {"LAZARETTO_QUEUE_SETTLE": "0", "LAZARETTO_DRAIN_GRACE": "3"}
TICKET = {"kind": "support.ticket", "body": "The printer is on fire."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    text: str
    document: Any


class RunningDoor:
    """A door in a process of its own, and a client for it. Use as an async context for the client."""

    def __init__(self, program: Program, url: str, broker_url: str, prefix: str) -> None:
        self.program = program
        self.url = url
        self.broker_url = broker_url
        self.topology = Topology(prefix=prefix)
        self._session: aiohttp.ClientSession | None = None

    @property
    def host_port(self) -> tuple[str, int]:
        """Where it listens."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self.url, timeout=aiohttp.ClientTimeout(total=20), connector=aiohttp.TCPConnector(limit=0)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        """Send a request with aiohttp's client and read the whole answer."""
        assert self._session is not None
        async with self._session.request(method, path, **options) as response:
            text = await response.text()
            is_json = "json" in response.headers.get("Content-Type", "")
            return Answer(
                status=response.status,
                headers=response.headers,
                text=text,
                document=await response.json(content_type=None) if is_json else None,
            )

    async def submit(self, ticket: object = TICKET, **headers: str) -> Answer:
        """POST a JSON ticket; header names with underscores for dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask("POST", "/v1/tickets", json=ticket, headers=named)

    async def submit_text(self, body: bytes, content_type: str = "text/plain", **headers: str) -> Answer:
        """POST raw bytes as a text ticket."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask(
            "POST", "/v1/tickets?kind=support.ticket", data=body, headers={"Content-Type": content_type, **named}
        )

    async def is_ready(self) -> bool:
        """Ask its readiness."""
        return (await self.ask("GET", "/readyz")).status == 200

    async def is_red(self) -> bool:
        """Ask the opposite."""
        return not await self.is_ready()

    async def metric(self, line: str) -> float:
        """Return the value of one line of the metrics, 0 when it is not there."""
        for found in (await self.ask("GET", "/metrics")).text.splitlines():
            if found.startswith(line + " "):
                return float(found.rsplit(" ", 1)[1])
        return 0.0

    async def queued(self, queue: str | None = None) -> int:
        """Return how many messages wait in a queue, by default the work lane; -1 when it does not exist."""
        async with await aio_pika.connect(self.broker_url) as connection:
            channel = await connection.channel()
            try:
                declared = await channel.declare_queue(queue or self.topology.lane_queue(Lane.WORK), passive=True)
            except aio_pika.exceptions.ChannelNotFoundEntity:
                return -1
            return declared.declaration_result.message_count or 0

    async def take(self, queue: str | None = None) -> list[AbstractIncomingMessage]:
        """Take everything out of a queue, by default the work lane."""
        async with await aio_pika.connect(self.broker_url) as connection:
            channel = await connection.channel()
            found = await channel.get_queue(queue or self.topology.lane_queue(Lane.WORK), ensure=False)
            messages = []
            while (message := await found.get(no_ack=True, fail=False)) is not None:
                messages.append(message)
            return messages

    async def events(self) -> list[journal.Event]:
        """Take the events that wait in the journal queue."""
        return [
            event for message in await self.take(self.topology.journal_queue) for event in journal.decode(message.body)
        ]


def start_door(programs: Programs, *, broker_url: str, prefix: str, data: Path, **settings: str) -> RunningDoor:
    """Start `python -m gateway` on a free port and wait until it listens."""
    env = {
        "LAZARETTO_BROKER_URL": broker_url,
        "LAZARETTO_PREFIX": prefix,
        "LAZARETTO_DATA": str(data),
        "LAZARETTO_DOOR": "127.0.0.1:0",
        **QUICK,
        **{f"LAZARETTO_{name.upper()}": value for name, value in settings.items()},
    }
    program = programs.python("door", "-m", "gateway", env=env)
    url = program.wait_for_log(r"^door: (http://\S+)$")[1]
    eventually(lambda: "publishing_connected" in program.log, saying="the door's publisher is connected")
    return RunningDoor(program, url, broker_url, prefix)

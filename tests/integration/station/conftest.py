"""A station as its users start it, and the producers that it hears."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import aiohttp
import pytest
from aio_pika.abc import AbstractIncomingMessage

from gateway.contract import envelope as envelopes
from gateway.contract import journal
from gateway.contract.envelope import Admission, Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event
from gateway.contract.outcomes import Outcome
from gateway.contract.topology import Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker, free_port
from gateway.station.sender import Sender
from gateway.station.store import Store
from tests.support.program import ENVIRONMENT, OF_ITS_OWN, Program, Programs
from tests.support.waiting import PATIENCE, soon


@dataclass
class Producers:
    """Publishes what door and fleet would."""

    sender: Sender
    topology: Topology

    async def item(self, item: Envelope) -> None:
        await self.raw(envelopes.encode(item), item.kind)

    async def raw(self, wire: Wire, kind: str = "unknown") -> None:
        await self.sender.send(self.topology.to_quarantine(kind), wire, mandatory=True)

    async def events(self, *events: Event) -> None:
        for body in journal.encode(events):
            await self.sender.send(self.topology.to_journal(), Wire(body=body, message_id="j"), mandatory=True)


async def waiting(broker_url: str, queue: str) -> list[AbstractIncomingMessage]:
    """Take every message that waits in a queue; they are gone from it afterwards."""
    async with await aio_pika.connect(broker_url) as connection:
        channel = await connection.channel()
        declared = await channel.get_queue(queue, ensure=False)
        found = []
        while message := await declared.get(no_ack=True, fail=False):
            found.append(message)
        return found


async def depth(broker_url: str, queue: str) -> int:
    """Count the messages that are ready in a queue."""
    async with await aio_pika.connect(broker_url) as connection:
        channel = await connection.channel()
        declared = await channel.declare_queue(queue, passive=True)
        return declared.declaration_result.message_count or 0


@dataclass
class Station:
    """One station's settings, its process while it runs, and its command line."""

    programs: Programs
    data: Path
    prefix: str
    broker_url: str
    extra: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    running: list[Program] = field(default_factory=list)

    @property
    def program(self) -> Program:
        """The process that was started last."""
        return self.running[-1]

    @property
    def env(self) -> dict[str, str]:
        return {
            "LAZARETTO_BROKER_URL": self.broker_url,
            "LAZARETTO_PREFIX": self.prefix,
            "LAZARETTO_DATA": str(self.data),
            "LAZARETTO_DESK": f"127.0.0.1:{self.port}",
            **self.extra,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def store_url(self) -> str:
        return f"sqlite+aiosqlite:///{self.data / 'station.db'}"

    def start(self) -> Program:
        program = self.programs.python("station", "-m", "gateway.station", "serve", env=self.env)
        program.wait_for_log("keeper.consuming")
        self.running.append(program)
        return program

    async def settled(self, ticket: str, *, within: float = PATIENCE) -> dict[str, Any]:
        """Return what the desk's API says of a ticket in quarantine, once all its alerts went out."""
        async with aiohttp.ClientSession() as http:

            async def told() -> dict[str, Any] | None:
                async with http.get(f"{self.url}/api/items/{ticket}") as answer:
                    if answer.status != HTTPStatus.OK:
                        return None
                    document: dict[str, Any] = await answer.json()
                sent = [alert["sent_at"] is not None for alert in document["alerts"]]
                return document if sent and all(sent) else None

            found: dict[str, Any] | None = await soon(told, within, saying=f"all alerts about {ticket} went out")
            assert found is not None
            return found

    async def listed(self) -> list[dict[str, Any]]:
        """Return what the desk's API lists as waiting."""
        async with aiohttp.ClientSession() as http, http.get(f"{self.url}/api/items") as answer:
            found: list[dict[str, Any]] = (await answer.json())["items"]
            return found

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OF_ITS_OWN)}
        return subprocess.run(
            [sys.executable, "-m", "gateway.station", *arguments],
            env={**inherited, **ENVIRONMENT, **self.env},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def show(self, ticket: str) -> dict[str, Any]:
        done = self.run("show", ticket, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="session")
def station(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[Station]:
    """A station that most tests share, running; each of them has tickets of its own."""
    folder = tmp_path_factory.mktemp("station")
    programs = Programs(folder)
    shared = Station(programs=programs, data=folder / "data", prefix=f"s{uuid4().hex[:10]}", broker_url=broker.url)
    shared.start()
    yield shared
    programs.close()


@pytest.fixture
def own_station(programs: Programs, tmp_path: Path, broker: EmbeddedBroker, prefix: str) -> Station:
    """A station for one test, which starts, kills or starves it."""
    return Station(programs=programs, data=tmp_path / "data", prefix=prefix, broker_url=broker.url)


@pytest.fixture
async def producers(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> AsyncIterator[Producers]:
    """Producers for the station that the test uses."""
    used = request.getfixturevalue("own_station" if "own_station" in request.fixturenames else "station")
    sender = Sender((broker.url,))
    yield Producers(sender=sender, topology=Topology(prefix=used.prefix))
    await sender.close()


@pytest.fixture
def ticket() -> str:
    """A ticket id that no other test uses."""
    return f"t-{uuid4().hex[:8]}"


@pytest.fixture
async def store(station: Station) -> AsyncIterator[Store]:
    """The shared station's store, as the door opens it."""
    opened = await Store.open(station.store_url)
    yield opened
    await opened.close()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def killer(ticket: str) -> Callable[..., Envelope]:
    """Makes items that a handler died of three times."""

    def make(**changes: Any) -> Envelope:
        history = History(
            tuple(
                RunRecord(
                    attempt=attempt,
                    outcome=Outcome.MEMORY,
                    node=f"node-{attempt}",
                    worker=40 + attempt,
                    started=1000.0 * attempt,
                    seconds=1.5,
                    code="signal:9",
                )
                for attempt in (1, 2, 3)
            )
        )
        item = {
            "ticket": TicketId(ticket),
            "kind": "support.ticket",
            "body": b"a long log",
            "content_type": "text/plain; charset=utf-8",
            "attempt": 3,
            "crashes": 3,
            "history": history,
            "suspect": "memory",
            "reason": "crashes_exhausted",
            "detail": "three workers died",
            "admission": Admission(
                bytes=10, charset="utf-8", tokens=3, exact=True, attachments=0, client="acme", admitted_at=900.0
            ),
        }
        return Envelope(**{**item, **changes})

    return make

"""The station is killed, starved and cut off; nothing is lost and nothing is told twice."""

import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aio_pika
import aiohttp
import pytest
import sqlalchemy as sa
from aiohttp import web

from gateway.amqp import broker as brokers
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.topology import Topology
from gateway.embedded import EmbeddedBroker
from gateway.station.keeper import Keeper
from gateway.station.pauses import pause
from gateway.station.spool import Spool
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from gateway.station.vitals import Vitals
from tests.integration.station.conftest import Producers, Station, depth
from tests.support.postgresql import Postgresql
from tests.support.proxy import TO_BROKER, Proxy
from tests.support.waiting import soon

Killer = Callable[..., Envelope]


@pytest.fixture
async def line(broker: EmbeddedBroker, own_station: Station) -> AsyncIterator[Proxy]:
    """The line between the station and the broker; producers have one of their own."""
    async with Proxy(broker.url) as between:
        own_station.broker_url = between.url
        yield between


async def test_a_station_killed_between_commit_and_acknowledge_leaves_one_row_and_one_alert(
    own_station: Station, line: Proxy, producers: Producers, killer: Killer, ticket: str
) -> None:
    first = await asyncio.to_thread(own_station.start)
    line.hold(TO_BROKER)
    await producers.item(killer())
    await soon(lambda: f"item.stored ticket={ticket}" in first.log)
    store = await Store.open(own_station.store_url)
    try:

        async def log_alert_is_marked() -> bool:
            query = sa.select(alerts.c.sent_at).filter_by(ticket=ticket, channel="log")
            async with store.reading() as transaction:
                return await transaction.scalar(query) is not None

        await soon(log_alert_is_marked)
    finally:
        await store.close()
    first.kill9()
    line.cut()
    line.release()

    second = await asyncio.to_thread(own_station.start)
    await soon(lambda: f"item.known ticket={ticket}" in second.log)
    found = await own_station.settled(ticket)

    assert len(found["items"]) == 1
    assert sorted(alert["channel"] for alert in found["alerts"]) == ["exchange", "log"]
    assert first.log.count("item.quarantined") + second.log.count("item.quarantined") == 1


async def test_nothing_is_acknowledged_before_it_is_committed(
    own_station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    first = await asyncio.to_thread(own_station.start)
    quarantine = producers.topology.quarantine_queue
    writer = sqlite3.connect(own_station.data / "station.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    await producers.item(killer())
    await soon(lambda: _is(depth(broker.url, quarantine), 0))
    assert "item.stored" not in first.log
    first.kill9()
    writer.execute("ROLLBACK")
    writer.close()
    await soon(lambda: _is(depth(broker.url, quarantine), 1))

    await asyncio.to_thread(own_station.start)

    assert len((await own_station.settled(ticket))["items"]) == 1


@pytest.fixture
def in_database(own_station: Station, postgresql: Postgresql) -> Callable[[str], Awaitable[list[Any]]]:
    """Give the station a store in PostgreSQL, and carry statements out in it."""
    url = postgresql.database()
    own_station.extra["LAZARETTO_STORE_URL"] = url
    return lambda statement: asyncio.to_thread(postgresql.execute, url, statement)


async def test_what_the_store_refuses_at_its_commit_is_neither_said_to_be_stored_nor_acknowledged(
    own_station: Station,
    producers: Producers,
    killer: Killer,
    ticket: str,
    in_database: Callable[[str], Awaitable[list[Any]]],
) -> None:
    first = await asyncio.to_thread(own_station.start)
    await in_database(
        "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$"
    )
    await in_database(
        "CREATE CONSTRAINT TRIGGER no_room AFTER INSERT ON items DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION no_room()"
    )
    await producers.item(killer())
    await soon(lambda: first.log.count("store.unusable") > 1)
    assert "item.stored" not in first.log
    first.kill9()
    quarantine = producers.topology.quarantine_queue
    await soon(lambda: _is(depth(own_station.broker_url, quarantine), 1))

    await in_database("DROP TRIGGER no_room ON items")
    second = await asyncio.to_thread(own_station.start)

    assert len((await own_station.settled(ticket))["items"]) == 1
    assert second.log.count(f"item.stored ticket={ticket}") == 1


async def test_what_arrived_while_the_station_was_down_is_stored_and_told_when_it_is_back(
    own_station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker
) -> None:
    first = await asyncio.to_thread(own_station.start)
    assert await asyncio.to_thread(first.terminate) == 0
    assert "station.stopped" in first.log
    names = [f"down-{number}" for number in range(40)]
    for name in names:
        await producers.item(killer(ticket=TicketId(name)))
    await producers.events(
        *(Event(event=EventName.ACCEPTED, at=1.0, ticket=name, kind="support.ticket", node="d") for name in names)
    )

    second = await asyncio.to_thread(own_station.start)
    await soon(lambda: second.log.count("item.quarantined ticket=down-") == len(names))

    assert len((await own_station.settled(names[-1]))["runs"]) == 3
    assert await depth(broker.url, producers.topology.quarantine_queue) == 0


async def test_a_full_store_acknowledges_nothing_is_not_ready_and_recovers(
    own_station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    program = await asyncio.to_thread(own_station.start)
    before = resource.prlimit(program.pid, resource.RLIMIT_FSIZE)
    # No file may grow beyond 1 MiB: what a full disk does to SQLite, without filling one.
    resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    await producers.item(killer(body=b"x" * (2 << 20)))
    await soon(lambda: "store.unusable" in program.log)
    red = await _readiness(own_station)
    resource.prlimit(program.pid, resource.RLIMIT_FSIZE, before)

    found = await own_station.settled(ticket)

    assert red[0] == HTTPStatus.SERVICE_UNAVAILABLE
    assert "store:" in red[1]
    assert found["items"][0]["size"] == 2 << 20
    await soon(lambda: _is_ready(own_station))
    assert await depth(broker.url, producers.topology.quarantine_queue) == 0
    assert not (own_station.data / "spool").exists()


async def test_a_cut_line_is_noticed_and_consuming_starts_over(
    own_station: Station, line: Proxy, producers: Producers, killer: Killer, ticket: str
) -> None:
    program = await asyncio.to_thread(own_station.start)
    line.cut()
    await soon(lambda: program.log.count("keeper.consuming") == 2)
    await producers.item(killer())

    assert len((await own_station.settled(ticket))["items"]) == 1


async def test_a_connection_that_is_closed_before_it_is_used_is_replaced(
    broker: EmbeddedBroker, prefix: str, tmp_path: Path
) -> None:
    topology, vitals, stop = Topology(prefix=prefix), Vitals(), asyncio.Event()
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    connection = await brokers.connect((broker.url,), name="test", deadline=10.0)
    await brokers.declare(connection, topology)
    await brokers.close(connection)
    keeper = Keeper(
        urls=(broker.url,), topology=topology, store=store, spool=Spool(tmp_path), channels=[], vitals=vitals
    )
    running = asyncio.create_task(keeper.run(stop, connection))
    try:
        await soon(lambda: vitals.consuming or running.done())
        assert vitals.consuming
    finally:
        stop.set()
        await running
        await store.close()


async def test_a_queue_deleted_by_hand_is_declared_again_and_consumed(
    own_station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    program = await asyncio.to_thread(own_station.start)
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        await channel.queue_delete(producers.topology.quarantine_queue)
    await soon(lambda: program.log.count("keeper.consuming") == 2)
    await producers.item(killer())

    assert len((await own_station.settled(ticket))["items"]) == 1


async def test_a_queue_with_other_arguments_stops_the_start_with_its_name(
    own_station: Station, broker: EmbeddedBroker
) -> None:
    name = f"{own_station.prefix}.quarantine"
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum", "x-message-ttl": 1000})

        done = await asyncio.to_thread(own_station.run, "serve")

        await channel.queue_delete(name)
    assert done.returncode == 4
    assert name in done.stderr


async def test_a_locked_store_is_told_to_every_probe_at_once_and_survived(
    own_station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    program = await asyncio.to_thread(own_station.start)
    await soon(lambda: _is_ready(own_station))
    with _locked(own_station):
        await soon(lambda: _is_not_ready(own_station))
        # More than the store has connections, all of them while nobody can write.
        answers = await asyncio.gather(*(_readiness(own_station) for _ in range(40)))
        verbs = [await asyncio.to_thread(own_station.run, *verb) for verb in (["list"], ["rejections"])]
    await soon(lambda: _is_ready(own_station))
    await producers.item(killer())
    await own_station.settled(ticket)

    assert {status for status, _ in answers} == {HTTPStatus.SERVICE_UNAVAILABLE}
    assert all("store: cannot be written" in text for _, text in answers)
    assert [done.returncode for done in verbs] == [0, 0], verbs
    assert program.exit_code is None


async def test_a_hook_that_never_ends_its_answer_delays_neither_other_channels_nor_the_end(
    own_station: Station, producers: Producers, killer: Killer
) -> None:
    async with _endless_hook() as (port, asked):
        own_station.extra |= {
            "LAZARETTO_ALERT_URLS": f"json://127.0.0.1:{port}/hook",
            "LAZARETTO_DRAIN_GRACE": "4s",
        }
        program = await asyncio.to_thread(own_station.start)
        await producers.item(killer(ticket=TicketId("one")))
        await soon(asked.is_set)
        await producers.item(killer(ticket=TicketId("two")))
        await soon(lambda: "item.quarantined ticket=two" in program.log)

        code = await asyncio.to_thread(program.terminate)

    assert code == 0
    assert "station.stopped" in program.log
    assert "station.overdue" not in program.log


async def test_a_station_that_waits_for_a_locked_store_ends_within_its_grace_and_loses_nothing(
    own_station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    own_station.extra["LAZARETTO_DRAIN_GRACE"] = "1s"
    program = await asyncio.to_thread(own_station.start)
    with _locked(own_station):
        await producers.item(killer())
        await soon(lambda: _is(depth(broker.url, producers.topology.quarantine_queue), 0))
        code = await asyncio.to_thread(program.terminate)
    assert code == 0
    assert "station.overdue" in program.log
    assert "item.stored" not in program.log

    await asyncio.to_thread(own_station.start)
    assert len((await own_station.settled(ticket))["items"]) == 1


@contextmanager
def _locked(station: Station) -> Iterator[None]:
    """Hold the store's write lock, as a program that is stuck in a transaction would."""
    writer = sqlite3.connect(station.data / "station.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        writer.execute("ROLLBACK")
        writer.close()


@asynccontextmanager
async def _endless_hook() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A service that begins its answer and goes on with it, byte by byte, until the test ends."""
    asked, over = asyncio.Event(), asyncio.Event()

    async def receive(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        asked.set()
        while not over.is_set():
            await pause(over, 0.5)
            with suppress(ConnectionError):
                await answer.write(b".")
        return answer

    app = web.Application()
    app.router.add_post("/hook", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1], asked
    finally:
        over.set()
        await runner.cleanup()


async def _is_ready(station: Station) -> bool:
    return (await _readiness(station))[0] == HTTPStatus.OK


async def _is_not_ready(station: Station) -> bool:
    return not await _is_ready(station)


async def _is(number: Awaitable[int], expected: int) -> bool:
    return await number == expected


async def _readiness(station: Station) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.get(f"{station.url}/readyz") as answer:
        return answer.status, await answer.text()

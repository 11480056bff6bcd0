"""How a door begins and ends: exit codes of a refused start, and an end that leaves nobody without an answer."""

import asyncio
import signal
import socket
import sqlite3
from pathlib import Path

import aio_pika
import aiohttp
import pytest
from pamqp.common import FieldTable

from gateway.contract.journal import Event, EventName
from gateway.contract.topology import Lane, Topology
from gateway.embedded import EmbeddedBroker, free_port
from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import RunningDoor
from tests.support.program import Program, Programs
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.waiting import soon


def _door(programs: Programs, *arguments: str, **settings: str) -> Program:
    env = {f"LAZARETTO_{name.upper()}": value for name, value in settings.items()}
    return programs.python("door", "-m", "gateway", *arguments, env={"LAZARETTO_DOOR": "127.0.0.1:0", **env})


def test_all_mistakes_in_the_settings_are_named_at_once(programs: Programs) -> None:
    door = _door(
        programs,
        "--check",
        max_body_bytes="17MiB",
        publish_deadline="soon",
        max_quued="3",
        door="8080",
        broker_url="amqp://guest:guest@127.0.0.1:99999/",
    )

    assert door.wait() == 2
    for mistake in (
        "LAZARETTO_BROKER_URL",
        "MAX_BODY_BYTES",
        "PUBLISH_DEADLINE",
        "MAX_QUUED is no setting",
        "LAZARETTO_DOOR",
    ):
        assert mistake in door.log


def test_a_door_refuses_to_listen_beyond_loopback_unless_the_network_is_trusted(programs: Programs) -> None:
    door = _door(programs, door="0.0.0.0:0")

    assert door.wait() == 2
    assert "LAZARETTO_TRUST_NETWORK" in door.log


def test_a_vocabulary_that_is_not_the_right_one_ends_the_start(programs: Programs, tmp_path: Path) -> None:
    other = tmp_path / "o200k.tiktoken"
    other.write_bytes(b"aGk= 0\n")

    door = _door(programs, vocabulary=str(other), vocabulary_sha256="0" * 64)

    assert door.wait() == 2
    assert "sha256" in door.log


def test_no_broker_at_the_start_is_exit_code_3(programs: Programs) -> None:
    door = _door(programs, broker_url=f"amqp://guest:guest@127.0.0.1:{free_port()}/")

    assert door.wait() == 3
    assert "broker unreachable" in door.log
    assert "guest:guest" not in door.log


async def test_a_queue_with_other_arguments_is_exit_code_4_and_named(
    programs: Programs, broker: EmbeddedBroker, prefix: str
) -> None:
    queue = Topology(prefix=prefix).lane_queue(Lane.WORK)
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})

    door = _door(programs, broker_url=broker.url, prefix=prefix)

    assert await asyncio.to_thread(door.wait) == 4
    assert queue in door.log
    assert "x-dead-letter-exchange" in door.log or "x-delivery-limit" in door.log


async def test_a_queue_without_a_delivery_limit_is_a_conflict_too(
    programs: Programs, broker: EmbeddedBroker, prefix: str
) -> None:
    topology = Topology(prefix=prefix)
    (queue,) = [queue for queue in topology.queues() if queue.name == topology.lane_queue(Lane.WORK)]
    arguments: FieldTable = {name: value for name, value in queue.arguments.items() if name != "x-delivery-limit"}
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(queue.name, durable=True, arguments=arguments)

    door = _door(programs, "--check", broker_url=broker.url, prefix=prefix)

    assert await asyncio.to_thread(door.wait) == 4
    assert "x-delivery-limit" in door.log


def test_check_reports_settings_broker_topology_and_vocabulary(
    programs: Programs, broker: EmbeddedBroker, prefix: str
) -> None:
    door = _door(programs, "--check", broker_url=broker.url, prefix=prefix)

    assert door.wait() == 0
    for said in ("max_body_bytes = 524288", "broker: RabbitMQ", "topology: ok", "vocabulary: o200k_base"):
        assert said in door.log
    assert "guest:guest" not in door.log


def test_help_lists_every_setting_with_its_default(programs: Programs) -> None:
    door = _door(programs, "--help")

    assert door.wait() == 0
    assert "LAZARETTO_MAX_BODY_BYTES [bytes, or 512KiB, 4MB, default 524288]" in door.log


def test_the_second_of_several_brokers_is_used_when_the_first_is_away(
    programs: Programs, broker: EmbeddedBroker, prefix: str
) -> None:
    urls = f"amqp://guest:guest@127.0.0.1:{free_port()}/,{broker.url}"

    door = _door(programs, broker_url=urls, prefix=prefix)

    door.wait_for_log(r"^door: http://")
    assert door.terminate() == 0


def test_an_address_that_is_taken_is_a_clear_error(programs: Programs, broker: EmbeddedBroker, prefix: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        door = _door(programs, broker_url=broker.url, prefix=prefix, door=f"127.0.0.1:{other.getsockname()[1]}")

        assert door.wait() == 2
        assert "cannot listen" in door.log


async def test_sigterm_answers_pending_confirms_and_cuts_stalled_uploads_within_the_grace(
    start: StartDoor, broker: EmbeddedBroker
) -> None:
    async with Proxy(broker.url) as line, await start(broker_url=line.url, drain_grace="4s") as door:
        door.broker_url = broker.url
        await soon(door.is_ready)
        stalled = socket.create_connection(door.host_port, timeout=30)
        stalled.sendall(b"POST /v1/tickets?kind=a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
        line.hold(TO_CLIENT)
        pending = [asyncio.create_task(door.submit()) for _ in range(20)]
        await soon(lambda: _has(door, 20))

        door.program.signal(signal.SIGTERM)
        await soon(lambda: "draining" in door.program.log)
        line.release()
        answers = await asyncio.gather(*pending)

        assert {answer.status for answer in answers} == {202}
        assert await asyncio.to_thread(door.program.wait) == 0
        assert stalled.recv(100) == b""  # nobody waited for its deadline
        stalled.close()
        assert {message.correlation_id for message in await door.take()} == {
            answer.document["id"] for answer in answers
        }
        events = {event.ticket for event in await door.events()}
        assert events == {answer.document["id"] for answer in answers}


async def test_sigterm_answers_whoever_waits_for_a_frozen_broker_before_the_grace_is_over(
    start: StartDoor, broker: EmbeddedBroker
) -> None:
    settings = {"drain_grace": "2s", "publish_deadline": "60s"}
    async with Proxy(broker.url) as line, await start(broker_url=line.url, **settings) as door:
        door.broker_url = broker.url
        await soon(door.is_ready)
        line.hold(TO_CLIENT)
        pending = [asyncio.create_task(door.submit()) for _ in range(5)]
        await soon(lambda: _has(door, 5))
        line.freeze()

        door.program.signal(signal.SIGTERM)
        answers = await asyncio.gather(*pending)

        assert {(answer.status, answer.document["reason"]) for answer in answers} == {(503, "timed_out")}
        # A polite farewell to such a broker takes five seconds a connection: more than there are.
        assert await asyncio.to_thread(door.program.wait, 6) == 0
        assert "door_closed" in door.program.log


async def _has(door: RunningDoor, count: int) -> bool:
    return await door.queued() == count


async def test_sigterm_closes_the_listener_and_refuses_what_comes_on_open_connections(
    start: StartDoor, broker: EmbeddedBroker
) -> None:
    async with Proxy(broker.url) as line, await start(broker_url=line.url) as door:
        door.broker_url = broker.url
        await soon(door.is_ready)
        reader, writer = await asyncio.open_connection(*door.host_port)
        line.hold(TO_CLIENT)
        pending = asyncio.create_task(door.submit())
        await soon(lambda: _has(door, 1))
        door.program.signal(signal.SIGTERM)
        await soon(lambda: "draining" in door.program.log)

        writer.write(b"POST /v1/tickets?kind=a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
        answer = await reader.read(4096)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*door.host_port)

        assert answer.startswith(b"HTTP/1.1 503 "), answer
        assert b'"reason":"draining"' in answer
        writer.close()
        line.release()
        assert (await pending).status == 202
        assert await asyncio.to_thread(door.program.wait) == 0


async def test_a_client_that_leaves_before_the_answer_loses_nothing(start: StartDoor, broker: EmbeddedBroker) -> None:
    async with Proxy(broker.url) as line, await start(broker_url=line.url) as door:
        door.broker_url = broker.url
        await soon(door.is_ready)
        line.hold(TO_CLIENT)
        leaving = asyncio.create_task(door.submit(Idempotency_Key="left"))
        await soon(lambda: _has(door, 1))
        leaving.cancel()
        await asyncio.wait({leaving})
        line.release()

        retried = await soon(lambda: _retry(door))
        assert {message.correlation_id for message in await door.take()} == {retried}
        accepted = [event.ticket for event in await _accepted(door)]
        assert accepted == [retried]


async def _accepted(door: RunningDoor) -> list[Event]:
    """Return what the journal has been told of, once that is something."""
    told: list[Event] = []

    async def heard() -> bool:
        told.extend(event for event in await door.events() if event.event is EventName.ACCEPTED)
        return bool(told)

    await soon(heard)
    return told


async def _retry(door: RunningDoor) -> str | None:
    answer = await door.submit(Idempotency_Key="left")
    return str(answer.document["id"]) if answer.status == 202 else None


async def test_the_state_of_a_ticket_is_503_while_the_store_cannot_be_read(start: StartDoor, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    async with await start() as door:
        answer = await door.ask("GET", "/v1/tickets/some-ticket")

        assert (answer.status, answer.document["type"]) == (503, "urn:lazaretto:problem:status-unavailable")
        await soon(door.is_ready)
        ready = await door.ask("GET", "/readyz")
        assert ready.document["checks"]["store"] == "unreachable"
        assert (await door.submit()).status == 202


async def test_a_store_that_somebody_keeps_locked_holds_up_no_answer(start: StartDoor, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    store = sqlite3.connect(tmp_path / "data" / "station.db", isolation_level=None)
    store.execute("CREATE TABLE left_by_somebody (a)")
    store.execute("BEGIN EXCLUSIVE")
    async with await start() as door:
        # Whoever waits for the lock itself gives up after ten seconds.
        patience = aiohttp.ClientTimeout(total=8)
        asked = [door.ask("GET", f"/v1/tickets/ticket-{number}", timeout=patience) for number in range(3)]
        ready, *states = await asyncio.gather(door.ask("GET", "/readyz", timeout=patience), *asked)

        assert ready.document["checks"]["store"] == "unreachable"
        assert {(state.status, state.document["type"]) for state in states} == {
            (503, "urn:lazaretto:problem:status-unavailable")
        }
        store.execute("ROLLBACK")
        store.close()
        await soon(lambda: _knows_of_no_ticket(door), 30)


async def _knows_of_no_ticket(door: RunningDoor) -> bool:
    return (await door.ask("GET", "/v1/tickets/some-ticket")).status == 404


async def test_a_door_that_is_hung_up_on_stays_open(start: StartDoor) -> None:
    async with await start() as door:
        await soon(door.is_ready)
        door.program.signal(signal.SIGHUP)

        await soon(lambda: _has_read_again(door))
        assert (await door.submit()).status == 202


async def _has_read_again(door: RunningDoor) -> bool:
    return await door.metric('lazaretto_reloads_total{result="done",what="keys"}') == 1


async def test_a_broker_that_does_not_take_the_largest_ticket_ends_the_start(
    programs: Programs, broker: EmbeddedBroker, prefix: str, tmp_path: Path
) -> None:
    before = broker.ctl("eval", "application:get_env(rabbit, max_message_size).")
    broker.ctl("eval", "application:set_env(rabbit, max_message_size, 300000).")
    try:
        settings = {"broker_url": broker.url, "prefix": prefix, "data": str(tmp_path)}
        serving = _door(programs, **settings)
        checking = _door(programs, "--check", **settings, max_body_bytes="250000")

        assert await asyncio.to_thread(serving.wait) == 2
        assert "LAZARETTO_MAX_BODY_BYTES: tickets may have 524288 bytes" in serving.log
        assert await asyncio.to_thread(checking.wait) == 0
        assert "largest message: 250000 bytes, taken" in checking.log
    finally:
        found = before.strip().removeprefix("{ok,").removesuffix("}")
        undo = (
            f"set_env(rabbit, max_message_size, {found})" if found.isdigit() else "unset_env(rabbit, max_message_size)"
        )
        broker.ctl("eval", f"application:{undo}.")

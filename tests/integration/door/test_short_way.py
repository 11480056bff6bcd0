"""An ordinary ticket goes a shorter way through the door, and nobody outside can tell."""

import asyncio
import json

import pytest

from gateway.embedded import EmbeddedBroker
from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import RunningDoor
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.waiting import soon

DIFFERENT_EACH_TIME = {"request-id", "location", "date", "content-length"}  # the time is a number of any length
REFUSALS = 'lazaretto_admission_refusals_total{mode="enforce",rule="unknown_member"}'
LONG_WAY = {"Accept": "application/json, text/plain"}
"""A list of types makes a request none of the ordinary ones."""


def request(body: bytes, *, path: str = "/v1/tickets", **headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: door", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def ticket(text: str = "hello", **members: object) -> bytes:
    return json.dumps({"kind": "support.ticket", "body": text, **members}).encode()


async def answers(
    door: RunningDoor, *pieces: bytes, wanted: int
) -> list[tuple[int, dict[str, str], dict[str, object]]]:
    """Send the pieces on one connection and read so many answers."""
    reader, writer = await asyncio.open_connection(*door.host_port)
    found = []
    try:
        async with asyncio.timeout(30):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            for _ in range(wanted):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                fields = dict(line.split(": ", 1) for line in head[1:] if line)
                headers = {name.lower(): value for name, value in fields.items()}
                content = await reader.readexactly(int(headers["content-length"]))
                found.append((int(head[0].split()[1]), headers, json.loads(content)))
    finally:
        writer.close()
    return found


async def test_both_ways_give_the_same_answer_and_the_same_message(door: RunningDoor) -> None:
    (short,) = await answers(door, request(ticket(), traceparent="00-aa-bb-01"), wanted=1)
    (long,) = await answers(door, request(ticket(), traceparent="00-aa-bb-01", **LONG_WAY), wanted=1)
    assert short[0] == long[0] == 202
    assert short[1].keys() == long[1].keys()
    assert {name: value for name, value in short[1].items() if name not in DIFFERENT_EACH_TIME} == {
        name: value for name, value in long[1].items() if name not in DIFFERENT_EACH_TIME
    }
    assert short[1]["location"] == short[2]["status_url"]
    assert short[2]["checks"] == long[2]["checks"]
    first, second = await door.take()
    assert first.body == second.body == ticket()
    assert first.headers.keys() == second.headers.keys()
    assert (first.type, first.content_type, first.app_id) == (second.type, second.content_type, second.app_id)
    assert {first.correlation_id, second.correlation_id} == {short[2]["id"], long[2]["id"]}


async def test_requests_on_one_connection_are_answered_in_their_order_whichever_way_they_go(door: RunningDoor) -> None:
    mixed = [
        request(ticket("first")),
        request(ticket("second"), **LONG_WAY),
        request(ticket("third", id="named-by-its-client")),
        request(b"{"),
        b"GET /healthz HTTP/1.1\r\nHost: door\r\n\r\n",
        request(ticket("fourth")),
    ]
    together = await answers(door, b"".join(mixed), wanted=len(mixed))
    assert [status for status, _, _ in together] == [202, 202, 202, 400, 200, 202]
    assert together[2][2]["id"] == "named-by-its-client"
    one_by_one = await answers(door, *mixed[:2], *mixed[3:], wanted=len(mixed) - 1)
    assert [status for status, _, _ in one_by_one] == [202, 202, 400, 200, 202]
    assert sorted(json.loads(message.body)["body"] for message in await door.take()) == sorted(
        ["first", "second", "third", "fourth", "first", "second", "fourth"]
    )


@pytest.mark.parametrize("split", [1, 60, -3], ids=["in its first line", "in its head", "in its body"])
async def test_a_request_in_two_pieces_is_answered_all_the_same(door: RunningDoor, split: int) -> None:
    whole = request(ticket())
    ((status, _, _),) = await answers(door, whole[:split], whole[split:], wanted=1)
    assert status == 202
    assert len(await door.take()) == 1


async def test_a_refusal_is_counted_and_told_once_though_both_ways_looked_at_it(door: RunningDoor) -> None:
    before = await door.metric(REFUSALS)
    ((status, _, document),) = await answers(door, request(ticket(colour="red")), wanted=1)
    assert status == 422
    assert document["violations"]
    after = await door.metric(REFUSALS)
    assert after == before + 1


async def test_a_request_without_a_body_is_refused_and_no_fault_of_the_door(door: RunningDoor) -> None:
    ((status, _, document),) = await answers(door, request(b""), wanted=1)
    assert status == 400
    assert document["type"]
    assert "short_way_failed" not in door.program.log


async def test_what_comes_behind_an_unanswered_ticket_and_wants_another_protocol_ends_the_connection(
    start: StartDoor, broker: EmbeddedBroker
) -> None:
    probe = b"GET /healthz HTTP/1.1\r\nHost: door\r\n"
    async with Proxy(broker.url) as line, await start(broker_url=line.url, publish_deadline="20s") as door:
        await soon(door.is_ready)
        # Each has been answered once: from then on its next ticket takes the short way.
        clients = [await asyncio.open_connection(*door.host_port) for _ in range(4)]
        for reader, writer in clients:
            writer.write(probe + b"\r\n")
            await reader.readuntil(b"}")
        line.hold(TO_CLIENT)
        for _, writer in clients:
            writer.write(request(ticket()))
        await soon(lambda: _are_under_way(door, len(clients)))
        for _, writer in clients:
            writer.write(probe + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            await writer.drain()
        assert (await door.ask("GET", "/healthz")).status == 200  # the door has read them by then
        line.release()
        async with asyncio.timeout(30):
            told = [await reader.read() for reader, _ in clients]
        for _, writer in clients:
            writer.close()
    assert [(answers[:13], answers.count(b"HTTP/1.1 ")) for answers in told] == [(b"HTTP/1.1 202 ", 1)] * len(clients)


async def _are_under_way(door: RunningDoor, count: int) -> bool:
    return await door.metric("lazaretto_inflight_publishes") >= count

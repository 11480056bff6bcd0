"""The same thing sent twice is one ticket with one answer, at every door and over restarts (G8)."""

import asyncio
import sqlite3
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.contract.ids import idempotent_ticket_id
from gateway.embedded import EmbeddedBroker
from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import TICKET, Answer, RunningDoor
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.waiting import soon

OTHER = {**TICKET, "body": "The printer is under water."}


def _key() -> str:
    return uuid4().hex


def _is_problem(answer: Answer, status: int, code: str) -> bool:
    return answer.status == status and bool(answer.document["type"] == f"urn:lazaretto:problem:{code}")


def _is_first_answer_again(answer: Answer, first: Answer) -> bool:
    return (
        (answer.status, answer.text, answer.headers["Location"])
        == (first.status, first.text, first.headers["Location"])
        and answer.headers["Idempotency-Replayed"] == "true"
        and "Idempotency-Replayed" not in first.headers
    )


async def test_the_same_key_and_body_get_the_first_answer_again_and_nothing_is_published(door: RunningDoor) -> None:
    await soon(door.is_ready)
    key = _key()
    first = await door.submit(Idempotency_Key=key)
    again = [await door.submit(Idempotency_Key=spelt) for spelt in (key, f'"{key}"')]

    assert first.status == 202
    assert all(_is_first_answer_again(answer, first) for answer in again)
    assert await door.queued() == 1
    assert await door.metric('lazaretto_repetitions_total{result="replayed"}') >= 2


async def test_the_same_key_with_another_body_is_422(door: RunningDoor) -> None:
    await soon(door.is_ready)
    key = _key()
    assert (await door.submit(Idempotency_Key=key)).status == 202

    assert _is_problem(await door.submit(OTHER, Idempotency_Key=key), 422, "key-reused")
    assert await door.queued() == 1


def _wrapped(boundary: str) -> tuple[bytes, str]:
    parts = (("body", "The printer is on fire."), ("log", "no paper"))
    said = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in parts
    )
    return f"{said}--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


async def test_a_repetition_under_another_boundary_is_one_at_this_door_and_for_the_fence_if_both_got_through(
    start: StartDoor, tmp_path: Path
) -> None:
    key, messages = _key(), []
    for boundary, store in (("one", "here"), ("two", "there")):  # two stores, as if the first claim had been lost
        async with await start(store_url=f"sqlite+aiosqlite:///{tmp_path / store}.db") as door:
            await soon(door.is_ready)
            body, content_type = _wrapped(boundary)
            first = await door.submit_text(body, content_type, Idempotency_Key=key)
            body, content_type = _wrapped(f"{boundary}-again")
            again = await door.submit_text(body, content_type, Idempotency_Key=key)
            assert (first.status, again.status, first.document["id"]) == (202, 202, again.document["id"])
            assert again.headers["Idempotency-Replayed"] == "true"
            [message] = await door.take()
            messages.append(message)
    one, two = (message.headers["lz-admission"] for message in messages)
    assert messages[0].body != messages[1].body
    assert isinstance(one, dict)
    assert isinstance(two, dict)
    assert one["contents"] == two["contents"] != ""


async def test_an_id_of_the_clients_own_is_one_ticket_and_its_state_is_told(door: RunningDoor) -> None:
    await soon(door.is_ready)
    ticket = {**TICKET, "id": f"mine-{_key()}"}
    first, again = await door.submit(ticket), await door.submit(ticket)

    assert (first.status, again.status) == (202, 202)
    assert first.document == again.document
    assert again.headers["Idempotency-Replayed"] == "true"
    assert _is_problem(await door.submit({**OTHER, "id": ticket["id"]}), 409, "id-taken")
    assert await door.queued() == 1


async def test_nobody_can_take_the_id_that_a_key_will_make(door: RunningDoor) -> None:
    await soon(door.is_ready)
    key = _key()
    made = idempotent_ticket_id("anonymous", key)
    assert (await door.submit({**OTHER, "id": made})).status == 202

    assert _is_problem(await door.submit(Idempotency_Key=key), 422, "key-reused")
    assert await door.queued() == 1


async def test_what_preflight_refuses_is_not_remembered(door: RunningDoor) -> None:
    await soon(door.is_ready)
    key = _key()
    assert (await door.submit({**TICKET, "body": ""}, Idempotency_Key=key)).status == 422
    assert (await door.submit(Idempotency_Key=key)).status == 202


async def test_the_limits_tell_how_long_a_key_is_remembered(door: RunningDoor) -> None:
    limits = (await door.ask("GET", "/v1/limits")).document

    assert limits["idempotency_expiry_seconds"] == 86_400
    assert limits["idempotency_in_flight_seconds"] > 0


async def test_two_doors_know_of_each_other_what_is_under_way_and_what_was_answered(
    start: StartDoor, broker: EmbeddedBroker, store_url: str
) -> None:
    async with (
        Proxy(broker.url) as line,
        await start(broker_url=line.url, store_url=store_url) as slow,
        await start(store_url=store_url) as quick,
    ):
        await soon(slow.is_ready)
        await soon(quick.is_ready)
        key = _key()
        line.hold(TO_CLIENT)
        pending = asyncio.create_task(slow.submit(Idempotency_Key=key))
        await soon(lambda: _has(quick, 1))

        busy, reused = await quick.submit(Idempotency_Key=key), await quick.submit(OTHER, Idempotency_Key=key)
        assert _is_problem(busy, 409, "in-flight")
        assert int(busy.headers["Retry-After"]) > 0
        assert _is_problem(reused, 422, "key-reused")

        line.release()
        first = await pending
        assert first.status == 202
        assert _is_first_answer_again(await quick.submit(Idempotency_Key=key), first)
        assert await quick.queued() == 1


async def _has(door: RunningDoor, count: int) -> bool:
    return await door.queued() == count


async def test_of_many_repetitions_at_once_at_two_doors_one_is_published(start: StartDoor, store_url: str) -> None:
    async with await start(store_url=store_url) as one, await start(store_url=store_url) as other:
        await soon(one.is_ready)
        await soon(other.is_ready)
        key = _key()
        answers = await asyncio.gather(*(door.submit(Idempotency_Key=key) for door in (one, other) for _ in range(10)))

        assert {answer.status for answer in answers} <= {202, 409}
        accepted = [answer for answer in answers if answer.status == 202]
        assert len({answer.text for answer in accepted}) == 1
        assert sum("Idempotency-Replayed" not in answer.headers for answer in accepted) == 1
        assert await one.queued() == 1


async def test_the_first_answer_outlives_the_door(start: StartDoor) -> None:
    key = _key()
    async with await start() as door:
        await soon(door.is_ready)
        first = await door.submit(Idempotency_Key=key)
        assert await asyncio.to_thread(door.program.terminate) == 0
    async with await start() as door:
        await soon(door.is_ready)
        assert _is_first_answer_again(await door.submit(Idempotency_Key=key), first)
        assert await door.queued() == 0


@pytest.mark.parametrize("trouble", ["unreachable", "locked"])
async def test_without_the_store_a_key_is_503_and_everything_else_is_accepted(
    start: StartDoor, tmp_path: Path, trouble: str
) -> None:
    async with await start() as door:
        await soon(door.is_ready)
        path = tmp_path / "data" / "station.db"
        await soon(lambda: _is_filled(path))
        lock = sqlite3.connect(path, isolation_level=None)
        if trouble == "locked":
            lock.execute("BEGIN IMMEDIATE")
        else:
            lock.execute("DROP TABLE submissions")
        own = {**TICKET, "id": f"mine-{_key()}"}

        keyed = await door.submit(Idempotency_Key=_key())
        assert _is_problem(keyed, 503, "store-unavailable")
        assert keyed.document["retryable"]
        assert int(keyed.headers["Retry-After"]) > 0
        assert await door.queued() == 0
        assert (await door.submit()).status == 202
        assert (await door.submit(own)).status == 202
        assert _is_problem(await door.submit({**OTHER, "id": own["id"]}), 409, "id-taken"), "as this door remembers"

        lock.close()
    if trouble == "locked":
        await soon(lambda: _is_accepted(door), 30)


def _is_filled(path: Path) -> bool:
    return path.exists() and bool(
        sqlite3.connect(path).execute("SELECT 1 FROM sqlite_master WHERE name = 'submissions'").fetchone()
    )


async def _is_accepted(door: RunningDoor) -> bool:
    async with door:
        return (await door.submit(Idempotency_Key=_key())).status == 202

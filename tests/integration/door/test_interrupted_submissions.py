"""A door is killed at each step of a submission with a key: never a false yes, never a loss, never a second ticket.

The steps are claim, publish, confirm, record, answer (docs/decisions/0016).
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.contract.ids import idempotent_ticket_id
from gateway.embedded import EmbeddedBroker
from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import TICKET, Answer, RunningDoor
from tests.support.proxy import TO_BROKER, TO_CLIENT, Proxy
from tests.support.waiting import soon

KEY = "order-66"
OTHER = {**TICKET, "body": "The printer is under water."}
SETTINGS = {"publish_deadline": "1s", "drain_grace": "500ms"}


class Stage:
    """A door behind a line that can be held, the store that it writes to, and a client that waits."""

    def __init__(self, door: RunningDoor, line: Proxy, store: Path) -> None:
        self.door = door
        self.line = line
        self._store = store
        self._waiting: asyncio.Task[Answer] | None = None

    def submit(self) -> None:
        """Send the ticket; its answer is never read."""
        self._waiting = asyncio.create_task(self.door.submit(Idempotency_Key=KEY))

    async def kill(self) -> None:
        """Kill the door, with everything that is still on the line."""
        await asyncio.to_thread(self.door.program.kill9)
        self.line.cut()
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait({self._waiting})

    def row(self) -> Any:
        """Return status and answer of the ticket's row, None without one."""
        with contextlib.closing(sqlite3.connect(self._store)) as store:
            return store.execute("SELECT status, answer FROM submissions").fetchone()

    @contextlib.contextmanager
    def locked(self) -> Any:
        """Keep the store from being written to."""
        with contextlib.closing(sqlite3.connect(self._store, isolation_level=None)) as store:
            store.execute("BEGIN IMMEDIATE")
            yield
            store.execute("ROLLBACK")


@pytest.fixture
async def stage(start: StartDoor, broker: EmbeddedBroker, tmp_path: Path) -> AsyncIterator[Stage]:
    async with Proxy(broker.url) as line, await start(broker_url=line.url, **SETTINGS) as door:
        door.broker_url = broker.url
        await soon(door.is_ready)
        await soon(lambda: _store_is_ok(door))
        yield Stage(door, line, tmp_path / "data" / "station.db")


async def _store_is_ok(door: RunningDoor) -> bool:
    return bool((await door.ask("GET", "/readyz")).document["checks"]["store"] == "ok")


async def _has(door: RunningDoor, count: int) -> bool:
    return await door.queued() == count


async def _next_door(start: StartDoor) -> RunningDoor:
    """Start another door on the same store and queues, which are left as they are."""
    return await start(emptied=False, **SETTINGS)


async def _accepted(door: RunningDoor, refusals: set[int]) -> Answer:
    """Send the ticket until it is accepted; collect what it was refused with."""

    async def attempt() -> Answer | None:
        answer = await door.submit(Idempotency_Key=KEY)
        if answer.status != 202:
            refusals.add(answer.status)
        return answer if answer.status == 202 else None

    answer = await soon(attempt, 30)
    assert answer is not None
    return answer


async def _ids(door: RunningDoor) -> list[str | None]:
    return [message.correlation_id for message in await door.take()]


TICKET_ID = idempotent_ticket_id("anonymous", KEY)


async def test_killed_before_the_claim_it_was_never_there(stage: Stage, start: StartDoor) -> None:
    with stage.locked():
        stage.submit()
        await soon(lambda: _has_examined(stage.door))
        await stage.kill()
    assert stage.row() is None

    async with await _next_door(start) as door:
        await soon(door.is_ready)
        answer = await door.submit(Idempotency_Key=KEY)

        assert answer.status == 202
        assert "Idempotency-Replayed" not in answer.headers
        assert await _ids(door) == [TICKET_ID]


async def _has_examined(door: RunningDoor) -> bool:
    return await door.metric("lazaretto_admission_body_bytes_count") == 1


async def test_killed_between_claim_and_publish_the_next_one_waits_and_then_publishes(
    stage: Stage, start: StartDoor
) -> None:
    stage.line.hold(TO_BROKER)
    stage.submit()
    await soon(stage.row)
    await stage.kill()

    async with await _next_door(start) as door:
        await soon(door.is_ready)
        assert await door.queued() == 0
        assert (await door.submit(OTHER, Idempotency_Key=KEY)).status == 422, "also while nobody is at it"
        refusals: set[int] = set()
        answer = await _accepted(door, refusals)

        assert refusals <= {409}
        assert "Idempotency-Replayed" not in answer.headers
        assert await _ids(door) == [TICKET_ID]
        assert await door.metric('lazaretto_repetitions_total{result="taken_over"}') == 1


async def test_killed_between_publish_and_confirm_the_next_one_publishes_a_copy_of_the_same_ticket(
    stage: Stage, start: StartDoor
) -> None:
    stage.line.hold(TO_CLIENT)
    stage.submit()
    await soon(lambda: _published(stage))
    await stage.kill()

    await _assert_one_ticket_in_two_copies(start)


async def test_killed_between_confirm_and_record_the_next_one_publishes_a_copy_of_the_same_ticket(
    stage: Stage, start: StartDoor
) -> None:
    stage.line.hold(TO_CLIENT)
    stage.submit()
    await soon(lambda: _published(stage))
    with stage.locked():
        stage.line.release()
        await soon(lambda: _confirmed(stage))
        await stage.kill()
    assert stage.row() == (None, None)

    await _assert_one_ticket_in_two_copies(start)


async def _confirmed(stage: Stage) -> bool:
    return await stage.door.metric("lazaretto_publish_confirm_seconds_count") >= 1


async def _published(stage: Stage) -> bool:
    return stage.row() is not None and await _has(stage.door, 1)


async def _assert_one_ticket_in_two_copies(start: StartDoor) -> None:
    async with await _next_door(start) as door:
        await soon(door.is_ready)
        assert (await door.submit(OTHER, Idempotency_Key=KEY)).status == 422
        refusals: set[int] = set()
        await _accepted(door, refusals)

        assert refusals <= {409}
        # Which of them starts, and that only one does, is the fence's business.
        assert await _ids(door) == [TICKET_ID, TICKET_ID]


async def test_killed_after_the_record_the_next_one_gives_the_answer_that_nobody_heard(
    stage: Stage, start: StartDoor
) -> None:
    stage.submit()
    status, recorded = await soon(lambda: _is_recorded(stage))
    await stage.kill()

    async with await _next_door(start) as door:
        await soon(door.is_ready)
        answer = await door.submit(Idempotency_Key=KEY)

        assert (answer.status, answer.text.encode()) == (status, recorded)
        assert answer.headers["Idempotency-Replayed"] == "true"
        assert await _ids(door) == [TICKET_ID]


def _is_recorded(stage: Stage) -> Any:
    row = stage.row()
    return row if row is not None and row[0] is not None else None


async def test_a_confirmed_ticket_is_a_yes_also_when_the_store_cannot_take_it_down(
    stage: Stage, start: StartDoor
) -> None:
    stage.line.hold(TO_CLIENT)
    sending = asyncio.create_task(stage.door.submit(Idempotency_Key=KEY))
    await soon(lambda: _published(stage))
    with stage.locked():
        stage.line.release()
        answer = await sending
    assert answer.status == 202
    again = await _accepted(stage.door, set())

    assert again.document["id"] == answer.document["id"] == TICKET_ID


async def test_after_a_503_another_door_may_take_it_over_and_both_give_the_same_answer(
    stage: Stage, start: StartDoor
) -> None:
    stage.line.hold(TO_CLIENT)
    sending = asyncio.create_task(stage.door.submit(Idempotency_Key=KEY))
    await soon(lambda: _published(stage))
    async with await _next_door(start) as door:
        await soon(door.is_ready)
        await sending
        accepted = await _accepted(door, set())
        stage.line.release()
        await soon(stage.door.is_ready)

        late = await _accepted(stage.door, set())
        assert (late.text, late.headers["Idempotency-Replayed"]) == (accepted.text, "true")
        assert set(await _ids(door)) == {TICKET_ID}

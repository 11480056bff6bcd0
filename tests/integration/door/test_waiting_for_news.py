"""A client that knows where its ticket stands hears of it when that changes, and costs the store next to nothing."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.contract.ids import uuid7
from gateway.contract.journal import Event, EventName
from gateway.metrics import Metrics
from gateway.station import ledger
from gateway.station.store import Store, TicketStatus
from gateway.waits import TooManyWaiting, Waits
from tests.integration.door.conftest import StartDoor
from tests.integration.door.key_file import KeyFile, bearing
from tests.integration.door.running import TICKET, Answer, RunningDoor
from tests.support.waiting import soon

LONG = "20s"


def _finished(ticket: str, verdict: str = "ack") -> Event:
    outcome = {"ack": "succeeded", "retry": "failed"}[verdict]
    data = {"outcome": outcome, "verdict": verdict}
    return Event(event=EventName.FINISHED, at=time.time(), ticket=ticket, kind="support.ticket", node="n", data=data)


async def _report(folder: Path, *events: Event) -> None:
    """Store what the fleet told, as the station does."""
    store = await Store.open(f"sqlite+aiosqlite:///{folder / 'data' / 'station.db'}")
    async with store.writing() as transaction:
        await ledger.post(transaction, events)
    await store.close()


async def _accepted(door: RunningDoor, **headers: str) -> tuple[str, str]:
    """Submit a ticket; return its id and the tag of its state."""
    ticket = (await door.submit(**headers)).document["id"]
    answer = await door.ask("GET", f"/v1/tickets/{ticket}", headers=headers)
    assert answer.document["state"] == "accepted"
    return ticket, answer.headers["ETag"]


async def _wait(door: RunningDoor, ticket: str, tag: str, wait: str = LONG, **headers: str) -> Answer:
    return await door.ask("GET", f"/v1/tickets/{ticket}?wait={wait}", headers={"If-None-Match": tag, **headers})


async def _waiting(door: RunningDoor, number: int) -> bool:
    return await door.metric("lazaretto_status_waiting") == number


async def _ended(door: RunningDoor, end: str) -> float:
    return await door.metric(f'lazaretto_status_waits_total{{end="{end}"}}')


async def test_who_knows_the_state_is_told_that_nothing_is_new(start: StartDoor, tmp_path: Path) -> None:
    async with await start() as door:
        ticket, tag = await _accepted(door)
        path = f"/v1/tickets/{ticket}"
        for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
            answer = await door.ask("GET", path, headers={"If-None-Match": known})
            assert (answer.status, answer.text, answer.headers["ETag"]) == (304, "", tag)
        for unknown in ('"other"', 'W/""', "no tag at all", f'"{ticket}'):
            assert (await door.ask("GET", path, headers={"If-None-Match": unknown})).status == 200

        await _report(tmp_path, _finished(ticket, "retry"))
        answer = await door.ask("GET", path, headers={"If-None-Match": tag})

        assert (answer.status, answer.document["state"]) == (200, "retrying")
        assert answer.headers["ETag"] != tag


async def test_a_wait_ends_with_the_new_state_also_at_another_door(start: StartDoor, tmp_path: Path) -> None:
    async with await start() as one, await start(emptied=False) as other:
        ticket, tag = await _accepted(one)
        # What the door itself remembers and what comes to stand in the store are the same state.
        await _report(tmp_path, *(await soon(one.events)))
        waits = [asyncio.create_task(_wait(door, ticket, tag)) for door in (one, other)]
        for door in (one, other):
            await soon(lambda asked=door: _waiting(asked, 1))  # type: ignore[misc]

        await _report(tmp_path, _finished(ticket))

        for answer in await asyncio.gather(*waits):
            assert (answer.status, answer.document["state"]) == (200, "done")
        assert [await _ended(door, "changed") for door in (one, other)] == [1, 1]


async def test_a_report_that_repeats_what_is_known_wakes_nobody(start: StartDoor, tmp_path: Path) -> None:
    async with await start(status_look="50ms") as door:
        ticket, tag = await _accepted(door)
        for event in await soon(door.events):
            await _report(tmp_path, event, replace(event, at=event.at + 5, id=uuid7()))

        answer = await _wait(door, ticket, tag, "1s")

        assert (answer.status, await _ended(door, "unchanged")) == (304, 1)


async def test_a_wait_is_no_longer_than_the_door_says(start: StartDoor) -> None:
    async with await start(status_wait="300ms") as door:
        ticket, tag = await _accepted(door)

        answer = await _wait(door, ticket, tag, "1h")

        assert (answer.status, answer.text, answer.headers["ETag"]) == (304, "", tag)
        limits = (await door.ask("GET", "/v1/limits")).document
        assert (limits["status_wait_seconds"], limits["status_look_seconds"], limits["max_waiting"]) == (0.3, 1.0, 1000)


async def test_who_has_no_tag_and_who_does_not_ask_to_wait_wait_for_nothing(start: StartDoor) -> None:
    async with await start() as door:
        ticket, tag = await _accepted(door)

        assert (await door.ask("GET", f"/v1/tickets/{ticket}?wait={LONG}")).status == 200
        assert (await door.ask("GET", "/v1/tickets/no-such-ticket")).status == 404
        for wrong in ("soon", "-1s", "", "1s&wait=2s"):
            answer = await _wait(door, ticket, tag, wrong)
            assert (answer.status, answer.document["type"]) == (400, "urn:lazaretto:problem:bad-request")
        assert await _waiting(door, 0)


async def test_a_ticket_that_becomes_known_during_the_wait_is_told_of_then(start: StartDoor, tmp_path: Path) -> None:
    async with await start(status_look="100ms") as one, await start(emptied=False) as other:
        asked = asyncio.create_task(one.ask("GET", f"/v1/tickets/soon?wait={LONG}"))
        await soon(lambda: _waiting(one, 1))

        assert (await other.submit({**TICKET, "id": "soon"})).status == 202
        await _report(tmp_path, *(await soon(other.events)))

        answer = await asked
        assert (answer.status, answer.document["state"]) == (200, "accepted")
        assert await _ended(one, "changed") == 1


async def test_a_ticket_of_another_takes_as_long_as_one_that_nobody_knows_and_is_as_unknown(
    start: StartDoor, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "keys")
    ours, theirs = bearing(keys.add("acme")), bearing(keys.add("other"))
    async with await start(keys=str(keys.path), status_look="50ms") as door:
        ticket, _ = await _accepted(door, **theirs)

        for path in (f"/v1/tickets/{ticket}", "/v1/tickets/nobodys"):
            answer = await door.ask("GET", f"{path}?wait=500ms", headers=ours)
            assert (answer.status, answer.document["type"]) == (404, "urn:lazaretto:problem:no-such-ticket")

        assert await _ended(door, "unchanged") == 2
        assert (await door.ask("GET", f"/v1/tickets/{ticket}?wait={LONG}", headers=theirs)).status == 200


async def test_a_client_that_has_gone_waits_no_longer(start: StartDoor) -> None:
    async with await start(status_look="100ms") as door:
        ticket, tag = await _accepted(door)
        waiting = asyncio.create_task(_wait(door, ticket, tag))
        await soon(lambda: _waiting(door, 1))

        waiting.cancel()

        await soon(lambda: _waiting(door, 0))
        assert await _ended(door, "gone") == 1


async def test_a_door_that_closes_tells_all_who_wait_how_things_stand(start: StartDoor) -> None:
    async with await start(drain_grace="15s", status_wait="300s") as door:
        known = [await _accepted(door) for _ in range(3)]
        waits = [asyncio.create_task(_wait(door, ticket, tag, "300s")) for ticket, tag in known]
        await soon(lambda: _waiting(door, 3))

        assert await asyncio.to_thread(door.program.terminate) == 0

        answers = await asyncio.gather(*waits)
        assert [(answer.status, answer.headers["ETag"]) for answer in answers] == [(304, tag) for _, tag in known]
        assert "left_unclosed" not in door.program.log


async def test_one_client_leaves_room_for_others_who_wait(start: StartDoor, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys")
    ours, theirs = bearing(keys.add("acme")), bearing(keys.add("other"))
    async with await start(keys=str(keys.path), max_waiting="4") as door:
        ticket, tag = await _accepted(door, **ours)
        waiting = [asyncio.create_task(_wait(door, ticket, tag, **ours))]
        await soon(lambda: _waiting(door, 1))

        answer = await _wait(door, ticket, tag, **ours)

        assert (answer.status, answer.document["type"]) == (503, "urn:lazaretto:problem:too-many-waiting")
        assert int(answer.headers["Retry-After"]) > 0
        assert (await door.ask("GET", f"/v1/tickets/{ticket}", headers=ours)).status == 200
        ticket, tag = await _accepted(door, **theirs)
        waiting.append(asyncio.create_task(_wait(door, ticket, tag, **theirs)))
        await soon(lambda: _waiting(door, 2))
        for wait in waiting:
            wait.cancel()


async def test_a_store_that_is_lost_during_a_wait_is_503_and_one_that_comes_back_in_time_is_not(
    start: StartDoor, tmp_path: Path
) -> None:
    async with await start(status_look="100ms") as door:
        ticket, tag = await _accepted(door)
        path = tmp_path / "data" / "station.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as store:
            lost, patient = (asyncio.create_task(_wait(door, ticket, tag, wait)) for wait in ("4s", LONG))
            await soon(lambda: _waiting(door, 2))
            store.execute("ALTER TABLE tickets RENAME TO away")

            answer = await lost

            assert (answer.status, answer.document["type"]) == (503, "urn:lazaretto:problem:status-unavailable")
            store.execute("ALTER TABLE away RENAME TO tickets")
        await _report(tmp_path, _finished(ticket))
        assert (await patient).document["state"] == "done"


@pytest.mark.parametrize("waiters", [200])
async def test_all_who_wait_share_one_look_at_the_store(store_url: str, waiters: int) -> None:
    store = await Store.open(store_url)
    tickets = [f"ticket-{number}" for number in range(waiters)]
    async with store.writing() as transaction:
        await ledger.post(transaction, [_finished(ticket, "retry") for ticket in tickets])
    looks: list[int] = []

    async def look(wanted: Collection[str]) -> Mapping[str, TicketStatus]:
        looks.append(len(wanted))
        return await store.ticket_statuses(wanted)

    waits = Waits(look, Metrics(), every=0.05, longest=20, most=waiters, shared=False)
    running = asyncio.create_task(waits.run())
    known = await store.ticket_statuses(tickets)
    waiting = [
        asyncio.create_task(
            waits.changed(
                ticket,
                found,
                20,
                client="c",
                known=lambda status: status is not None and status.state == "retrying",
                gone=lambda: False,
            )
        )
        for ticket, found in known.items()
    ]
    await soon(lambda: len(looks) >= 3)
    with pytest.raises(TooManyWaiting):
        await waits.changed("ticket-0", known["ticket-0"], 20, client="c", known=lambda _: True, gone=lambda: False)
    async with store.writing() as transaction:
        await ledger.post(transaction, [_finished(ticket) for ticket in tickets])

    assert {status and status.state for status in await asyncio.gather(*waiting)} == {"done"}
    assert set(looks) == {waiters}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await store.close()

"""Attachments that are too large to travel are in the depot, for good, before their ticket is published (G13)."""

import asyncio
import base64
import io
import json
import os
import resource
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.references import digest_of
from gateway.depot import MARK, fetch, open_depot
from gateway.preflight import Limits, Submission, parse_ticket
from gateway.preflight.ticket import Ticket
from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import Answer, RunningDoor
from tests.support.object_store import ObjectStore
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.received import received
from tests.support.waiting import soon

LARGE = bytes(range(256)) * 1024  # 256 KiB
OTHER = LARGE[::-1]


def _form(*contents: bytes, text: str = "see the files") -> aiohttp.FormData:
    form = aiohttp.FormData(default_to_multipart=True)
    form.add_field("body", text, content_type="text/plain")
    for number, content in enumerate(contents):
        form.add_field("file", content, filename=f"{number}.bin", content_type="application/octet-stream")
    return form


def _json(*contents: bytes, **members: Any) -> dict[str, Any]:
    attached = [{"name": "a.bin", "content_base64": base64.b64encode(content).decode()} for content in contents]
    return {"kind": "support.ticket", "body": "see the files", "attachments": attached, **members}


async def _submit(door: RunningDoor, form: aiohttp.FormData) -> Any:
    return await door.ask("POST", "/v1/tickets?kind=support.ticket", data=form)


async def _published(door: RunningDoor) -> Envelope:
    (message,) = await door.take()
    found = envelopes.decode(received(message))
    assert isinstance(found, Envelope)
    return found


def _read(item: Envelope) -> Ticket:
    assert item.admission is not None
    submission = Submission(
        body=item.body, content_type=item.content_type, kind=item.kind, folder=item.admission.stored
    )
    ticket = parse_ticket(submission, Limits()).ticket
    assert ticket is not None
    return ticket


@pytest.fixture
async def large(start: StartDoor) -> AsyncIterator[RunningDoor]:
    async with await start(max_body_bytes="6MiB") as door:
        yield door


async def test_large_ones_lie_in_the_data_folder_and_small_ones_travel(large: RunningDoor, tmp_path: Path) -> None:
    answer = await _submit(large, _form(LARGE, b"small", OTHER, LARGE))
    assert answer.status == 202, answer.text
    shown = {"content_type": "application/octet-stream", "bytes": len(LARGE)}
    assert answer.document["checks"]["files"] == [
        {"name": "0.bin", **shown},
        {"name": "1.bin", **shown, "bytes": 5},
        {"name": "2.bin", **shown},
        {"name": "3.bin", **shown},
    ]

    item = await _published(large)
    assert item.admission is not None
    assert len(item.body) < 4096
    attached = _read(item).attachments
    assert [one.content for one in attached] == [b"", b"small", b"", b""]
    references = [one.reference for one in attached if one.reference is not None]
    depot = open_depot(str(tmp_path / "data" / "attachments"))
    assert [fetch(depot, reference) for reference in references] == [LARGE, OTHER, LARGE]
    folder = tmp_path / "data" / "attachments" / item.admission.stored
    assert {path.name for path in folder.iterdir()} == {digest_of(LARGE), digest_of(OTHER)}
    assert {path.name for path in folder.parent.iterdir()} == {folder.name, MARK}
    assert folder.name.startswith(f"{item.ticket}~")


async def test_a_dry_run_stores_nothing(large: RunningDoor, tmp_path: Path) -> None:
    answer = await large.ask("POST", "/v1/tickets:check?kind=support.ticket", data=_form(LARGE))
    assert (answer.status, answer.document["checks"]["files"][0]["bytes"]) == (200, len(LARGE))
    assert not (tmp_path / "data" / "attachments").exists()


async def test_a_client_cannot_refer_to_what_another_has_stored(large: RunningDoor) -> None:
    assert (await large.submit(_json(LARGE))).status == 202
    item = await _published(large)
    stolen = json.loads(item.body)
    assert set(stolen["attachments"][0]["stored"]) == {"reference", "bytes", "sha256"}
    answer = await large.submit(stolen)
    assert answer.status == 422
    assert {violation["rule"] for violation in answer.document["violations"]} == {"unknown_member"}


async def test_the_same_sent_again_is_one_folder_and_one_body(large: RunningDoor, tmp_path: Path) -> None:
    ticket = _json(LARGE, id=f"again-{uuid4().hex}")
    for replayed in (None, "true"):
        answer = await large.submit(ticket)
        assert (answer.status, answer.headers.get("Idempotency-Replayed")) == (202, replayed)
    item = await _published(large)
    assert item.admission is not None
    assert [path.name for path in (tmp_path / "data" / "attachments").glob("*~*")] == [item.admission.stored]


async def test_a_full_disk_is_503_and_what_fits_is_taken(large: RunningDoor) -> None:
    body = json.dumps(_json(os.urandom(2 << 20), id=f"full-{uuid4().hex}")).encode()

    async def submit() -> Answer:
        return await large.ask(
            "POST", "/v1/tickets", data=io.BytesIO(body), headers={"Content-Type": "application/json"}
        )

    before = resource.prlimit(large.program.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(large.program.pid, resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    refused = await submit()
    assert (refused.status, refused.document["reason"], refused.document["retryable"]) == (503, "attachments", True)
    assert refused.headers["Retry-After"] == "5"
    assert (await large.ask("GET", "/readyz")).document["checks"]["attachments"] == "unreachable"
    assert await large.metric('lazaretto_deposits_total{result="down"}') == 1
    assert (await large.submit(_json(LARGE))).status == 202
    await large.take()

    resource.prlimit(large.program.pid, resource.RLIMIT_FSIZE, before)
    assert (await submit()).status == 202
    assert _read(await _published(large)).attachments[0].reference is not None
    assert (await large.ask("GET", "/readyz")).document["checks"]["attachments"] == "ok"


async def test_an_object_store_that_is_down_or_frozen_is_503_by_the_deadline(
    start: StartDoor, object_store: ObjectStore
) -> None:
    async with Proxy(f"amqp://x:x@127.0.0.1:{object_store.port}/") as line:
        place = object_store.depot(uuid4().hex, port=line.port)
        async with await start(attachments=place, publish_deadline="1s") as door:
            line.freeze()
            ticket = _json(LARGE, id=f"frozen-{uuid4().hex}")
            frozen = await door.submit(ticket)
            assert (frozen.status, frozen.document["reason"]) == (503, "attachments")
            assert (await door.submit()).status == 202  # who has nothing to leave there does not notice
            await door.take()
            line.refusing = True
            line.cut()
            down = await door.submit(ticket)
            assert (down.status, down.document["reason"]) == (503, "attachments")
            assert await door.queued() == 0

            line.refusing = False
            line.release()

            async def accepted() -> bool:
                return bool((await door.submit(ticket)).status == 202)

            await soon(accepted, 30.0, saying="the object store is back")
            item = await _published(door)
            (only,) = _read(item).attachments
            assert only.reference is not None
            depot = open_depot(object_store.depot(place.partition("?")[0].rpartition("/")[2]))
            assert await asyncio.to_thread(fetch, depot, only.reference) == LARGE


async def test_a_door_that_nobody_gave_an_object_store_does_not_load_its_library(large: RunningDoor) -> None:
    assert (await large.submit(_json(LARGE))).status == 202
    maps = Path(f"/proc/{large.program.pid}/maps").read_text()
    assert "orjson" in maps
    assert "obstore" not in maps


async def test_a_door_killed_between_store_and_publish_leaves_no_ticket_and_the_next_try_is_whole(
    start: StartDoor, object_store: ObjectStore
) -> None:
    ticket, prefix = _json(LARGE, id=f"killed-{uuid4().hex}"), uuid4().hex
    depot = open_depot(object_store.depot(prefix))
    async with Proxy(f"amqp://x:x@127.0.0.1:{object_store.port}/") as line:
        place = object_store.depot(prefix, port=line.port)
        async with await start(attachments=place, publish_deadline="4s") as door:
            assert (await door.submit(_json(OTHER))).status == 202  # it has made the place its own
            await door.take()
            (first,) = depot.folders()
            line.hold(TO_CLIENT)  # from here on it is not told what was stored
            sending = asyncio.create_task(door.submit(ticket))
            await soon(lambda: asyncio.to_thread(lambda: len(list(depot.folders())) == 2))
            door.program.kill9()
            with pytest.raises(aiohttp.ClientError):
                await sending
            assert await door.queued() == 0
    (orphan,) = (folder for folder in depot.folders() if folder.name != first.name)

    # The claim of the dead door is still open: a door that shares its store takes it over when its lease is over.
    async with await start(attachments=object_store.depot(prefix), publish_deadline="1s", emptied=False) as another:

        async def accepted() -> bool:
            return bool((await another.submit(ticket)).status == 202)

        await soon(accepted, 90.0, saying="the dead door's lease is over")
        item = await _published(another)
        assert item.admission is not None
        assert item.admission.stored == orphan.name
        assert {folder.name for folder in depot.folders()} == {first.name, orphan.name}
        (only,) = _read(item).attachments
        assert only.reference is not None
        assert await asyncio.to_thread(fetch, depot, only.reference) == LARGE

"""What an edited item is sent with: measured anew, and still the ticket that it was."""

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.contract.ids import TicketId
from gateway.contract.references import folder_of
from gateway.contract.topology import Lane
from gateway.settings import StationSettings, load
from gateway.station import edited_replay
from gateway.station.checks import Checks
from gateway.station.decided import Bar, Barred, Taken, Unknown
from gateway.station.edits import Edit
from gateway.station.replays import Plan
from gateway.station.store import Store
from tests.unit.station.selected import ADMITTED, hold


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


@pytest.fixture
def checks() -> Checks:
    return Checks(load(StationSettings, max_tokens=20))


async def _prepared(
    store: Store, checks: Checks, edit: Edit, *, ticket: str = "t", generation: int | None = None
) -> object:
    return await edited_replay.prepare(store, checks, ticket, edit, lane=Lane.SUSPECTS, generation=generation, limit=7)


async def test_it_is_measured_anew_and_to_the_fence_it_stays_the_same_ticket(store: Store, checks: Checks) -> None:
    await hold(store, "t", content_type="text/plain; charset=utf-8")
    found = await _prepared(store, checks, Edit(text="one two three"))
    assert isinstance(found, Plan)
    assert (found.lane, found.generation, found.limit) == (Lane.SUSPECTS, 0, 7)
    assert found.change is not None
    admission = found.change.admission
    assert (admission.client, admission.bytes) == ("acme", 13)
    assert admission.tokens >= 3
    assert admission.contents == hashlib.sha256(b"hello").hexdigest()


async def test_references_to_the_depot_and_what_the_client_said_stay_as_they_were(store: Store, checks: Checks) -> None:
    folder = folder_of(TicketId("t"), b"x")
    path = f"{folder}/{'a' * 64}"
    reference = {"reference": path, "bytes": 9, "sha256": "a" * 64}
    body = b'{"kind":"k","body":"old","attachments":[{"name":"log","stored":%s}]}'
    await hold(
        store,
        "t",
        content_type="application/json",
        body=body % json.dumps(reference).encode(),
        admission=replace(ADMITTED, stored=folder, contents="c" * 64),
    )
    found = await _prepared(store, checks, Edit(text="new"))
    assert isinstance(found, Plan), found
    assert found.change is not None
    assert (found.change.admission.stored, found.change.admission.contents) == (folder, "c" * 64)
    assert found.change.admission.attachments == 1
    assert path.encode() in found.change.body


async def test_what_the_door_would_refuse_and_what_was_decided_meanwhile_makes_no_plan(
    store: Store, checks: Checks
) -> None:
    await hold(store, "t", content_type="text/plain; charset=utf-8")
    long = await _prepared(store, checks, Edit(text="word " * 100))
    assert isinstance(long, edited_replay.Refused)
    assert [violation.rule for violation in long.fails.violations] == ["too_many_tokens"]
    wrong = await _prepared(store, checks, Edit(subject="s"))
    assert isinstance(wrong, Barred)
    assert wrong.bar is Bar.NOT_EDITABLE
    assert isinstance(await _prepared(store, checks, Edit(text="x"), generation=1), Taken)
    assert isinstance(await _prepared(store, checks, Edit(text="x"), ticket="nobody"), Unknown)

"""The reviewers' verbs where something is in their way: a reader that has left, a broker that is away, a broken row."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.topology import Topology
from gateway.station import arrival as arrivals
from gateway.station import dossier, holding, replays
from gateway.station.decided import Bar, Barred, Decision
from gateway.station.holding import ItemState
from gateway.station.sender import Sender
from gateway.station.store import Store
from gateway.station.tables.items import items
from tests.support.program import ROOT

NOBODY = "amqp://guest:guest@127.0.0.1:1/"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one item, `t`, that is held."""
    asyncio.run(_hold(tmp_path))
    return tmp_path


async def _opened(data: Path) -> Store:
    return await Store.open(f"sqlite+aiosqlite:///{data}/station.db")


async def _hold(data: Path) -> None:
    store = await _opened(data)
    item = Envelope(ticket=TicketId("t"), kind="k", body=b"", content_type="text/plain", reason="rejected")
    async with store.writing() as transaction:
        await holding.take_in(transaction, arrivals.read(envelopes.encode(item)), channels=[], now=1.0)
    await store.close()


async def _change(data: Path, **values: object) -> None:
    store = await _opened(data)
    async with store.writing() as transaction:
        await transaction.execute(sa.update(items).values(**values))
    await store.close()


async def _state(data: Path) -> ItemState:
    store = await _opened(data)
    found = await dossier.find(store, "t")
    await store.close()
    assert found is not None
    return found.items[0].state


def _run(data: Path, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LAZARETTO_")}
    ours = {"PYTHONPATH": str(ROOT), "LAZARETTO_DATA": str(data), "LAZARETTO_BROKER_URL": NOBODY}
    return subprocess.run(
        [sys.executable, "-m", "gateway.station", *arguments],
        env={**inherited, **ours},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_reader_that_has_seen_enough_is_no_error(data: Path) -> None:
    for verb in (["list"], ["show", "t", "--json"]):
        reads, writes = os.pipe()
        os.close(reads)
        done = _run(data, *verb, stdout=writes)
        os.close(writes)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_replay_that_could_not_be_resumed_says_that_it_is_still_in_doubt(data: Path) -> None:
    asyncio.run(_change(data, state=ItemState.REPLAYING.value, decided_by="ana", decided_at=1.0))
    done = _run(data, "replay", "t", "--resume", "--by", "ben", "--reason", "finish it")
    assert done.returncode == 1
    assert "not replayed, the item still shows as replaying: no connection" in done.stderr
    assert asyncio.run(_state(data)) is ItemState.REPLAYING


def test_a_message_that_cannot_be_made_again_leaves_its_item_held(data: Path) -> None:
    async def replay() -> object:
        store = await _opened(data)
        sender = Sender((NOBODY,))
        try:
            return await replays.replay(store, sender, Topology(), "t", Decision(by="ana", reason="fixed"))
        finally:
            await store.close()

    asyncio.run(_change(data, properties=b"\x00\x00\x00\xff broken"))
    outcome = asyncio.run(replay())
    assert isinstance(outcome, Barred)
    assert outcome.bar is Bar.UNREADABLE
    assert "cannot be made again" in outcome.why
    assert asyncio.run(_state(data)) is ItemState.HELD


def test_a_store_that_no_program_can_open_is_a_sentence_and_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "station.db").mkdir()
    done = _run(tmp_path, "list")
    assert done.returncode == 2
    assert done.stderr.startswith("cannot use the store")
    assert "Traceback" not in done.stderr

"""Every item that arrives has a row of its own, whatever ids its producers chose; the same item has one."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest
import sqlalchemy as sa

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.wire import Wire
from gateway.station import arrival as arrivals
from gateway.station import holding
from gateway.station.store import Store
from gateway.station.tables.items import items


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


async def _arrive(store: Store, ticket: str, body: bytes) -> str | None:
    item = Envelope(ticket=TicketId(ticket), kind="k", body=body, content_type="text/plain", reason="rejected")
    return await _take_in(store, envelopes.encode(item))


async def _take_in(store: Store, wire: Wire) -> str | None:
    async with store.writing() as transaction:
        return await holding.take_in(transaction, arrivals.read(wire), channels=["log"], now=1.0)


async def _held(store: Store) -> list[tuple[str, bytes]]:
    async with store.reading() as transaction:
        rows = await transaction.execute(sa.select(items.c.came_as, items.c.body).order_by(items.c.came_as))
        return [(row.came_as, row.body) for row in rows]


async def test_names_that_were_taken_beforehand_keep_nobody_out(store: Store) -> None:
    crafted = f"X~{sha256(b'B').hexdigest()[:16]}"
    sent = [(crafted, b"first"), ("X", b"one"), ("X", b"B"), ("X", b"B"), (crafted, b"B"), (crafted, b"first")]
    names = [await _arrive(store, ticket, body) for ticket, body in sent]
    assert [name is None for name in names] == [False, False, False, True, False, True]
    assert await _held(store) == [("X", b"one"), ("X", b"B"), (crafted, b"first"), (crafted, b"B")]


async def test_an_item_whose_name_is_what_another_one_was_called_is_no_copy_of_it(store: Store) -> None:
    await _arrive(store, "X", b"one")
    called = await _arrive(store, "X", b"B")
    assert called is not None
    assert await _arrive(store, called, b"B") is not None
    assert len(await _held(store)) == 3


async def test_long_ids_that_differ_only_at_their_end_are_kept_apart(store: Store) -> None:
    long = "t" * 127
    for ticket in (long + "1", long + "2"):
        for body in (b"one", b"B"):
            assert await _arrive(store, ticket, body) is not None
            assert await _arrive(store, ticket, body) is None
    assert len(await _held(store)) == 4


async def test_the_same_raw_message_is_one_item_and_another_one_is_a_second(store: Store) -> None:
    await _arrive(store, "X", b"B")
    raw = Wire(body=b"B", headers={"lz-schema": 99}, correlation_id="X")
    names = [await _take_in(store, raw), await _take_in(store, raw)]
    assert names == [f"X~{sha256(b'B').hexdigest()[:16]}~raw", None]

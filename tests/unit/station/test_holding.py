"""Every item that arrives has a row of its own, whatever ids its producers chose; the same item has one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.outcomes import Outcome
from gateway.contract.wire import Wire
from gateway.station import arrival as arrivals
from gateway.station import holding
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from gateway.station.tables.items import items
from gateway.station.tables.tickets import runs, tickets

RUN = RunRecord(attempt=1, outcome=Outcome.FAILED, node="n", worker=1, started=1.0, seconds=1.0, code="E")


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


async def _take_in_at_once(store: Store, wires: Sequence[Wire]) -> tuple[list[str], list[str | None]]:
    """Take a batch in as the keeper does; return the names of those that were new, and of the others."""
    async with store.writing() as transaction:
        found = [arrivals.read(wire) for wire in wires]
        stored, others = await holding.take_in_new(transaction, found, channels=["log"], now=1.0)
        names = [await holding.take_in(transaction, other, channels=["log"], now=1.0) for other in others]
    return [one.ticket for one in stored], names


def _item(ticket: str, body: bytes = b"b", **changes: Any) -> Wire:
    item = {"ticket": TicketId(ticket), "kind": "k", "body": body, "content_type": "text/plain", "reason": "rejected"}
    return envelopes.encode(Envelope(**{**item, **changes}))


async def _everything(store: Store) -> dict[str, list[Any]]:
    async with store.reading() as transaction:
        found = {}
        for table in (items, tickets, runs, alerts):
            rows = (await transaction.execute(sa.select(table))).mappings()
            found[table.name] = sorted(str({k: v for k, v in row.items() if k != "id"}) for row in rows)
        return found


_BATCHES = st.lists(
    st.builds(
        _item,
        st.sampled_from("abcd"),
        st.sampled_from([b"1", b"2"]),
        generation=st.integers(0, 1),
        history=st.sampled_from([History(), History((RUN,))]),
    ),
    min_size=1,
    max_size=6,
)


@given(batches=st.lists(_BATCHES, min_size=1, max_size=3))
@settings(max_examples=25)
def test_a_batch_that_is_taken_in_at_once_is_what_each_by_itself_would_be(batches: list[list[Wire]]) -> None:
    async def compare() -> None:
        with TemporaryDirectory() as folder:
            together = await Store.open(f"sqlite+aiosqlite:///{folder}/together.db")
            one_by_one = await Store.open(f"sqlite+aiosqlite:///{folder}/one.db")
            for batch in batches:
                taken = [arrivals.read(wire) for wire in batch]
                stored, names = await _take_in_at_once(together, batch)
                for wire in sorted(batch, key=lambda one: arrivals.read(one).ticket not in stored):
                    await _take_in(one_by_one, wire)
                assert len(stored) + len(names) == len(taken)
            assert await _everything(together) == await _everything(one_by_one)
            for store in (together, one_by_one):
                await store.close()

    asyncio.run(compare())


async def test_a_batch_is_known_again_on_both_stores(store_url: str) -> None:
    store = await Store.open(store_url)
    batch = [_item("a"), _item("b"), _item("b", b"other"), _item("c")]
    stored, others = await _take_in_at_once(store, batch)
    assert (stored, others) == (["a", "c"], ["b", f"b~{sha256(b'other').hexdigest()[:16]}"])
    assert await _take_in_at_once(store, batch) == ([], [None] * 4)
    assert len(await _held(store)) == 4
    await store.close()


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

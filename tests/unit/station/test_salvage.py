"""What no store takes is known for the message's fault, in both stores, so that it cannot stop the keeper (P19)."""

import random
import string
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.station import arrival as arrivals
from gateway.station import holding
from gateway.station.salvage import is_of_the_message
from gateway.station.store import Store
from gateway.station.tables.items import items, spooled

LONG = "".join(random.Random(9417).choices(string.ascii_letters + string.digits, k=20_000))
"""Nothing packs it into an index of PostgreSQL."""
FINE = {"path": "p", "at": 1.0, "source": "s", "error": "e"}


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _error(store: Store, rows: Sequence[dict[str, Any]]) -> Exception | None:
    try:
        async with store.writing() as transaction:
            await transaction.execute(sa.insert(spooled), rows)
    except Exception as error:  # noqa: BLE001 - which one it is, is the question
        return error
    return None


@pytest.mark.parametrize(
    "row",
    [{"error": "NUL \0"}, {"error": "lone \ud800"}, {"error": {"a": "table"}}, {"path": LONG}],
    ids=["nul", "surrogate", "no text", "long"],
)
async def test_a_value_that_a_store_refuses_is_the_messages_fault(store: Store, row: dict[str, Any]) -> None:
    error = await _error(store, [FINE | row])
    # SQLite takes what is NUL or long.
    assert error is not None or store.dialect == "sqlite"
    assert error is None or is_of_the_message(error)


async def test_a_row_that_is_there_is_the_messages_fault_and_a_table_that_cannot_be_read_is_not(store: Store) -> None:
    twice = await _error(store, [FINE, FINE])
    assert twice is not None
    assert is_of_the_message(twice)
    assert not is_of_the_message(sa.exc.OperationalError("INSERT", {}, OSError("disk full")))


@pytest.mark.parametrize("odd", [{}, {"lz-schema": 99, "lz-raw-headers": "{}"}], ids=["envelope", "raw"])
async def test_an_item_with_a_reason_without_end_is_held(store: Store, odd: dict[str, Any]) -> None:
    item = Envelope(ticket=TicketId("t"), kind="k", body=b"", content_type="text/plain", reason="r")
    wire = envelopes.encode(item)
    wire = replace(wire, headers={**wire.headers, **odd, "lz-reason": LONG})
    async with store.writing() as transaction:
        assert await holding.take_in(transaction, arrivals.read(wire), channels=["log"], now=1.0)
    async with store.reading() as transaction:
        row = (await transaction.execute(sa.select(items))).one()
    assert LONG.startswith(row.reason.rstrip("…")[:100])
    assert len(row.reason) <= 128
    assert row.malformed == bool(odd)

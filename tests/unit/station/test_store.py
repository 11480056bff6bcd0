"""The store: made by whoever comes first, and read where it cannot be written."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import revisions, storable
from gateway.station.store import Store
from gateway.station.tables.items import spooled

_SPOOLED = {"path": "p", "at": 1.0, "source": "q", "error": "e"}


def _url(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder}/deep/er/station.db"


async def test_several_may_open_it_first_at_the_same_time(store_url: str) -> None:
    opened = await asyncio.gather(*(Store.open(store_url) for _ in range(5)))
    assert await opened[0].found() == revisions.Found(revision=revisions.HEAD, counted=None)
    for store in opened:
        await store.close()


async def test_an_unknown_ticket_has_no_status(tmp_path: Path) -> None:
    store = await Store.open(_url(tmp_path))
    assert await store.ticket_status("nobody") is None
    await store.close()


async def test_a_locked_store_is_opened_and_read_and_known_to_take_no_write(tmp_path: Path) -> None:
    await (await Store.open(_url(tmp_path))).close()
    other = sqlite3.connect(tmp_path / "deep/er/station.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = await Store.open(_url(tmp_path))
    assert await store.ticket_status("nobody") is None
    assert not await store.writable(patience=0.01)
    other.execute("ROLLBACK")
    other.close()
    assert await store.writable(patience=0.01)
    await store.close()


@pytest.fixture
def stranger() -> Iterator[Path]:
    """A folder that whoever runs this test may read and not write, even the superuser."""
    superuser = os.geteuid() == 0
    with TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(_make(folder))
        (folder / "station.db").chmod(0o444)
        folder.chmod(0o555)
        if superuser:
            os.seteuid(65534)
        yield folder
        if superuser:
            os.seteuid(0)
        folder.chmod(0o755)


async def _make(folder: Path) -> None:
    await (await Store.open(f"sqlite+aiosqlite:///{folder}/station.db")).close()


def test_a_store_that_may_only_be_read_is_read(stranger: Path) -> None:
    async def read() -> tuple[object, bool]:
        store = await Store.open(f"sqlite+aiosqlite:///{stranger}/station.db")
        try:
            return await store.ticket_status("nobody"), await store.writable(patience=0.01)
        finally:
            await store.close()

    assert asyncio.run(read()) == (None, False)


async def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = await Store.open(_url(tmp_path))

    async def fail_halfway() -> None:
        async with store.writing() as transaction:
            await transaction.execute(sa.insert(spooled).values(path="p", at=1.0, source="s", error="e"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_halfway()
    async with store.reading() as transaction:
        assert (await transaction.scalars(sa.select(spooled.c.path))).all() == []
    await store.close()


async def test_a_transaction_that_reads_sees_one_moment(store_url: str) -> None:
    store = await Store.open(store_url)
    number = sa.select(sa.func.count()).select_from(spooled)
    async with store.reading() as transaction:
        assert await transaction.scalar(number) == 0
        async with store.writing() as other:
            await other.execute(sa.insert(spooled), [_SPOOLED])
        assert await transaction.scalar(number) == 0
    async with store.reading() as transaction:
        assert await transaction.scalar(number) == 1
    await store.close()


async def test_what_is_written_is_done_again_as_a_whole_where_two_waited_for_each_other(store_url: str) -> None:
    store = await Store.open(store_url)
    names = ("a", "b")
    async with store.writing() as transaction:
        await transaction.execute(sa.insert(spooled), [{**_SPOOLED, "path": name} for name in names])
    has_first, done = asyncio.Event(), []

    async def touch(transaction: AsyncConnection, name: str) -> None:
        await transaction.execute(sa.update(spooled).filter_by(path=name).values(at=spooled.c.at + 1))

    async def in_order(transaction: AsyncConnection) -> str:
        if store.dialect == "postgresql":  # whoever has waited so long looks for the knot, and gives way
            await transaction.execute(sa.text("SET LOCAL deadlock_timeout = '3s'"))
        for name in names:
            await touch(transaction, name)
            done.append(name)
            has_first.set()
        return "done"

    async with store.writing() as other:
        if store.dialect == "postgresql":
            await other.execute(sa.text("SET LOCAL deadlock_timeout = '60s'"))
        await touch(other, "b")
        writing = asyncio.create_task(store.write(in_order))
        if store.dialect == "postgresql":
            await has_first.wait()
            await touch(other, "a")
    assert await writing == "done"
    assert done == (["a", "a", "b"] if store.dialect == "postgresql" else ["a", "b"])
    others = {"a", "b"} if store.dialect == "postgresql" else {"b"}
    async with store.reading() as transaction:
        rows = (await transaction.execute(sa.select(spooled.c.path, spooled.c.at))).all()
    assert {row.path: row.at for row in rows} == {name: 2.0 + (name in others) for name in names}
    await store.close()


async def test_commits_are_on_the_disk_before_they_return(tmp_path: Path) -> None:
    store = await Store.open(_url(tmp_path))
    async with store.reading() as transaction:
        assert await transaction.scalar(sa.text("PRAGMA journal_mode")) == "wal"
        assert await transaction.scalar(sa.text("PRAGMA synchronous")) == 2
    assert await store.writable()
    await store.close()


@pytest.mark.parametrize(
    "value", ["a\x00b", "lone \ud83d", {"k\x00": ["\udcff", 2**70, float("inf"), b"\x00", object]}]
)
def test_a_document_holds_whatever_it_is_given(value: object) -> None:
    text = storable.document(value)
    assert "\x00" not in text
    assert "\\u0000" not in text
    assert storable.parsed(text) is not None


def test_a_document_ends_at_a_depth_that_every_reader_can_follow() -> None:
    value: list[object] = []
    for _ in range(1000):
        value = [value]
    text = storable.document(value)
    assert text.count("[") == storable.MAX_DEPTH + 1
    assert "deeper" in text

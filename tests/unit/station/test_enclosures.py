"""The desk lists what an item brought along and hands it over as bytes to save, whatever its name (G13, D39, D45)."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gateway.admission import Limits
from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.preflight.ticket import Submission, parse_ticket
from gateway.settings import StationSettings, load
from gateway.station import arrival as arrivals
from gateway.station import dossier, holding, successor
from gateway.station.amqp import thaw
from gateway.station.desk import routes
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.vitals import Vitals

SCRIPT = b"<script>alert(1)</script>"
BODY = (
    b'--b\r\nContent-Disposition: form-data; name="body"\r\n\r\nhello\r\n'
    b'--b\r\nContent-Disposition: form-data; name="f"; filename="../<img src=x>\xc3\xbc.html"\r\n'
    b"Content-Type: text/html\r\n\r\n" + SCRIPT + b"\r\n"
    b"--b\r\nContent-Disposition: form-data; name=\"g\"; filename*=UTF-8''%D0%B6.pdf\r\n"
    b"Content-Type: application/pdf\r\n\r\n\x89PNG\r\n\x1a\n\r\n--b--\r\n"
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


@pytest.fixture
async def desk(store: Store) -> AsyncIterator[TestClient[Any, Any]]:
    application = routes.application(load(StationSettings), store, Vitals())
    async with TestClient(TestServer(application)) as client:
        yield client


async def _hold(store: Store, body: bytes, encoding: str | None = None) -> None:
    item = Envelope(
        ticket=TicketId("t"),
        kind="k",
        body=body,
        content_type="multipart/form-data; boundary=b",
        content_encoding=encoding,
        reason="rejected",
    )
    async with store.writing() as transaction:
        await holding.take_in(transaction, arrivals.read(envelopes.encode(item)), channels=[], now=1.0)


@pytest.mark.parametrize("encoding", [None, "gzip"])
async def test_attachments_are_listed_as_text_and_downloaded_as_bytes(
    store: Store, desk: TestClient[Any, Any], encoding: str | None
) -> None:
    await _hold(store, gzip.compress(BODY) if encoding else BODY, encoding)
    async with desk.get("/items/t") as page:
        text = await page.text()
    assert page.status == 200, text
    assert "&lt;img src=x&gt;ü.html" in text
    assert "<img src=x" not in text
    assert "ж.pdf" in text
    assert "begins like image/png" in text

    async with desk.get("/items/t/0/attachments/0") as answer:
        assert await answer.read() == SCRIPT
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Disposition"] == ("attachment; filename*=UTF-8''%3Cimg%20src%3Dx%3E%C3%BC.html")


@pytest.mark.parametrize("path", ["/items/t/0/attachments/2", "/items/t/1/attachments/0", "/items/x/0/attachments/0"])
async def test_what_is_not_there_is_not_found(store: Store, desk: TestClient[Any, Any], path: str) -> None:
    await _hold(store, BODY)
    async with desk.get(path) as answer:
        assert answer.status == 404


async def test_an_item_that_is_no_ticket_has_a_page_and_no_attachments(
    store: Store, desk: TestClient[Any, Any]
) -> None:
    await _hold(store, b"\xff\x00 not multipart")
    async with desk.get("/items/t") as page:
        assert page.status == 200
        assert "Attachments" not in await page.text()


async def test_a_name_is_replayed_as_it_came(store: Store) -> None:
    await _hold(store, BODY)
    async with store.reading() as transaction:
        row = (await transaction.execute(items.select())).one()
    assert thaw(row.properties, row.body).body == BODY
    again = successor.next_generation(row)
    content = await dossier.find_content(store, "t", 0)
    assert (again.body, again.content_type) == (BODY, content.content_type)
    ticket = parse_ticket(Submission(body=again.body, content_type=again.content_type, kind="k"), Limits()).ticket
    assert ticket is not None
    assert [attachment.name for attachment in ticket.attachments] == ["<img src=x>ü.html", "ж.pdf"]

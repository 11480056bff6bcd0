"""An item is handed over to people outside once, with what they need, until somebody there has it and it is decided."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway import answers
from gateway.alert_settings import AlertSettings
from gateway.callback import Callback
from gateway.contract.envelope import Envelope
from gateway.station import escalations, figures
from gateway.station.channels import Channel
from gateway.station.dossier import find
from gateway.station.escalation_channels import EscalationMail, EscalationWebhook
from gateway.station.escalation_state import EscalationState
from gateway.station.escalations import ESCALATION, Escalation, NotOpen
from gateway.station.outbox import Outbox
from gateway.station.store import Store
from tests.integration.station.conftest import Producers, Station
from tests.integration.station.receiver import Call, Receiver
from tests.support.mail_server import Mailbox
from tests.support.waiting import soon
from tests.unit.station.hearing import RATE
from tests.unit.station.items import discard, take_in

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as box:
        yield box


@asynccontextmanager
async def handing_over(store: Store, channel: Channel) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(Outbox(store=store, channels=[channel], desk="http://desk", rate=RATE).run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


def _webhook(url: str) -> EscalationWebhook:
    return EscalationWebhook([Callback.read({"url": url, "secret": SECRET})], private=True)


def _mail(mailbox: Mailbox) -> EscalationMail:
    settings = AlertSettings(smtp_url=mailbox.url)
    assert settings.mail_server is not None
    return EscalationMail(settings.mail_server, sender="lazaretto@here", to=["help@desk", "chief@desk"])


async def _state(store: Store, ticket: str) -> EscalationState:
    (one,) = await escalations.find(store, ticket)
    return one.state


async def _as_client(store: Store, ticket: str) -> Any:
    status = await store.ticket_status(ticket)
    assert status is not None
    seen = answers.status(status)
    if status.state == "quarantined":
        assert seen["message"] == "A person is looking at it."
    return seen["escalation"]


async def test_a_webhook_gets_an_item_once_and_its_answer_is_the_reference_that_the_client_sees(store: Store) -> None:
    replies = [web.Response(status=503), web.json_response({"reference": "CASE-17"})]

    async def reply(_: Call) -> web.Response:
        return replies.pop(0) if replies else web.Response(status=204)

    await take_in(store, [ESCALATION], "9417")
    assert await _as_client(store, "9417") == {"state": "owed", "reference": None}
    async with Receiver(reply) as receiver, handing_over(store, _webhook(receiver.url)):
        await soon(lambda: _is(store, "9417", EscalationState.ACKNOWLEDGED), 30)
        assert await _as_client(store, "9417") == {"state": "acknowledged", "reference": "CASE-17"}
        assert (await figures.count(store)).escalations_open == 1
        await discard(store, "9417")
        await soon(lambda: len(receiver.calls) == 3, 30)

    first, opened, closed = receiver.calls
    assert first.id == opened.id != closed.id
    assert opened.is_signed_with(SECRET)
    assert opened.event["type"] == "lazaretto.escalation.opened"
    assert opened.event["subject"] == "9417"
    told = {name: opened.event["data"][name] for name in ("ticket", "kind", "client", "reason", "link")}
    assert told == {
        "ticket": "9417",
        "kind": "support.ticket",
        "client": "acme",
        "reason": "rejected",
        "link": "http://desk/items/9417",
    }
    assert closed.event["type"] == "lazaretto.escalation.closed"
    assert (closed.event["data"]["decision"], closed.event["data"]["by"]) == ("discarded", "ana")
    assert await _as_client(store, "9417") == {"state": "closed", "reference": "CASE-17"}
    assert (await figures.count(store)).escalations_open == 0


@pytest.mark.parametrize(
    "said",
    [b"", b"thanks", b"[]", b'{"reference": 7}', b'{"reference": " "}', b"\xff" * 9000],
    ids=["nothing", "words", "list", "number", "blank", "noise"],
)
async def test_an_answer_without_a_reference_is_taken_all_the_same(tmp_path: Path, said: bytes) -> None:
    async def reply(_: Call) -> web.Response:
        return web.Response(body=said)

    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    await take_in(store, [ESCALATION], "1")
    async with Receiver(reply) as receiver, handing_over(store, _webhook(receiver.url)):
        await soon(lambda: _is(store, "1", EscalationState.SENT), 30)
    assert len(receiver.calls) == 1
    await store.close()


async def test_mail_names_what_a_person_needs_and_the_decision_follows_in_its_thread(
    store: Store, mailbox: Mailbox
) -> None:
    await take_in(store, [ESCALATION], "9417")
    mailbox.refuses = "451 later"
    async with handing_over(store, _mail(mailbox)):
        await soon(lambda: mailbox.asked, 30)
        mailbox.refuses = None
        await soon(lambda: _is(store, "9417", EscalationState.SENT), 30)
        await discard(store, "9417")
        await soon(lambda: len(mailbox.letters) == 2, 30)

    opened, closed = mailbox.letters
    text = opened.get_content()
    assert opened["To"] == "help@desk, chief@desk"
    assert opened["Subject"] == "Quarantine: ticket 9417 after 0 attempts"
    for part in ("9417", "support.ticket", "acme", "rejected", "http://desk/items/9417", "escalations ack 9417"):
        assert part in text
    assert closed["In-Reply-To"] == opened["Message-ID"] != closed["Message-ID"]
    assert "discarded by ana, because: spam" in closed.get_content()


async def test_what_is_decided_before_anybody_outside_heard_of_it_is_never_handed_over(
    store: Store, mailbox: Mailbox
) -> None:
    await take_in(store, [ESCALATION], "decided", "waiting")
    await discard(store, "decided")
    async with handing_over(store, _mail(mailbox)):
        await soon(lambda: _is(store, "waiting", EscalationState.SENT), 30)
        await soon(lambda: _nothing_is_owed(store, "decided"), 30)
    assert ["waiting" in str(letter["Subject"]) for letter in mailbox.letters] == [True]
    assert await _state(store, "decided") is EscalationState.CLOSED


async def test_a_person_acknowledges_with_a_reference_once_there_is_something_to_acknowledge(store: Store) -> None:
    await take_in(store, [ESCALATION], "1")
    await take_in(store, [], "2")
    known = await escalations.acknowledge(store, "1", reference=" CASE-1 ", by="ana")
    assert isinstance(known, Escalation)
    assert (known.state, known.reference, known.acknowledged_by) == (EscalationState.ACKNOWLEDGED, "CASE-1", "ana")
    assert [one.ticket for one in await escalations.find_open(store)] == ["1"]
    await discard(store, "1")
    for ticket in ("1", "2", "nobody's"):
        assert isinstance(await escalations.acknowledge(store, ticket, reference="X", by="ana"), NotOpen)
    assert await escalations.find_open(store) == []


async def test_a_station_killed_while_it_hands_over_does_it_again_under_the_same_id_and_keeps_the_reference(
    own_station: Station, producers: Producers, killer: Callable[..., Envelope], ticket: str
) -> None:
    async def kill(_: Call) -> web.Response:
        if len(own_station.running) == 1:
            await asyncio.to_thread(own_station.program.kill9)
        return web.json_response({"reference": "CASE-9"})

    async with Receiver(kill) as receiver:
        own_station.extra |= {
            "LAZARETTO_ESCALATION_URL": receiver.url,
            "LAZARETTO_ESCALATION_SECRET": SECRET,
            "LAZARETTO_ESCALATION_PRIVATE": "on",
        }
        await asyncio.to_thread(own_station.start)
        await producers.item(killer())
        await soon(lambda: own_station.program.exit_code is not None, 30)
        await asyncio.to_thread(own_station.start)
        await soon(lambda: _reference_of(own_station, ticket) == "CASE-9", 30)
        listed = await asyncio.to_thread(own_station.run, "escalations", "list", "--json")
        acknowledged = await asyncio.to_thread(
            own_station.run, "escalations", "ack", ticket, "--reference", "CASE-10", "--by", "ana"
        )
        shown = await asyncio.to_thread(own_station.show, ticket)
        async with aiohttp.ClientSession() as http, http.get(f"{own_station.url}/metrics") as answer:
            metrics = await answer.text()

    first, second = receiver.calls
    assert first.id == second.id
    assert [one["reference"] for one in json.loads(listed.stdout)] == ["CASE-9"]
    assert acknowledged.returncode == 0, acknowledged.stderr
    assert "acknowledged by ana" in acknowledged.stdout
    assert [one["reference"] for one in shown["escalations"]] == ["CASE-10"]
    assert [act["act"] for act in shown["audit"]] == ["escalation acknowledged"]
    assert "lazaretto_escalations_open 1.0" in metrics
    assert 'lazaretto_alerts_total{channel="escalation",result="sent"} 1.0' in metrics


async def _is(store: Store, ticket: str, state: EscalationState) -> bool:
    return await _state(store, ticket) is state


async def _nothing_is_owed(store: Store, ticket: str) -> bool:
    found = await find(store, ticket)
    assert found is not None
    return all(alert.sent_at for alert in found.alerts)


def _reference_of(station: Station, ticket: str) -> str | None:
    with sqlite3.connect(station.data / "station.db") as store:
        row = store.execute("SELECT reference FROM escalations WHERE ticket = ?", [ticket]).fetchone()
    return None if row is None else row[0]

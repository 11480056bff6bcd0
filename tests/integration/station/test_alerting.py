"""Alerts about real items, heard where people and machines would hear them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aio_pika
from aiohttp import web

from gateway.contract.envelope import Envelope
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from gateway.embedded import EmbeddedBroker
from tests.integration.station.conftest import Producers, Station
from tests.support.waiting import PATIENCE

Killer = Callable[..., Envelope]


async def test_the_log_line_names_ticket_attempts_reason_evidence_and_link(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    await producers.item(killer())
    await station.settled(ticket)

    line = station.program.wait_for_log(rf"warning .*item\.quarantined ticket={ticket} .*").group()

    assert f"ticket={ticket} kind=support.ticket generation=0 attempts=3 reason=crashes_exhausted" in line
    assert 'evidence="memory, its worker went over its ceiling, signal:9, after 1.5 s, on node-3"' in line
    assert f"link={station.url}/items/{ticket}" in line


async def test_an_alert_quotes_what_the_journal_knows_of_the_last_run(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    evidence = {"signal": 9, "peak_rss": 300 << 20, "progress": "comparing line 812"}
    await producers.events(
        Event(
            event=EventName.FINISHED,
            at=3001.5,
            ticket=ticket,
            kind="support.ticket",
            node="node-3",
            stamp=Stamp(generation=0, attempt=3, interruptions=0),
            data={"outcome": "memory", "verdict": "quarantine", "seconds": 1.5, "evidence": evidence},
        )
    )
    await producers.item(killer())

    text = (await station.settled(ticket))["alerts"][0]["text"]

    assert f"Ticket {ticket} (support.ticket) is in quarantine after 3 attempts: crashes_exhausted" in text
    assert "signal 9 (SIGKILL), peak memory 300 MiB" in text
    assert "last words: 'comparing line 812'" in text


async def test_whoever_binds_the_alert_exchange_hears_of_item_and_decision(
    station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        mine = await channel.declare_queue(exclusive=True)
        await mine.bind(producers.topology.alerts_exchange, "item.*")
        await producers.item(killer())
        async with asyncio.timeout(PATIENCE), mine.iterator(no_ack=True) as messages:
            first = await anext(messages)
            done = await asyncio.to_thread(station.run, "discard", ticket, "--by", "ana", "--reason", "spam")
            assert done.returncode == 0, done.stderr
            second = await anext(messages)

    opened, closed = json.loads(first.body), json.loads(second.body)

    assert (first.routing_key, second.routing_key) == ("item.quarantined", "item.resolved")
    assert (opened["ticket"], opened["attempts"], opened["reason"]) == (ticket, 3, "crashes_exhausted")
    assert (closed["ticket"], closed["decision"], closed["by"], closed["because"]) == (
        ticket,
        "discarded",
        "ana",
        "spam",
    )


async def test_an_alert_that_an_apprise_url_refused_is_sent_again_and_told_once_more_on_no_other_channel(
    own_station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    async with _hook(answers=[500, 200]) as (port, posted):
        own_station.extra["LAZARETTO_ALERT_URLS"] = f"json://127.0.0.1:{port}/hook"
        program = await asyncio.to_thread(own_station.start)
        await producers.item(killer())
        await own_station.settled(ticket)

    assert f"Ticket {ticket} (support.ticket)" in posted[1]["message"]
    assert "crashes_exhausted" in posted[1]["message"]
    assert [told["message"] for told in posted] == [posted[1]["message"]] * 2
    assert program.log.count("item.quarantined") == 1


@asynccontextmanager
async def _hook(answers: list[int]) -> AsyncIterator[tuple[int, list[dict[str, str]]]]:
    """A service that answers each post with the next of `answers`, and with the last one from then on."""
    posted: list[dict[str, str]] = []

    async def receive(request: web.Request) -> web.Response:
        posted.append(await request.json())
        return web.Response(status=answers[min(len(posted), len(answers)) - 1])

    app = web.Application()
    app.router.add_post("/hook", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1], posted
    finally:
        await runner.cleanup()

"""A station that serves finds out by itself that queue, store and journal disagree, and says so everywhere."""

import asyncio
import json

from aiohttp import ClientSession

from gateway.contract.journal import Event, EventName
from tests.integration.station.conftest import Producers, Station
from tests.support.waiting import soon


async def test_an_item_that_only_the_journal_knows_is_alerted_counted_and_shown(
    own_station: Station, producers: Producers, http: ClientSession, ticket: str
) -> None:
    own_station.extra |= {"LAZARETTO_RECONCILE_EVERY": "500ms", "LAZARETTO_RECONCILE_PATIENCE": "0"}
    program = await asyncio.to_thread(own_station.start)
    agreed = await asyncio.to_thread(own_station.run, "reconcile")
    assert (agreed.returncode, agreed.stdout) == (0, "queue, store and journal agree\n")

    lost = Event(event=EventName.QUARANTINED, at=1.0, ticket=ticket, kind="k", node="n", data={"reason": "rejected"})
    await producers.events(lost)
    await soon(lambda: "lazaretto.alerts: reconcile.mismatch mismatch=missing_item count=1" in program.log, within=30)

    async with http.get(f"{own_station.url}/metrics") as answer:
        assert 'lazaretto_reconcile_mismatch{what="missing_item"} 1.0' in await answer.text()
    async with http.get(own_station.url, headers={"Accept": "text/html"}) as answer:
        page = await answer.text()
    assert "Queue, store and journal disagree" in page
    assert f'href="/items/{ticket}"' in page
    told = await asyncio.to_thread(own_station.run, "reconcile", "--json")
    assert told.returncode == 1
    document = json.loads(told.stdout)
    assert [(finding["mismatch"], finding["tickets"]) for finding in document["findings"]] == [
        ("missing_item", [ticket])
    ]
    assert document["depths"] == {"quarantine": 0, "journal": 0, "on_their_way": 0}


async def test_without_a_broker_only_the_store_is_judged_and_that_is_said(own_station: Station) -> None:
    own_station.broker_url = "amqp://guest:guest@127.0.0.1:1/"
    told = await asyncio.to_thread(own_station.run, "reconcile")
    assert told.returncode == 0
    assert "the broker does not answer" in told.stdout

"""Every way that alerts take, from the settings on: tried by `alerts test`, and while the station is killed."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aio_pika
from aiohttp import web

from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.embedded import EmbeddedBroker, free_port
from tests.integration.station.conftest import Producers, Station
from tests.support.alertmanager import RealAlertmanager
from tests.support.mail_server import Mailbox
from tests.support.waiting import soon
from tests.unit.station.test_early_warnings import death, storm

Killer = Callable[..., Envelope]


@asynccontextmanager
async def hook(answer: Callable[[], None] = lambda: None) -> AsyncIterator[tuple[str, list[dict[str, str]]]]:
    """A service behind an Apprise URL, which keeps what it is posted."""
    posted: list[dict[str, str]] = []

    async def receive(request: web.Request) -> web.Response:
        posted.append(await request.json())
        await asyncio.to_thread(answer)
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", receive)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"json://127.0.0.1:{runner.addresses[0][1]}/hook", posted
    finally:
        await runner.cleanup()


async def test_a_test_message_goes_every_way_and_says_which_worked(
    own_station: Station, alertmanager: RealAlertmanager, broker: EmbeddedBroker, producers: Producers
) -> None:
    await asyncio.to_thread(own_station.start)
    with Mailbox() as mailbox:
        async with hook() as (url, posted), await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            mine = await channel.declare_queue(exclusive=True)
            await mine.bind(producers.topology.alerts_exchange, "alerts.test")
            own_station.extra |= {
                "LAZARETTO_ALERT_URLS": url,
                "LAZARETTO_ALERTMANAGER_URL": alertmanager.url,
                "LAZARETTO_ESCALATION_MAIL": "help@desk",
                "LAZARETTO_SMTP_URL": mailbox.url,
            }
            good = await asyncio.to_thread(own_station.run, "alerts", "test", "--by", "ana", "--escalation", "--json")
            heard = await mine.get(timeout=20, no_ack=True)
            own_station.extra["LAZARETTO_ALERT_URLS"] = f"json://127.0.0.1:{free_port()}/gone"
            bad = await asyncio.to_thread(own_station.run, "alerts", "test")

        assert good.returncode == 0, good.stdout + good.stderr
        told = json.loads(good.stdout)
        assert {name.partition(":")[0] for name in told} == {"log", "exchange", "apprise", "alertmanager", "escalation"}
        assert all(way["sent"] for way in told.values())
        assert "This is a test by ana" in posted[0]["message"]
        assert "This is a test by ana" in json.loads(heard.body)["text"]
        assert "LazarettoTest" in {alert["labels"]["alertname"] for alert in alertmanager.firing().values()}
        assert [str(letter["Subject"]) for letter in mailbox.letters] == ["Test: this is no alert"]
    assert bad.returncode == 1
    assert "FAILED: the service did not take it" in bad.stdout
    assert bad.stdout.count("sent") == 3


async def test_early_warnings_reach_people_who_read_no_exchange(
    own_station: Station, producers: Producers, alertmanager: RealAlertmanager
) -> None:
    async with hook() as (url, posted):
        own_station.extra |= {"LAZARETTO_ALERT_URLS": url, "LAZARETTO_ALERTMANAGER_URL": alertmanager.url}
        await asyncio.to_thread(own_station.start)
        await producers.events(death(), storm("tripped"))
        await soon(lambda: len(posted) == 2, 30)
        await soon(lambda: asyncio.to_thread(lambda: len(alertmanager.firing()) == 2), 30)
        await producers.events(storm("lifted"))
        await soon(lambda: len(posted) == 3, 30)
        await soon(lambda: asyncio.to_thread(lambda: len(alertmanager.firing()) == 1), 30)

    by_subject = {post["title"].partition(":")[0]: post["message"] for post in posted}
    assert by_subject.keys() == {"Suspect", "Storm", "Storm over"}
    assert "Ticket 9417 (support.ticket) has killed 2 workers" in by_subject["Suspect"]
    assert f"{own_station.url}/items/9417" in by_subject["Suspect"]
    assert "shop:handle@1" in by_subject["Storm"]
    assert "may run again" in by_subject["Storm over"]


async def test_a_station_killed_at_random_moments_of_its_alerting_tells_of_every_item_and_holds_each_once(
    own_station: Station, producers: Producers, killer: Killer, alertmanager: RealAlertmanager
) -> None:
    chance = random.Random(9417)
    names, is_over = [f"k-{number}" for number in range(8)], False

    def kill() -> None:
        if not is_over and chance.random() < 0.5 and len(own_station.running) <= 4:
            own_station.program.kill9()

    async with hook(kill) as (url, posted):
        own_station.extra |= {
            "LAZARETTO_ALERT_URLS": url,
            "LAZARETTO_ALERT_RATE": "1000",
            "LAZARETTO_ALERTMANAGER_URL": alertmanager.url,
        }
        await asyncio.to_thread(own_station.start)
        for name in names:
            await producers.item(killer(ticket=TicketId(name)))

        async def all_told() -> bool:
            if own_station.program.exit_code is not None:
                await asyncio.to_thread(own_station.start)
            fires = set(await asyncio.to_thread(alertmanager.firing))
            told = {name for name in names if any(f"Ticket {name} " in post["message"] for post in posted)}
            return told == set(names) and fires == {f"lazaretto:{name}:0" for name in names}

        await soon(all_told, 120)
        is_over = True
        if own_station.program.exit_code is not None:
            await asyncio.to_thread(own_station.start)
        for name in names:
            found = await own_station.settled(name, within=30)
            assert len(found["items"]) == 1
    assert len(own_station.running) > 1
    # Told again is what was under way when the station was killed, and nothing else.
    assert len(posted) <= len(names) + len(own_station.running)


async def test_a_burst_is_few_messages_and_every_item_is_on_the_desk(
    own_station: Station, producers: Producers, killer: Killer
) -> None:
    names = [f"b-{number}" for number in range(60)]
    async with hook() as (url, posted):
        own_station.extra |= {
            "LAZARETTO_ALERT_URLS": url,
            "LAZARETTO_ALERT_RATE": "3",
            "LAZARETTO_ALERT_SPAN": "2s",
        }
        program = await asyncio.to_thread(own_station.start)
        for name in names:
            await producers.item(killer(ticket=TicketId(name)))
        await own_station.settled(names[-1], within=60)
        await soon(lambda: program.log.count("item.quarantined") == len(names), 60)
        listed = {item["ticket"] for item in await own_station.listed()}

    assert listed == set(names)
    assert len(posted) < 30
    rolled = [post for post in posted if post["title"].startswith("Many alerts at once")]
    assert rolled
    assert f"All of them are on the desk: {own_station.url}/" in rolled[0]["message"]

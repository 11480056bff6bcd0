"""What a reviewer's browser gets: everything hostile as text, nothing that runs, nothing for strangers."""

import html
import re
from collections.abc import Callable

import aiohttp
import pytest
from yarl import URL

from gateway.contract.envelope import Envelope
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from tests.integration.station.conftest import Producers, Station

Killer = Callable[..., Envelope]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\x9b2J\x00\x7f\u202e\u2066\u200b\U000e0041"
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\U000e0000-\U000e007f]")


@pytest.fixture
async def page(station: Station, producers: Producers, killer: Killer, http: aiohttp.ClientSession, ticket: str) -> str:
    """The page of an item whose every text is hostile."""
    await producers.events(
        Event(
            event=EventName.FINISHED,
            at=1.0,
            ticket=ticket,
            kind="support.ticket",
            node=f"node-3 {HOSTILE}",
            stamp=Stamp(generation=0, attempt=3, interruptions=0),
            data={
                "outcome": "failed",
                "verdict": "quarantine",
                "lane": HOSTILE,
                "evidence": {
                    "error_type": HOSTILE,
                    "message": HOSTILE,
                    "traceback": HOSTILE,
                    "log_tail": HOSTILE,
                    "stack": HOSTILE,
                    "alongside": [HOSTILE, HOSTILE],
                    HOSTILE: HOSTILE,
                },
            },
        )
    )
    await producers.item(killer(body=HOSTILE.encode(), detail=HOSTILE, reason="attempts_exhausted"))
    await station.settled(ticket)
    async with http.get(f"{station.url}/items/{ticket}") as answer:
        assert answer.status == 200
        return await answer.text()


async def test_hostile_text_is_shown_as_text(page: str) -> None:
    assert not re.search(r"<script>|<img src=x", page)
    assert page.count(html.escape("<script>alert(1)</script>")) >= 5
    assert not UNSEEN.search(page)


async def test_hostile_text_moves_no_terminal(station: Station, page: str, ticket: str) -> None:
    printed = station.run("show", ticket).stdout
    assert "<script>alert(1)</script>" in printed
    assert not UNSEEN.search(printed)
    assert not UNSEEN.search(station.run("show", ticket, "--json").stdout)
    assert not UNSEEN.search(station.run("list", "--json").stdout)


async def test_every_answer_forbids_scripts_frames_and_guessing(station: Station, http: aiohttp.ClientSession) -> None:
    for path in ("/", "/items", "/items/none", "/api/items", "/static/desk.css", "/no/such/path"):
        async with http.get(station.url + path) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_list_shows_what_waits_with_reason_and_attempts(
    station: Station, http: aiohttp.ClientSession, page: str, ticket: str
) -> None:
    async with http.get(f"{station.url}/items?text={ticket}") as answer:
        listed = await answer.text()
    row = listed.split(f'href="/items/{ticket}"')[1].split("</tr>")[0]
    assert "attempts exhausted" in row
    assert 'class="number">3</td>' in row


async def test_the_item_page_shows_each_run_with_its_evidence(page: str, ticket: str) -> None:
    assert [int(number) for number in re.findall(r"Attempt (\d)", page)] == [1, 2, 3]
    assert "signal:9" in page
    assert page.count("<strong>Charged</strong>") == 3
    assert f'formaction="/items/{ticket}/replay"' in page


async def test_the_api_gives_the_same_documents_as_the_command_line(
    station: Station, http: aiohttp.ClientSession, page: str, ticket: str
) -> None:
    async with http.get(f"{station.url}/api/items/{ticket}") as answer:
        assert await answer.json() == station.show(ticket)
        assert not UNSEEN.search(await answer.text())
    async with http.get(f"{station.url}/api/items", params={"state": "held"}) as answer:
        listed = (await answer.json())["items"]
    assert ticket in [item["ticket"] for item in listed]


async def test_a_page_of_items_can_be_ticked_whatever_their_clients_have_called_them(
    station: Station, http: aiohttp.ClientSession
) -> None:
    ticked = "&".join(f"ticket={'%3A' * 126}{number:02}" for number in range(50))
    async with http.get(URL(f"{station.url}/operations/new?{ticked}", encoded=True)) as answer:
        assert answer.status == 200
        assert "Decide about 50 items" in await answer.text()


async def test_an_unknown_ticket_is_not_found(station: Station, http: aiohttp.ClientSession) -> None:
    for path in ("/items/none", "/api/items/none"):
        async with http.get(station.url + path) as answer:
            assert answer.status == 404


async def test_a_request_under_a_strangers_name_is_refused(station: Station, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{station.url}/api/items", headers={"Host": "evil.example"}) as answer:
        assert answer.status == 421


async def test_a_running_station_is_alive_ready_and_counted(
    station: Station, http: aiohttp.ClientSession, page: str
) -> None:
    for path in ("/healthz", "/readyz"):
        async with http.get(station.url + path) as answer:
            assert answer.status == 200
    async with http.get(f"{station.url}/metrics") as answer:
        metrics = await answer.text()
    assert 'lazaretto_quarantined_total{kind="support.ticket",reason="attempts_exhausted"}' in metrics
    assert 'lazaretto_quarantine_items{owner="",state="held"}' in metrics
    assert re.search(r'lazaretto_alerts_total\{channel="log",result="sent"\} [1-9]', metrics)


def test_the_check_reports_store_broker_topology_and_channels(station: Station) -> None:
    done = station.run("serve", "--check")
    assert done.returncode == 0, done.stderr
    for line in ("store     sqlite, writable", "broker    RabbitMQ ", "21 queues", "alerts    log, exchange"):
        assert line in done.stdout


def test_an_alert_url_that_cannot_be_read_is_a_usage_error(own_station: Station) -> None:
    own_station.extra["LAZARETTO_ALERT_URLS"] = "nonsense://secret-token@x"
    done = own_station.run("serve", "--check")
    assert done.returncode == 2
    assert "LAZARETTO_ALERT_URLS" in done.stderr
    assert "secret" not in done.stderr


def test_no_broker_is_exit_code_3(own_station: Station) -> None:
    own_station.broker_url = "amqp://guest:guest@127.0.0.1:1/"
    done = own_station.run("serve")
    assert (done.returncode, "no broker answers" in done.stderr) == (3, True)

"""A real Alertmanager is kept in step with the store: what lasts fires, what is decided does not, whoever was away."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa

from gateway.contract.journal import Event, EventName
from gateway.station import early_warnings, ledger
from gateway.station.alertmanager import Alertmanager
from gateway.station.channels import AlertRefused, ChannelFailed, Notice
from gateway.station.holding import AlertEvent
from gateway.station.outbox import Outbox
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from gateway.station.tables.items import items
from tests.support.alertmanager import RealAlertmanager, moment
from tests.support.waiting import soon
from tests.unit.station.hearing import RATE
from tests.unit.station.items import discard, take_in
from tests.unit.station.test_early_warnings import death, storm

EXPIRY = 6.0


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


@asynccontextmanager
async def told(store: Store, server: RealAlertmanager, expiry: float = EXPIRY) -> AsyncIterator[str]:
    """Run an outbox that tells the server, and return the channel's name."""
    stop = asyncio.Event()
    mirror = Alertmanager(server.url, expiry=expiry)
    outbox = Outbox(store=store, channels=[], mirrors=[mirror], desk="http://desk", rate=RATE)
    running = asyncio.create_task(outbox.run(stop))
    try:
        yield mirror.name
    finally:
        stop.set()
        await running


def _name(server: RealAlertmanager) -> str:
    return Alertmanager(server.url, expiry=EXPIRY).name


async def _fires(server: RealAlertmanager, *keys: str) -> None:
    async def as_it_should() -> bool:
        return set(await asyncio.to_thread(server.firing)) == set(keys)

    await soon(as_it_should, 30, saying=f"{keys} fire and nothing else")


async def _post(store: Store, channel: str, *events: Event) -> None:
    async with store.writing() as transaction:
        await ledger.post(transaction, events)
        await early_warnings.owe(transaction, events, [channel], time.time())


async def test_an_item_fires_for_as_long_as_it_waits_and_is_resolved_by_its_decision(
    store: Store, alertmanager: RealAlertmanager
) -> None:
    await take_in(store, [_name(alertmanager)], "9417", "2")
    async with told(store, alertmanager):
        await _fires(alertmanager, "lazaretto:9417:0", "lazaretto:2:0")
        first = alertmanager.firing()["lazaretto:9417:0"]

        def lasts_longer() -> bool:
            now = alertmanager.firing()["lazaretto:9417:0"]
            return moment(now, "endsAt") > moment(first, "endsAt") + EXPIRY / 2

        await soon(lambda: asyncio.to_thread(lasts_longer), 30, saying="it is told again before it expires")
        await discard(store, "9417")
        await _fires(alertmanager, "lazaretto:2:0")

    assert first["labels"] == {
        "alertname": "LazarettoItemInQuarantine",
        "severity": "warning",
        "dedup_key": "lazaretto:9417:0",
        "ticket": "9417",
        "generation": "0",
        "kind": "support.ticket",
        "reason": "rejected",
    }
    assert "Ticket 9417 (support.ticket) is in quarantine" in first["annotations"]["description"]
    assert first["generatorURL"] == "http://desk/items/9417"


async def test_one_that_was_down_or_began_anew_hears_of_everything_that_lasts(
    store: Store, alertmanager: RealAlertmanager
) -> None:
    await take_in(store, [_name(alertmanager)], "1")
    async with told(store, alertmanager):
        await _fires(alertmanager, "lazaretto:1:0")
        alertmanager.stop()
        await take_in(store, [_name(alertmanager)], "2")

        async def has_failed() -> bool:
            async with store.reading() as transaction:
                query = sa.select(alerts.c.last_error).filter_by(ticket="2", sent_at=None)
                return await transaction.scalar(query) is not None

        await soon(has_failed, 30, saying="it was tried in vain")
        alertmanager.start()
        await _fires(alertmanager, "lazaretto:1:0", "lazaretto:2:0")


async def test_what_was_decided_while_nobody_told_it_does_not_fire_when_it_is_told(
    store: Store, alertmanager: RealAlertmanager
) -> None:
    await take_in(store, [_name(alertmanager)], "1", "2", now=time.time())
    await discard(store, "1")
    async with told(store, alertmanager):
        await _fires(alertmanager, "lazaretto:2:0")


async def test_an_item_that_was_restored_fires_again_and_its_second_decision_resolves_it(
    store: Store, alertmanager: RealAlertmanager
) -> None:
    await take_in(store, [_name(alertmanager)], "1")
    async with told(store, alertmanager):
        await discard(store, "1")
        await _fires(alertmanager)
        async with store.writing() as transaction:
            await transaction.execute(sa.update(items).values(state="held", decided_at=None, decided_by=None))
        await _fires(alertmanager, "lazaretto:1:0")
        await discard(store, "1")
        await _fires(alertmanager)


async def test_a_suspect_fires_until_it_ends_and_a_storm_until_it_is_lifted(
    store: Store, alertmanager: RealAlertmanager
) -> None:
    channel = _name(alertmanager)
    key = "lazaretto:storm:shop:handle@1:77.250"
    await _post(store, channel, death(at=time.time()), storm("tripped"))
    async with told(store, alertmanager):
        await _fires(alertmanager, "lazaretto:suspect:9417:0", key)
        done = death(crashes=2, at=time.time(), outcome="succeeded", verdict="ack")
        await _post(store, channel, done, storm("lifted"))
        await _fires(alertmanager)
        # Reported once more, and late: what is over does not begin again.
        await _post(store, channel, storm("tripped", since=99.0), storm("lifted", since=99.0))
        await _post(store, channel, Event(event=EventName.LEAK, at=1.0, ticket="", kind="", node="n"))
        await _fires(alertmanager)


async def test_whatever_clocks_say_an_alert_is_one_that_the_server_takes(
    store: Store, alertmanager: RealAlertmanager
) -> None:
    await take_in(store, [_name(alertmanager)], "past", "future", now=time.time())
    await _post(store, _name(alertmanager), death(at=1e300), death(at=1e300, outcome="succeeded", verdict="ack"))
    async with store.writing() as transaction:
        for ticket, arrived in (("past", -5.0), ("future", 1e15)):
            await transaction.execute(sa.update(items).where(items.c.ticket == ticket).values(arrived_at=arrived))
    async with told(store, alertmanager):
        await _fires(alertmanager, "lazaretto:past:0", "lazaretto:future:0", "lazaretto:suspect:9417:0")


async def test_an_answer_that_is_none_is_a_failure_in_time(
    unused_tcp_port: int, alertmanager: RealAlertmanager
) -> None:
    notice = Notice(event=AlertEvent.TEST, key="k", title="t", text="x", fields={}, began_at=1.0, over_at=None)
    gone = Alertmanager(f"http://127.0.0.1:{unused_tcp_port}", expiry=60.0)
    elsewhere = Alertmanager(f"{alertmanager.url}/nowhere", expiry=60.0)
    for channel in (gone, elsewhere):
        with pytest.raises(ChannelFailed) as failed:
            await channel.show([notice])
        assert not isinstance(failed.value, AlertRefused)
        await channel.close()

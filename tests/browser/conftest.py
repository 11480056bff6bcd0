"""A station with a past, the people who use its desk, and the browser that they use."""

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from gateway import api_key
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from gateway.contract.topology import Topology
from gateway.embedded import EmbeddedBroker
from gateway.station import reviewer_keys
from gateway.station.identity import Role
from gateway.station.reviewer_keys import ReviewerKey
from gateway.station.sender import Sender
from gateway.station.store import Store
from tests.integration.station.conftest import Producers, Station
from tests.support import past
from tests.support.program import ROOT, Programs
from tests.unit.station.selected import leave_in_doubt

Result = TypeVar("Result")

PICTURES = ROOT / "artefacts" / "desk"
_PATIENCE = 60_000
"""Milliseconds."""
expect.set_options(timeout=_PATIENCE)
_ARGUMENTS = (
    "--no-sandbox",  # CI is root in a container of its own
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def awaited(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` to its end on a loop of its own: the browser's driver has this thread's."""
    found: list[Result] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(work)))
    thread.start()
    thread.join()
    return found[0]


class Reviewers:
    """The people of one desk, each with a browser of their own."""

    def __init__(self, browser: Browser, station: Station, keys: dict[str, str]) -> None:
        self.station = station
        self._browser = browser
        self._keys = keys
        self._contexts: list[BrowserContext] = []

    def signed_in(self, name: str, **how: Any) -> Page:
        """Return the first page of somebody who has just signed in; `how` is what the browser is to be like."""
        page = self.stranger(**how)
        page.goto(f"{self.station.url}/")
        page.get_by_label("Key").fill(self._keys[name])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Your permissions").first.wait_for()
        return page

    def stranger(self, **how: Any) -> Page:
        """Return an empty page of a browser that nobody knows."""
        context = self._browser.new_context(**{"viewport": {"width": 1320, "height": 900}, **how})
        context.set_default_timeout(_PATIENCE)
        self._contexts.append(context)
        return context.new_page()

    def leave(self) -> None:
        """Close all browsers."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()


@pytest.fixture(scope="module")
def station(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[Station]:
    """A station whose store has a past, running, with keys for its people."""
    folder = tmp_path_factory.mktemp("desk")
    programs = Programs(folder)
    people = folder / "desk.keys"
    shared = Station(
        programs=programs,
        data=folder / "data",
        prefix=f"b{uuid4().hex[:10]}",
        broker_url=broker.url,
        extra={"LAZARETTO_DESK_KEYS": str(people)},
    )
    people.touch()
    awaited(_with_a_past(shared.store_url))
    shared.start()
    yield shared
    programs.close()


@pytest.fixture(scope="module")
def keys(station: Station) -> dict[str, str]:
    """The keys of Rita, who reads, and of Ana and Bob, who decide."""
    found, lines = {}, []
    for name, role in (("Rita", Role.READER), ("Ana", Role.REVIEWER), ("Bob", Role.REVIEWER)):
        fresh = api_key.new()
        found[name] = fresh.text
        lines.append(reviewer_keys.line(ReviewerKey(id=fresh.id, name=name, role=role, sha256=fresh.digest)))
    Path(station.extra["LAZARETTO_DESK_KEYS"]).write_text("\n".join(lines))
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    program = shutil.which("chromium")
    if program is None:
        missing = "there is no Chromium; run `scripts/setup tests`"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=list(_ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def reviewers(browser: Browser, station: Station, keys: dict[str, str]) -> Iterator[Reviewers]:
    """Browsers for one test."""
    found = Reviewers(browser, station, keys)
    yield found
    found.leave()


@pytest.fixture
def held(station: Station) -> Callable[..., str]:
    """Takes one more item in, and returns its ticket."""

    def take_in(**changes: Any) -> str:
        ticket = f"T-{uuid4().hex[:8]}"
        awaited(_take_in(station.store_url, ticket, changes))
        return ticket

    return take_in


async def succeed(station: Station, tickets: Sequence[str]) -> None:
    """Report for a fleet that the next generation of these tickets has ended well."""
    sender = Sender((station.broker_url,))
    producers = Producers(sender=sender, topology=Topology(prefix=station.prefix))
    events = [
        Event(
            event=EventName.FINISHED,
            at=time.time(),
            ticket=ticket,
            kind="canary.test",
            node="node-1",
            stamp=Stamp(generation=1, attempt=1, interruptions=0),
            data={"outcome": "succeeded", "verdict": "ack", "evidence": {}},
        )
        for ticket in tickets
    ]
    await producers.events(*events)
    await sender.close()


async def doubt(station: Station, ticket: str) -> None:
    """Leave a replay of an item in doubt, as a station does that is killed before it is sent."""
    store = await Store.open(station.store_url)
    await leave_in_doubt(store, ticket)
    await store.close()


async def _with_a_past(url: str) -> None:
    store, now = await Store.open(url), time.time()
    await past.fill(store, now - 600, items=100)
    await past.multiply(store, 100)
    await past.ticket_9417(store, now)
    await past.refuse(store, now, number=12)
    await past.speak(store, now)
    await store.close()


async def _take_in(url: str, ticket: str, changes: dict[str, Any]) -> None:
    store, now = await Store.open(url), time.time()
    await past.take_in(store, [(past.item(ticket, now, **changes), now)])
    await store.close()

"""A second dead worker and a storm are told before anything is in quarantine, once each, in whatever order."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from gateway.station import early_warnings, ledger
from gateway.station.escalations import ESCALATION
from gateway.station.holding import AlertEvent
from gateway.station.store import Store
from gateway.station.tables.alerts import notices

CHANNELS = ("log", "exchange", "mirror", ESCALATION)


def death(*, crashes: int = 1, outcome: str = "memory", verdict: str = "retry", **changes: Any) -> Event:
    told = {
        "event": EventName.FINISHED,
        "at": 5.0,
        "ticket": "9417",
        "kind": "support.ticket",
        "node": "node-2",
        "stamp": Stamp(generation=0, attempt=crashes + 1, interruptions=0),
        "crashes": crashes,
        "data": {"outcome": outcome, "verdict": verdict, "seconds": 1.5, "evidence": {"signal": 9}},
    }
    return Event(**{**told, **changes})


def storm(state: str, **changes: Any) -> Event:
    data = {
        "state": state,
        "build": "shop:handle@1",
        "why": "5 of 9 first runs",
        "host": "host-1",
        "items": ["a", "b"],
        "since": 77.25,
        "evidence": "signal:9: parsing",
    }
    return Event(event=EventName.STORM, at=80.0, ticket="", kind="", node="n", data={**data, **changes})


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _owed(store: Store, events: Sequence[Event]) -> list[tuple[str, str]]:
    async with store.writing() as transaction:
        await ledger.post(transaction, events)
        await early_warnings.owe(transaction, events, CHANNELS, 100.0)
    async with store.reading() as transaction:
        rows = await transaction.execute(sa.select(notices.c.event, notices.c.channel).order_by(notices.c.id))
        return [(row.event, row.channel) for row in rows]


async def test_a_second_death_is_told_once_to_operators_and_not_outside(store: Store) -> None:
    events = [death(), death(crashes=2, stamp=Stamp(generation=0, attempt=3, interruptions=0)), death()]
    told = await _owed(store, events)
    assert told == [("item.suspect", "log"), ("item.suspect", "exchange"), ("item.suspect", "mirror")]


async def test_a_storm_is_told_where_nodes_do_not_tell_it_and_so_is_its_end(store: Store) -> None:
    told = await _owed(store, [storm("lifted"), storm("tripped"), storm("tripped")])
    assert told == [
        ("fleet.storm_lifted", "log"),
        ("fleet.storm_lifted", "mirror"),
        ("fleet.storm", "log"),
        ("fleet.storm", "mirror"),
    ]


def test_the_words_name_ticket_deaths_and_evidence() -> None:
    [warned] = early_warnings.warnings([death()])
    assert warned.title == "Suspect: ticket 9417 after 2 dead workers"
    assert "Ticket 9417 (support.ticket) has killed 2 workers" in warned.text
    assert "signal 9 (SIGKILL), after 1.5 s, on node-2" in warned.text


def test_a_storm_names_build_host_items_and_the_last_death() -> None:
    [warned] = early_warnings.warnings([storm("tripped")])
    assert warned.fields["items"] == ["a", "b"]
    for part in ("shop:handle@1", "host-1", "a, b", "signal:9: parsing"):
        assert part in warned.text


@pytest.mark.parametrize(
    "event",
    [
        death(crashes=0),
        death(outcome="timed_out"),
        death(outcome="failed"),
        death(verdict="quarantine"),
        death(verdict="release", event=EventName.RELEASED, outcome="released"),
        storm("tripped", since="never"),
        storm("odd"),
        storm("tripped", since=None),
    ],
    ids=[str(number) for number in range(8)],
)
def test_nothing_else_is_a_warning(event: Event) -> None:
    assert early_warnings.warnings([event]) == []


@pytest.mark.parametrize(
    "data",
    [
        {"outcome": "crashed", "verdict": "retry", "evidence": ["odd"], "seconds": "long"},
        {"outcome": "crashed", "verdict": "retry", "evidence": {"detail": "a\nb\x1b" * 999}, "seconds": 1e300},
    ],
    ids=["odd", "hostile"],
)
def test_what_a_worker_says_of_its_death_is_one_line_and_breaks_nothing(data: dict[str, Any]) -> None:
    [warned] = early_warnings.warnings([death(data=data, ticket="t\n")])
    assert warned.event is AlertEvent.SUSPECT
    assert warned.text.isprintable()
    assert len(warned.text) < 2000

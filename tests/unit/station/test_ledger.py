"""Reports about runs end in the same rows in whatever order they arrive."""

import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from gateway.station import ledger
from gateway.station.dossier import Dossier, find
from gateway.station.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


_tickets = (f"t-{number}" for number in itertools.count())


async def _told(store: Store, reports: Sequence[dict[str, Any]]) -> Dossier:
    ticket = next(_tickets)
    for report in reports:
        async with store.writing() as transaction:
            await ledger.post(transaction, [Event(ticket=ticket, kind="k", **{"node": "n", **report})])
    found = await find(store, ticket)
    assert found is not None
    return found


def _report(event: EventName, *, attempt: int = 1, interruptions: int = 0, **changes: Any) -> dict[str, Any]:
    data = {"outcome": changes.pop("outcome", None), "verdict": changes.pop("verdict", None)}
    stamp = Stamp(generation=0, attempt=attempt, interruptions=interruptions)
    known = {name: value for name, value in data.items() if value is not None}
    return {"event": event, "at": 1.0, "stamp": stamp, "data": known, **changes}


async def test_of_two_reports_that_are_trusted_alike_the_later_one_counts_in_any_order(store: Store) -> None:
    ended: dict[str, Any] = {"event": EventName.CLAIMED, "verdict": "retry"}
    reports = [
        _report(**ended, outcome="lost", node="first", id="a", at=1.0),
        _report(**ended, outcome="outage", node="second", id="c", at=2.0),
        _report(**ended, outcome="lost", node="third", id="b", at=2.0),
    ]
    for order in itertools.permutations(reports):
        (run,) = (await _told(store, order)).runs
        assert (run.node, run.outcome) == ("second", "outage")


async def test_a_start_that_ended_uncharged_is_no_attempt_while_the_ticket_waits(store: Store) -> None:
    started = _report(EventName.STARTED)
    released = _report(EventName.RELEASED, outcome="released", verdict="release")
    again = _report(EventName.STARTED, interruptions=1)
    failed = _report(EventName.FINISHED, interruptions=1, outcome="failed", verdict="retry")
    assert (await _told(store, [started])).attempts == 1
    for order in itertools.permutations([started, released]):
        assert (await _told(store, order)).attempts == 0
    for order in itertools.permutations([started, released, again]):
        assert (await _told(store, order)).attempts == 1
    for order in itertools.permutations([started, released, again, failed]):
        assert (await _told(store, order)).attempts == 1


async def test_a_charge_stays_whatever_becomes_of_later_starts(store: Store) -> None:
    failed = _report(EventName.FINISHED, outcome="failed", verdict="retry")
    started = _report(EventName.STARTED, attempt=2)
    released = _report(EventName.RELEASED, attempt=2, outcome="released", verdict="release")
    for order in itertools.permutations([failed, started, released]):
        assert (await _told(store, order)).attempts == 1

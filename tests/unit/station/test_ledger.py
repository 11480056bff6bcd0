"""Reports about runs end in the same rows in whatever order they arrive."""

import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.contract.history import RunRecord
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Outcome, Stamp
from gateway.station import deaths, ledger
from gateway.station.dossier import Dossier, find
from gateway.station.ledger import Brought
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


async def test_a_death_that_the_item_and_its_node_name_differently_is_one_and_an_uncharged_start_another(
    store: Store,
) -> None:
    ticket = next(_tickets)
    record = RunRecord(attempt=1, outcome=Outcome.LOST, node="n", worker=7, started=1.0, seconds=0.5)
    brought = Brought(ticket=ticket, kind="k", runs={Stamp(generation=0, attempt=1, interruptions=0): record})
    ended = _report(EventName.FINISHED, interruptions=2, outcome="crashed", verdict="retry")
    released = _report(EventName.RELEASED, interruptions=1, outcome="released", verdict="release")
    async with store.writing() as transaction:
        await ledger.post_history(transaction, [brought], 1.0)
        await ledger.post(
            transaction, [Event(ticket=ticket, kind="k", node="n", **report) for report in (ended, released)]
        )
    found = await find(store, ticket)
    assert found is not None
    assert sorted(run.outcome for run in found.runs) == ["crashed", "released"]
    losses = await deaths.recent(store, 2.0)
    assert (losses.deaths, losses.killers) == (1, [])

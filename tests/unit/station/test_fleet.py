"""What nodes say of themselves: the newest report stands, whatever the order, within bounds."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.contract.journal import Event, EventName
from gateway.station import fleet, ledger
from gateway.station.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


def _said(at: float, name: EventName = EventName.BREAKER, node: str = "n", **data: Any) -> Event:
    return Event(event=name, at=at, ticket="", kind="", node=node, data=data)


async def _post(store: Store, *events: Event) -> None:
    async with store.writing() as transaction:
        await ledger.post(transaction, events)


async def test_the_newest_report_stands_in_whatever_order_they_arrive(tmp_path: Path) -> None:
    events = [_said(1.0 + n, dependency="openai", state=state) for n, state in enumerate(["open", "half_open", "open"])]
    for number, order in enumerate(itertools.permutations(events)):
        store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/{number}.db")
        for event in order:
            await _post(store, event, event)
        (found,) = await fleet.find(store)
        assert (found.node, found.event, found.subject, found.state, found.at) == (
            "n",
            "breaker",
            "openai",
            "open",
            3.0,
        )
        await store.close()


async def test_each_node_and_subject_has_a_place_of_its_own(store: Store) -> None:
    await _post(
        store,
        _said(1.0, dependency="openai", state="open"),
        _said(2.0, dependency="crm", state="open"),
        _said(3.0, node="m", dependency="crm", state="closed"),
        _said(4.0, EventName.STORM, state="tripped", build="b1", items=["1", "2"]),
        _said(5.0, EventName.LEAK, worker=7, sites=[]),
    )
    found = [(state.node, state.event, state.subject, state.state) for state in await fleet.find(store)]
    assert found == [
        ("n", "leak", "", ""),
        ("n", "storm", "", "tripped"),
        ("m", "breaker", "crm", "closed"),
        ("n", "breaker", "crm", "open"),
        ("n", "breaker", "openai", "open"),
    ]


async def test_all_of_what_was_said_is_kept(store: Store) -> None:
    await _post(store, _said(1.0, EventName.STORM, state="tripped", items=["1", "2"], evidence={"signal": 11}))
    (found,) = await fleet.find(store)
    assert found.data == {"state": "tripped", "items": ["1", "2"], "evidence": {"signal": 11}}


async def test_nodes_that_come_and_go_do_not_fill_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MAX_KEPT", 10)
    for number in range(30):
        await _post(store, _said(float(number), node=f"host:{number}", dependency="d" * 5000, state="open"))
    found = await fleet.find(store)
    assert [state.node for state in found] == [f"host:{number}" for number in range(29, 19, -1)]
    assert max(len(state.subject.encode()) for state in found) <= 128


async def _hear(store: Store, now: float, *events: Event) -> None:
    async with store.writing() as transaction:
        await fleet.post(transaction, events, now)


async def test_a_node_that_has_been_silent_for_a_day_is_forgotten_with_all_that_it_said(store: Store) -> None:
    words = [_said(1.0, EventName.NODE, node, lane="work", state="ready") for node in ("a", "b")]
    told = [_said(1.0, node=node, dependency="crm", state="open") for node in ("a", "b", "older version")]
    await _hear(store, 1000.0, *words, *told)
    later = 1001.0 + fleet.FORGOTTEN_AFTER
    await _hear(store, later, _said(2.0, EventName.NODE, "b", lane="work", state="ready"))
    found = {(state.node, state.event) for state in await fleet.find(store)}
    assert found == {("b", "node"), ("b", "breaker"), ("older version", "breaker")}


async def test_a_node_has_a_word_for_each_lane_and_is_heard_on_the_station_s_own_clock(store: Store) -> None:
    await _hear(store, 1000.0, *(_said(5.0, EventName.NODE, lane=lane, state="ready") for lane in ("work", "suspects")))
    found = {(state.subject, state.at, state.heard_at) for state in await fleet.find(store)}
    assert found == {("work", 5.0, 1000.0), ("suspects", 5.0, 1000.0)}

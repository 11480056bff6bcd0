"""Which items a filter means, on both stores."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.station import dossier
from gateway.station.holding import ItemState
from gateway.station.selection import Filter, where
from gateway.station.store import Store
from gateway.station.tables.items import items
from tests.unit.station.selected import hold, report


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    await hold(opened, "one", at=1.0, kind="a", client="acme", reason="crashes_exhausted", detail="It is 100% Broken_")
    await report(opened, "one", "crashed", signal=9, build="b1", log_tail="out of memory")
    await hold(opened, "two", at=2.0, kind="b", client="other", reason="rejected")
    await report(opened, "two", "failed", error_type="KeyError", build='b"2', code="signal:91")
    await hold(opened, "three", at=3.0, kind="b", client=None, reason="attempts_exhausted")
    await report(opened, "three", "timed_out", signal=91)
    yield opened
    await opened.close()


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["one", "two", "three"]),
    ({"kinds": ("b",)}, ["two", "three"]),
    ({"kinds": ("a", "b"), "reasons": ("rejected",)}, ["two"]),
    ({"outcomes": ("crashed", "timed_out")}, ["one", "three"]),
    ({"outcomes": ("crashed", "succeeded")}, ["one"]),
    ({"outcomes": ("overspent",)}, []),
    ({"signal": 9}, ["one"]),
    ({"signal": 91}, ["two", "three"]),
    ({"build": "b1"}, ["one"]),
    ({"build": 'b"2'}, ["two"]),
    ({"build": "b"}, []),
    ({"clients": ("acme", "nobody")}, ["one"]),
    ({"since": 2.0}, ["two", "three"]),
    ({"since": 2.0, "until": 2.5}, ["two"]),
    ({"text": "TW"}, ["two"]),
    ({"text": "100%"}, ["one"]),
    ({"text": "broken_"}, ["one"]),
    ({"text": "_"}, ["one"]),
    ({"text": "%%"}, []),
    ({"tickets": ("three", "one", "never")}, ["one", "three"]),
    ({"states": (ItemState.DISCARDED,)}, []),
]


async def test_a_filter_means_what_all_of_it_is_true_of(store: Store) -> None:
    for named, meant in CASES:
        chosen = Filter(**named)
        assert [item.ticket for item in await dossier.find_chosen(store, chosen)] == meant, named
        assert (await dossier.count_chosen(store, chosen)).number == len(meant), named


async def test_pages_follow_each_other_without_a_gap(store: Store) -> None:
    for number in range(5):
        await hold(store, f"same-{number}", at=2.0)
    found: list[str] = []
    after = None
    while page := await dossier.find_chosen(store, Filter(), after=after, most=3):
        found += [item.ticket for item in page]
        after = page[-1]
    assert found == ["one", *(f"same-{number}" for number in range(5)), "two", "three"]


async def test_items_of_an_outcome_are_found_by_an_index_over_runs_that_fell_short(store: Store) -> None:
    if store.dialect == "postgresql":  # which scans so few rows as these
        return
    query = sa.select(items.c.ticket).where(*where(Filter(outcomes=("timed_out",))))
    plan = sa.text("EXPLAIN QUERY PLAN " + str(query.compile(compile_kwargs={"literal_binds": True})))
    async with store.reading() as transaction:
        assert "runs_fell_short" in str((await transaction.execute(plan)).all())

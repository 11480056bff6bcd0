"""Lists of items: every selection, page by page, on both stores, and nothing read that is not shown."""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from gateway.contract.outcomes import CRASHES, Outcome
from gateway.station import audit_trail, catalogue, decisions, letterhead, trends
from gateway.station.audit_trail import Wanted
from gateway.station.catalogue import Counted, Selection
from gateway.station.decided import Decision
from gateway.station.desk.bulletin import Bulletin
from gateway.station.holding import ItemState
from gateway.station.store import Store
from gateway.station.tables.tickets import DIED
from gateway.station.trends import Trend, last
from tests.support import past

NOW = 1_800_000_000.0


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _tickets(store: Store, **wanted: Any) -> list[str]:
    return [entry.ticket for entry in (await catalogue.find(store, Selection(**wanted), limit=1000)).entries]


async def test_pages_one_after_the_other_show_each_item_once_and_lead_back(store: Store) -> None:
    await past.fill(store, NOW, items=23)
    await past.take_in(store, [(past.item(f"same-{number}", NOW), NOW) for number in range(4)])
    await decisions.discard(store, "T-20003", Decision(by="ana", reason="spam"))
    for newest_first in (False, True):
        everything = Selection(states=(ItemState.HELD, ItemState.DISCARDED))

        page = partial(catalogue.find, store, everything, newest_first=newest_first, limit=5)

        whole = (await catalogue.find(store, everything, newest_first=newest_first, limit=1000)).entries
        assert len(whole) == 27
        assert [entry.mark for entry in whole] == sorted((entry.mark for entry in whole), reverse=newest_first)
        pages = [await page()]
        while pages[-1].after:
            pages.append(await page(after=pages[-1].entries[-1].mark))
        assert [entry for found in pages for entry in found.entries] == list(whole)
        assert [found.before for found in pages] == [False, True, True, True, True, True]
        back = [pages[-1]]
        while back[-1].before:
            back.append(await page(before=back[-1].entries[0].mark))
        assert [found.entries for found in back[::-1]] == [found.entries for found in pages]


async def test_each_filter_narrows_by_what_it_says(store: Store) -> None:
    await past.fill(store, NOW, items=12)
    await past.ticket_9417(store, NOW)
    await past.take_in(store, [(past.item("odd", NOW, detail="50%_off\\", reason="malformed"), NOW + 5)])

    assert await _tickets(store, kind="billing.question") == ["T-20001", "T-20005"]
    assert await _tickets(store, reason="rejected") == ["T-20001", "T-20006", "T-20011"]
    assert await _tickets(store, client="globex") == ["T-20001", "T-20004", "T-20007", "T-20010"]
    assert await _tickets(store, since=NOW + 1) == ["odd"]
    assert len(await _tickets(store, until=NOW - 60)) == 12
    assert await _tickets(store, text="0%_OFF\\") == ["odd"]
    assert await _tickets(store, text="t-20011") == ["T-20011"]
    assert await _tickets(store, outcome=Outcome.RELEASED.value) == ["9417"]
    assert "9417" in await _tickets(store, signal=9)
    assert await _tickets(store, signal=90) == []
    assert await _tickets(store, signal=9, outcome=Outcome.RELEASED.value, client="acme") == ["9417"]
    assert await _tickets(store, states=(ItemState.DISCARDED,)) == []


async def test_what_is_counted_is_bounded_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await past.fill(store, NOW, items=12)
    assert await catalogue.count(store, Selection()) == Counted(number=12, exact=True)
    monkeypatch.setattr(catalogue, "MOST_COUNTED", 5)
    assert await catalogue.count(store, Selection()) == Counted(number=5, exact=False)
    assert await catalogue.choices(store) == {
        "kind": sorted(past.KINDS),
        "reason": ["crashes_exhausted", "rejected"],
    }


async def test_trends_count_into_equal_parts_and_gather_what_is_rare(store: Store) -> None:
    span = last(NOW, width=3600, parts=4)
    assert span.begin <= NOW - 3 * 3600 < NOW < span.end
    names = [f"kind-{number}" for number in range(7)]
    await past.take_in(
        store, [(past.item(f"{kind}-{copy}", NOW, kind=kind), NOW) for kind in names for copy in range(9)]
    )
    await past.take_in(store, [(past.item("old", NOW), span.begin - 1)])
    found = await trends.quarantines(store, span)
    assert [name for name, _ in found.series] == [*names[:5], trends.OTHERS]
    assert [list(counts) for _, counts in found.series] == [[0, 0, 0, 9]] * 5 + [[0, 0, 0, 18]]
    assert (await trends.losses(store, span)).total == 63 * 3
    await past.refuse(store, NOW, number=9)
    refused = await trends.refusals(store, last(NOW, width=3600, parts=24))
    assert (refused.total, len(refused.series)) == (9, 3)


def test_the_index_of_deaths_means_what_the_contract_calls_a_crash() -> None:
    assert re.findall(r"'(\w+)'", str(DIED)) == sorted(CRASHES)


def test_parts_that_lie_outside_of_the_span_count_for_nothing() -> None:
    span = last(NOW, width=60, parts=2)
    assert trends.arranged(span, [(-1, "a", 1), (2, "a", 1)]) == Trend(span=span, series=[])


async def test_the_audit_is_found_by_who_what_and_ticket_and_read_to_its_end(store: Store) -> None:
    await past.fill(store, NOW, items=5)
    for number, by in enumerate(("ana", "bob", "ana")):
        await decisions.discard(store, f"T-{20_000 + number}", Decision(by=by, reason="spam"))

    async def tickets(**wanted: str) -> list[str]:
        return [entry.ticket for entry in await audit_trail.find(store, Wanted(**wanted))]

    assert await tickets() == ["T-20002", "T-20001", "T-20000"]
    assert await tickets(actor="ana") == ["T-20002", "T-20000"]
    assert await tickets(ticket="T-20001", act="discard") == ["T-20001"]
    assert await tickets(act="replay") == []
    assert await audit_trail.acts(store) == ["discard"]
    assert [entry.reason async for entry in audit_trail.each(store, Wanted())] == ["spam"] * 3


async def test_headers_are_told_as_they_came(store: Store) -> None:
    await past.take_in(store, [(past.item("t", NOW), NOW)])
    assert (await letterhead.find(store, "t", 0))["lz-reason"] == "crashes_exhausted"
    assert await letterhead.find(store, "none", 0) == {}


async def test_an_edition_changes_with_the_store_and_not_with_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.station.desk.bulletin.LOOK_EVERY", 0.0)
    bulletin = Bulletin(store)
    first = await bulletin.edition()
    assert await bulletin.edition() == first
    await past.take_in(store, [(past.item("t", NOW), NOW)])
    second = await bulletin.edition()
    await decisions.discard(store, "t", Decision(by="ana", reason="spam"))
    assert len({first, second, await bulletin.edition()}) == 3


@pytest.fixture
def plans(store: Store) -> Callable[[str, list[Any]], Any]:
    async def explain(statement: str, values: list[Any]) -> str:
        async with store.reading() as transaction:
            rows = await transaction.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", tuple(values))
            return "\n".join(str(row[-1]) for row in rows)

    return explain


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_page_of_a_hundred_thousand_is_found_by_its_index_and_reads_no_body(
    store: Store, plans: Callable[[str, list[Any]], Any]
) -> None:
    await past.fill(store, NOW, items=200)
    asked: list[tuple[str, Any]] = []
    engine: AsyncEngine = store._engine  # noqa: SLF001 - what the database is asked is the rule here
    listen = lambda _c, _u, statement, values, *_: asked.append((statement, values))  # noqa: E731
    sa.event.listen(engine.sync_engine, "before_cursor_execute", listen)
    first = await catalogue.find(store, Selection())
    await catalogue.find(store, Selection(), after=replace(first.entries[-1].mark), newest_first=True)
    sa.event.remove(engine.sync_engine, "before_cursor_execute", listen)

    lists = [(statement, values) for statement, values in asked if "FROM items" in statement]
    assert len(lists) == 4, "one for each state, whatever the number of items"
    for statement, values in lists:
        assert "items.body" not in statement
        plan = await plans(statement, list(values))
        assert re.search(r"SEARCH items USING INDEX items_by_(state|text) \(state=\?", plan)

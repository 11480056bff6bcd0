"""A start of which both its node and the item tell is one start, also where they name it by different stamps."""

import time

from gateway.station import deaths, dossier, explaining, ledger, pardons, trends
from gateway.station.pardons import Selection
from gateway.station.store import Store
from tests.support import past
from tests.unit.station.patients import opened

_DAY = 86400


async def _counts(store: Store, now: float) -> dict[str, int]:
    losses = await deaths.recent(store, now)
    (candidate,) = await pardons.in_quarantine(store, Selection())
    (killer,) = losses.killers
    return {
        "deaths": losses.deaths,
        "of the killer": killer.deaths,
        "in the chart": (await trends.losses(store, trends.last(now, width=_DAY, parts=2))).total,
        "charged": candidate.charged,
    }


async def test_each_start_counts_once_wherever_deaths_are_counted(store_url: str) -> None:
    now = time.time()
    async with opened(store_url) as store:
        await past.ticket_9417(store, now)
        assert set((await _counts(store, now)).values()) == {3}
        found = await dossier.find(store, "9417")
        assert found is not None
        assert [run.outcome for run in found.runs] == ["released", "memory", "memory", "memory"]
        why = await explaining.explain(store, "9417")
        assert why is not None
        assert "3 of its 4 runs took their workers along" in "\n".join(why.lines)
        assert "(3 deaths, all its own)" in "\n".join(why.lines)


async def test_what_only_the_item_tells_counts_until_its_journal_does(store_url: str) -> None:
    now = time.time()
    async with opened(store_url) as store:
        await past.take_in(store, [(past.item("t", now), now - 60)])
        assert set((await _counts(store, now)).values()) == {3}


async def test_what_the_journal_told_days_ago_is_not_counted_for_the_day_of_arrival(store_url: str) -> None:
    now = time.time()
    async with opened(store_url) as store:
        async with store.writing() as transaction:
            await ledger.post(transaction, [past.ended("t", now - 3 * _DAY, attempt, 1) for attempt in (1, 2, 3)])
        await past.take_in(store, [(past.item("t", now), now - 60)])
        losses = await deaths.recent(store, now)
        assert (losses.deaths, losses.killers) == (0, [])

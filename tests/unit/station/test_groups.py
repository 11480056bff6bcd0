"""Items that died of the same are found together, however their reports came, and with what others do not share."""

from typing import Any

import pytest
import sqlalchemy as sa

from gateway.station import deaths, explaining, grouping, groups, reviewing
from gateway.station.decided import Decision
from gateway.station.holding import ItemState
from gateway.station.selection import Filter
from gateway.station.store import Store
from gateway.station.tables.items import items
from tests.unit.station.patients import admit, arrive, end_badly, fall_ill, opened, succeed

_PLACE = 'Traceback (most recent call last):\n  File "/srv/r1/acme/parse.py", line {line}, in walk\nacme.Broken: no\n'


async def _groups(store: Store, **chosen: Any) -> list[tuple[str, list[str]]]:
    return [(group.what, sorted(group.tickets)) for group in await groups.find(store, Filter(**chosen))]


async def test_the_journal_may_come_before_the_item_or_after_it(store_url: str) -> None:
    async with opened(store_url) as store:
        await fall_ill(store, "t1", evidence={"traceback": _PLACE.format(line=10)})
        await arrive(store, "t2")
        assert len(await groups.find(store, Filter())) == 2
        await end_badly(
            store, "t2", error_type="acme.Broken", message="x", traceback=_PLACE.format(line=99), build="b2"
        )
        (group,) = await groups.find(store, Filter())
        assert (group.what, group.frames, group.items) == ("acme.Broken", ["acme/parse.py: walk"], 2)
        assert group.builds == {"b1": 1, "b2": 1}
        assert group.title == "k, failed: acme.Broken in acme/parse.py: walk"


async def test_items_from_before_there_were_groups_are_grouped_in_batches(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "BATCH", 2)
    async with opened(store_url) as store:
        for number in range(5):
            await fall_ill(store, f"t{number}")
        (before,) = await groups.find(store, Filter())
        async with store.writing() as transaction:
            await transaction.execute(sa.update(items).values(cause=None, build=None))
        assert await groups.find(store, Filter()) == []
        assert [await grouping.group_some(store) for _ in range(4)] == [2, 2, 1, 0]
        assert await groups.find(store, Filter()) == [before]


async def test_a_group_tells_how_many_wait_and_shows_some(store_url: str) -> None:
    async with opened(store_url) as store:
        for number in range(7):
            await fall_ill(store, f"t{number}", at=10.0 + number)
        await fall_ill(store, "z1", kind="z", evidence={"error_type": "KeyError"}, at=100.0)
        async with store.writing() as transaction:
            await transaction.execute(sa.update(items).where(items.c.ticket < "t2").values(state="discarded"))
        many, one = await groups.find(store, Filter(states=(ItemState.HELD, ItemState.DISCARDED)))
        assert (many.items, many.waiting, one.items) == (7, 5, 1)
        assert (many.first_at, many.last_at) == (10.0, 16.0)
        assert many.tickets == ["t6", "t5", "t4", "t3", "t2"]
        assert await groups.find_one(store, many.id) == many
        assert await groups.find_one(store, "feed") is None
        assert await _groups(store, groups=(one.id,)) == [("KeyError: no", ["z1"])]
        assert await groups.relatives(store, one) == []


async def test_the_same_death_in_another_kind_is_a_relative(store_url: str) -> None:
    async with opened(store_url) as store:
        await fall_ill(store, "t1", kind="a")
        await fall_ill(store, "t2", kind="b")
        one, other = await groups.find(store, Filter())
        assert await groups.relatives(store, one) == [other.id]


async def test_why_names_what_a_group_shares_and_nobody_else(store_url: str) -> None:
    sick: dict[str, Any] = {"client": "acme", "size": 350 * 1024, "charset": "UTF-16LE"}
    crash: dict[str, Any] = {"outcome": "crashed", "evidence": {"signal": 11, "code": "signal:11", "error_type": ""}}
    async with opened(store_url) as store:
        for number in range(40):
            await succeed(store, f"fine{number}")
        await succeed(store, "lucky", **sick)
        for number in range(8):
            await admit(store, f"t{number}", **sick)
            await fall_ill(store, f"t{number}", **crash, **sick, at=10.0)
        await fall_ill(store, "t8", **crash, at=11.0)
        await reviewing.note(store, "t8", "asked the client", by="ana")
        await reviewing.hold(store, "t8", Decision(by="ana", reason="evidence"))
        why = await explaining.explain(store, "t8")
        assert why is not None
        told = "\n".join(why.lines)
        assert "8 of 9 are over 300 KiB, UTF-16LE and from client acme; 1 of 41 others" in told
        assert "9 items died of this, 9 wait" in told
        assert "1 of its 1 runs took a worker along, on n, under build b1" in told
        assert "on hold since" in told
        document = explaining.document(why)
        assert document["group"]["what"] == "signal 11"
        assert {one["trait"] for one in document["comparison"]["findings"]} == {"bytes", "charset", "client"}
        assert (document["hold"]["by"], document["notes"][0]["text"]) == ("ana", "asked the client")


async def test_what_everybody_shares_is_not_named(store_url: str) -> None:
    async with opened(store_url) as store:
        for number in range(40):
            await succeed(store, f"fine{number}")
        for number in range(9):
            await admit(store, f"t{number}")
            await fall_ill(store, f"t{number}")
        why = await explaining.explain(store, "t1")
        assert why is not None
        assert why.comparison is not None
        assert why.comparison.findings == []
        assert "they share nothing that 40 other tickets do not have as often" in why.lines


async def test_a_ticket_that_never_came_to_quarantine_is_explained_too(store_url: str) -> None:
    async with opened(store_url) as store:
        await succeed(store, "fine")
        why = await explaining.explain(store, "fine")
        assert why is not None
        assert why.lines[0] == "ticket fine (k) of client globex is done, and never was in quarantine"
        assert await explaining.explain(store, "none") is None


async def test_deaths_are_read_by_their_index(store_url: str) -> None:
    async with opened(store_url) as store:
        await end_badly(store, "t1", outcome="crashed", build="b1")
        await end_badly(store, "t2", outcome="failed", build="b1")
        losses = await deaths.recent(store, 2.0)
        assert (losses.deaths, losses.tickets, losses.killers, losses.rising) == (1, 1, [], [])
        if store.dialect == "sqlite":
            plan = sa.text(
                "EXPLAIN QUERY PLAN " + str(deaths.query(0.0, 2.0).compile(compile_kwargs={"literal_binds": True}))
            )
            async with store.reading() as transaction:
                assert "runs_lost" in str((await transaction.execute(plan)).all())


def test_few_items_that_kill_many_workers_are_named() -> None:
    now = 1_000_000.0
    died = [("t1", "k", "b1", now - minute * 60) for minute in range(38)]
    losses = deaths.summed_up([*died, *((f"x{at}", "k", "b1", now - 7200 - at) for at in range(3))], now)
    assert losses.sentence == "38 of 41 dead workers within a day by 1 item"
    assert [(one.ticket, one.deaths) for one in losses.killers] == [("t1", 38)]
    assert losses.tickets == 4


def test_a_build_under_which_more_workers_die_than_usual_is_named() -> None:
    now = 3600.0 * 500 + 1800
    usual = [(f"u{hour}", "k", "b1", now - 3600.0 * hour) for hour in range(1, 7)]
    rise = [(f"t{number}", "k", "b2", now - number) for number in range(6)]
    losses = deaths.summed_up([*usual, *rise], now)
    assert [(one.what, one.value, one.deaths) for one in losses.rising] == [("kind", "k", 6), ("build", "b2", 6)]
    assert losses.killers == []

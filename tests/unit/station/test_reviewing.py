"""Whose an item is, what must wait and what was noted: compare-and-set, with a name, on both stores."""

import time
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.contract.text import printable
from gateway.station import candidates, caseload, decisions, dossier, export, groups, replays, reviewing, roster
from gateway.station.decided import Bar, Barred, Decision, DiscardCode, Done, Unknown
from gateway.station.duties import EVERY_OTHER, Duty
from gateway.station.export import AuditFilter
from gateway.station.operations import Kind
from gateway.station.replays import Begun, Plan
from gateway.station.reviewing import Clash, Noted
from gateway.station.selection import Filter
from gateway.station.store import Store
from gateway.station.tables.items import items
from tests.unit.station.patients import arrive, opened

_ANA = Decision(by="ana", reason="I know it")
_BEN = Decision(by="ben", reason="she is away")


async def _owners(store: Store) -> dict[str, str]:
    return {item.ticket: item.owner for item in await dossier.find_chosen(store, Filter())}


async def _audited(store: Store) -> list[tuple[Any, ...]]:
    lines = [line async for line in export.acts(store, AuditFilter())]
    return [(line["act"], line["actor"], line["ticket"] or line["group"]) for line in lines]


async def _find(store: Store, **chosen: Any) -> list[str]:
    return [item.ticket for item in await dossier.find_chosen(store, Filter(**chosen))]


async def test_an_item_is_its_kinds_owners_until_somebody_gives_it_away(store_url: str) -> None:
    async with opened(store_url) as store:
        for ticket, kind in (("t1", "billing"), ("t2", "other"), ("t3", "billing")):
            await arrive(store, ticket, kind=kind)
        assert set((await _owners(store)).values()) == {""}
        general, own = Duty(owner="desk"), Duty(owner="team-billing", review_within=60.0)
        assert await roster.write(store, {EVERY_OTHER: general, "billing": own})
        assert not await roster.write(store, {EVERY_OTHER: general, "billing": own})
        assert await _owners(store) == {"t1": "team-billing", "t2": "desk", "t3": "team-billing"}
        assert await reviewing.assign(store, "t1", "ana", _BEN) == Noted(ticket="t1", owner="ana")
        await roster.write(store, {EVERY_OTHER: general, "billing": Duty(owner="new")})
        assert await _owners(store) == {"t1": "ana", "t2": "desk", "t3": "new"}
        assert await _find(store, owners=("ana", "desk")) == ["t1", "t2"]
        assert await reviewing.assign(store, "t1", None, _BEN) == Noted(ticket="t1", owner="new")
        assert [act[0] for act in await _audited(store)] == ["assign", "assign"]


async def test_the_second_who_gives_an_item_away_is_told_whose_it_is(store_url: str) -> None:
    async with opened(store_url) as store:
        await arrive(store, "t1")
        assert isinstance(await reviewing.assign(store, "t1", "ana", _ANA, seen=""), Noted)
        second = await reviewing.assign(store, "t1", "ben", _BEN, seen="")
        assert second == Clash(sentence="ticket t1 is ana by now, not nobody's")
        assert await reviewing.assign(store, "none", "ben", _BEN) == Unknown(ticket="none")
        await decisions.discard(store, "t1", _ANA)
        assert isinstance(await reviewing.assign(store, "t1", "ben", _BEN), Clash)


async def test_a_ticket_on_hold_is_held_when_it_arrives_and_nobody_decides_it(store_url: str) -> None:
    async with opened(store_url) as store:
        assert await reviewing.hold(store, "t1", _ANA) == Noted(ticket="t1")
        await arrive(store, "t1")
        await arrive(store, "t2")
        found = await _find(store, on_hold=True), await _find(store, on_hold=False)
        assert found == (["t1"], ["t2"])
        for act in Kind:
            drafted = await candidates.find(store, act, Filter())
            assert [one.why is None for one in drafted] == [False, act is not Kind.RESUME]  # which is for what was sent
            assert "on hold since" in str(drafted[0].why)
        async with store.writing() as transaction:
            ends = [
                await decisions.discard_in(transaction, "t1", _BEN, DiscardCode.OTHER, operation="o"),
                await replays.begin(transaction, "t1", _BEN, Plan(operation="o")),
            ]
        assert [end.bar for end in ends if isinstance(end, Barred)] == [Bar.ON_HOLD] * 2
        assert await reviewing.release(store, "t1", _BEN) == Noted(ticket="t1")
        async with store.writing() as transaction:
            assert isinstance(await replays.begin(transaction, "t1", _BEN, Plan()), Begun)
        assert [act[:2] for act in await _audited(store)] == [("hold", "ana"), ("hold ended", "ben"), ("replay", "ben")]


async def test_the_second_who_holds_or_releases_is_told_who_was_first(store_url: str) -> None:
    async with opened(store_url) as store:
        await reviewing.hold(store, "t1", _ANA)
        second = await reviewing.hold(store, "t1", _BEN)
        assert isinstance(second, Clash)
        assert "by ana, because: I know it" in second.sentence
        assert isinstance(await reviewing.release(store, "t1", _BEN, seen=1.0), Clash)
        assert isinstance(await reviewing.release(store, "t1", _BEN), Noted)
        assert await reviewing.release(store, "t1", _BEN) == Clash(sentence="ticket t1 is not on hold")
        assert await reviewing.hold(store, "no/ticket", _BEN) == Unknown(ticket="no/ticket")


async def test_notes_are_kept_of_tickets_and_of_groups_with_what_is_still_to_come(store_url: str) -> None:
    async with opened(store_url) as store:
        await arrive(store, "t1")
        (group,) = await groups.find(store, Filter())
        text = "a\x00b \ud83d 😀"
        assert await reviewing.note(store, "t1", text, by="ana") == Noted(ticket="t1")
        assert await reviewing.note_group(store, group.id, "known", by="ben") == Noted(group=group.id)
        told = await groups.find_notes(store, ticket="t1", group=group.id)
        assert [(note.by, note.text, note.group) for note in told] == [
            ("ana", printable(text), None),
            ("ben", "known", group.id),
        ]
        assert await groups.find_notes(store) == []
        assert [act.act for act in await groups.find_acts(store, group.id)] == ["note"]
        assert await _audited(store) == [("note", "ana", "t1"), ("note", "ben", group.id)]


@pytest.mark.parametrize("over", [0, 1])
async def test_a_note_is_whole_or_refused_and_never_cut(tmp_path: Any, over: int) -> None:
    async with opened(f"sqlite+aiosqlite:///{tmp_path}/station.db") as store:
        await arrive(store, "t1")
        text = "x" * (reviewing.MAX_NOTE - 4 + over) + "😀"
        done = await reviewing.note(store, "t1", text, by="ana")
        assert isinstance(done, Clash if over else Noted)
        assert [note.text for note in await groups.find_notes(store, ticket="t1")] == ([] if over else [text])
        assert await reviewing.note(store, "t9", "x", by="ana") == Unknown(ticket="t9")
        assert await reviewing.note_group(store, "feed", "x", by="ana") == Unknown(ticket="feed")


async def test_what_waits_is_counted_by_owner_and_what_is_on_hold_is_not_overdue(store_url: str) -> None:
    now = time.time()
    async with opened(store_url) as store:
        await roster.write(
            store, {EVERY_OTHER: Duty(), "a": Duty(owner="ana", review_within=60.0), "b": Duty(owner="ben")}
        )
        for ticket, kind, age in (("t1", "a", 100), ("t2", "a", 10), ("t3", "a", 500), ("t4", "c", 900)):
            await arrive(store, ticket, kind=kind, at=now - age)
        await reviewing.hold(store, "t3", _ANA)
        async with store.reading() as transaction:
            loads = {load.owner: load for load in await caseload.loads(transaction, now)}
            states = await caseload.states(transaction, loads)
        assert set(loads) == {"", "ana", "ben"}
        ana = loads["ana"]
        assert (ana.unreviewed, ana.overdue, ana.on_hold) == (2, 1, 1)
        assert ana.oldest == pytest.approx(now - 100)
        assert ana.next_deadline == pytest.approx(now - 40)
        assert (loads[""].unreviewed, loads[""].next_deadline) == (1, None)
        assert (states["held", "ana"], states["held", ""], states["held", "ben"]) == (3, 1, 0)
        assert await _find(store, overdue=True) == ["t1"]
        assert await _find(store, overdue=False) == ["t4", "t3", "t2"]


async def test_owners_that_nobody_planned_for_do_not_become_labels_without_end(store_url: str) -> None:
    async with opened(store_url) as store:
        await roster.write(store, {EVERY_OTHER: Duty(owner="desk")})
        await arrive(store, "t1")
        async with store.writing() as transaction:
            columns = [column.name for column in items.c if column.name not in {"ticket", "assigned"}]
            for number in range(caseload.MOST_OWNERS + 20):
                named = sa.select(
                    sa.literal(f"n{number}"), sa.literal(f"owner {number}"), *(items.c[name] for name in columns)
                )
                copied = sa.insert(items).from_select(
                    ["ticket", "assigned", *columns], named.where(items.c.ticket == "t1")
                )
                await transaction.execute(copied)
        async with store.reading() as transaction:
            loads = await caseload.loads(transaction, 2.0)
            states = await caseload.states(transaction, [load.owner for load in loads])
        assert len(loads) == caseload.MOST_OWNERS + 1
        assert sum(load.unreviewed for load in loads) == caseload.MOST_OWNERS + 21
        assert {"desk", "", caseload.OTHERS} <= {load.owner for load in loads}
        assert sum(states.values()) == caseload.MOST_OWNERS + 21
        assert len({owner for _, owner in states}) == caseload.MOST_OWNERS + 1


async def test_a_restored_item_is_still_whose_it_was(store_url: str) -> None:
    async with opened(store_url) as store:
        await arrive(store, "t1")
        await reviewing.assign(store, "t1", "ana", _BEN)
        await decisions.discard(store, "t1", _ANA)
        assert isinstance(await decisions.restore(store, "t1", _BEN, window=60.0), Done)
        assert await _owners(store) == {"t1": "ana"}

"""Contents of decided items go after their time and leave a tombstone; what somebody has to look at never goes (Q9)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.outcomes import TicketState
from gateway.station import arrival as arrivals
from gateway.station import decisions, dossier, holding, tombstones
from gateway.station.decided import Decision, Done, Taken
from gateway.station.holding import ItemState
from gateway.station.retention import Facts, is_decided, removal_at
from gateway.station.store import Store
from gateway.station.tables.audit import audit
from gateway.station.tables.items import items, spooled
from gateway.station.tables.reviews import holds
from gateway.station.tables.tickets import tickets
from gateway.station.tombstones import Tombstones

NOW = 1_800_000_000.0
DAY = 86_400.0
KEEP = 90 * DAY
_MOMENTS = st.sampled_from([NOW - 91 * DAY, NOW - KEEP, NOW - 89 * DAY, NOW, NOW + DAY])
_FACTS = st.builds(
    Facts,
    state=st.sampled_from(ItemState),
    decided_at=st.none() | _MOMENTS,
    removed_at=st.none() | _MOMENTS,
    ticket_state=st.sampled_from(TicketState),
    reported_at=_MOMENTS,
    all_states=st.lists(st.sampled_from(ItemState), max_size=3),
    on_hold=st.booleans(),
)


@given(facts=_FACTS, keep=st.sampled_from([0.0, 60.0, KEEP]))
def test_what_is_undecided_or_not_ended_or_held_again_has_no_end(facts: Facts, keep: float) -> None:
    found = removal_at(facts, keep)
    if found is None:
        return
    assert keep
    assert not facts.on_hold
    assert {facts.state, *facts.all_states} <= {ItemState.REPLAYED, ItemState.DISCARDED}
    assert facts.ticket_state in {TicketState.DONE, TicketState.DISCARDED}
    assert facts.decided_at is not None
    assert found >= max(facts.decided_at, facts.reported_at) + keep


def test_a_discarded_item_goes_when_its_time_is_over() -> None:
    discarded = Facts(
        state=ItemState.DISCARDED,
        decided_at=NOW,
        removed_at=None,
        ticket_state=TicketState.DISCARDED,
        reported_at=NOW,
        all_states=[ItemState.DISCARDED],
    )
    assert removal_at(discarded, KEEP) == NOW + KEEP
    assert removal_at(replace(discarded, removed_at=NOW), KEEP) is None


_OLD, _NEW = NOW - KEEP, NOW - KEEP + 1
_GENERATIONS = list(product(ItemState, (_OLD, _NEW)))
_EVERY_TICKET = [
    (state, at, generations)
    for state, at in product(TicketState, (_OLD, _NEW))
    for generations in ([[one] for one in _GENERATIONS] + [list(pair) for pair in product(_GENERATIONS, repeat=2)])
]


async def _lay_out(store: Store, drawn: Sequence[Any]) -> None:
    of_tickets, of_items = [], []
    stamp = {"generation": 0, "attempt": 1, "interruptions": 0, "attempts": 1}
    for number, (state, at, generations) in enumerate(drawn):
        about = {"ticket": f"t{number}", "kind": "k"}
        of_tickets.append({**about, **stamp, "state": state.value, "rank": 0, "charged": 0, "updated_at": at})
        for generation, (item_state, decided_at) in enumerate(generations):
            row = {**about, **stamp, "generation": generation, "state": item_state.value, "reason": "rejected"}
            row |= {"came_as": about["ticket"], "malformed": 0, "crashes": 0, "history_total": 0, "arrived_at": 1.0}
            row |= {"body": b"b" * 10, "digest": "d", "properties": b"p", "headers": '{"h":1}'}
            row |= {"decided_at": decided_at if is_decided(item_state) else None}
            of_items.append(row)
    async with store.writing() as transaction:
        await transaction.execute(sa.insert(tickets), of_tickets)
        await transaction.execute(sa.insert(items), of_items)
        waiting = [{"ticket": f"t{number}", "by": "b", "reason": "r", "since": 1.0} for number in _on_hold(drawn)]
        await transaction.execute(sa.insert(holds), waiting)


def _on_hold(drawn: Sequence[Any]) -> range:
    return range(0, len(drawn), 7)


async def _whole(store: Store) -> set[tuple[str, int]]:
    async with store.reading() as transaction:
        rows = await transaction.execute(sa.select(items.c.ticket, items.c.generation).where(items.c.body != b""))
        return {(row.ticket, row.generation) for row in rows}


async def test_the_store_removes_what_the_rule_says_and_nothing_else(store_url: str) -> None:
    store = await Store.open(store_url)
    await _lay_out(store, _EVERY_TICKET)
    due = set()
    for number, (state, at, generations) in enumerate(_EVERY_TICKET):
        for generation, (item_state, decided_at) in enumerate(generations):
            facts = Facts(
                state=item_state,
                decided_at=decided_at if is_decided(item_state) else None,
                removed_at=None,
                ticket_state=state,
                reported_at=at,
                all_states=[one for one, _ in generations],
                on_hold=number in _on_hold(_EVERY_TICKET),
            )
            goes_at = removal_at(facts, KEEP)
            if goes_at is not None and goes_at <= NOW:
                due.add((f"t{number}", generation))
    assert due
    before, sweeper = await _whole(store), Tombstones(store=store, keep=KEEP, clock=lambda: NOW)
    removed = [await sweeper.sweep() for _ in range(0, len(due) + 1, tombstones.BATCH)]
    assert sum(removed) == len(due)
    assert await sweeper.sweep() == 0
    assert before - await _whole(store) == due
    await store.close()


async def _hold(store: Store, ticket: str, *, spool_path: str | None = None) -> None:
    wire = envelopes.encode(
        Envelope(ticket=TicketId(ticket), kind="k", body=b"secret", content_type="text/plain", reason="rejected")
    )
    async with store.writing() as transaction:
        found = arrivals.read(wire)
        await holding.take_in(transaction, found, channels=["log"], now=NOW, spool_path=spool_path)


async def test_a_tombstone_keeps_who_decided_what_and_the_audit(store_url: str, tmp_path: Path) -> None:
    store = await Store.open(store_url)
    raw = tmp_path / "raw.body"
    raw.write_bytes(b"raw")
    raw.with_suffix(".json").write_text("{}", "utf-8")
    await _hold(store, "gone", spool_path=str(raw))
    await _hold(store, "held")
    async with store.writing() as transaction:
        await transaction.execute(sa.insert(spooled).values(path=str(raw), at=NOW, source="s", error="e"))
    assert isinstance(await decisions.discard(store, "gone", Decision(by="ada", reason="spam")), Done)
    before = await dossier.find(store, "gone")
    assert before is not None
    due = tombstones.countdown(before, before.items[0], KEEP)
    assert due is not None
    assert await Tombstones(store=store, keep=KEEP, clock=lambda: due - 1).sweep() == 0
    assert raw.exists()
    assert await Tombstones(store=store, keep=KEEP, clock=lambda: due).sweep() == 1
    assert await Tombstones(store=store, keep=KEEP, clock=lambda: due).sweep() == 0

    after = await dossier.find(store, "gone")
    assert after is not None
    assert after.items == [replace(before.items[0], removed_at=due)]
    assert (after.items[0].size, after.items[0].decided_by) == (len(b"secret"), "ada")
    assert [(act.actor, act.act) for act in after.acts] == [("ada", "discard"), ("retention", "contents removed")]
    assert (await dossier.find_content(store, "gone", 0)).body == b""
    assert (await dossier.find_content(store, "held", 0)).body == b"secret"
    assert not raw.exists()
    assert not raw.with_suffix(".json").exists()
    async with store.reading() as transaction:
        assert (await transaction.scalars(sa.select(spooled.c.path))).all() == []
        assert await transaction.scalar(sa.select(sa.func.count()).select_from(audit)) == 2
    assert isinstance(await decisions.discard(store, "gone", Decision(by="bob", reason="again")), Taken)
    await _hold(store, "gone")  # delivered once more: what is known of it is enough to know it again
    assert await dossier.find(store, "gone") == after
    await store.close()


async def test_a_raw_file_stays_as_long_as_its_removal_is_not_committed(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    raw = tmp_path / "raw.body"
    raw.write_bytes(b"raw")
    for ticket, path in (("a", str(raw)), ("b", None)):
        await _hold(store, ticket, spool_path=path)
        await decisions.discard(store, ticket, Decision(by="ada", reason="spam"))
    fails = "CREATE TRIGGER full BEFORE INSERT ON audit WHEN NEW.ticket = 'b' BEGIN SELECT RAISE(ABORT, 'full'); END"
    async with store.writing() as transaction:
        await transaction.execute(sa.insert(spooled).values(path=str(raw), at=NOW, source="s", error="e"))
        await transaction.exec_driver_sql(fails)
    sweeper = Tombstones(store=store, keep=1.0, clock=lambda: NOW * 2)
    with pytest.raises(sa.exc.SQLAlchemyError, match="full"):
        await sweeper.sweep()
    assert raw.exists()
    assert isinstance(await decisions.restore(store, "a", Decision(by="bob", reason="no spam"), window=NOW), Done)
    await decisions.discard(store, "a", Decision(by="bob", reason="spam after all"))
    async with store.writing() as transaction:
        await transaction.exec_driver_sql("DROP TRIGGER full")
    assert await sweeper.sweep() == 2
    assert not raw.exists()
    await store.close()


async def test_a_raw_file_that_cannot_be_removed_stays_on_record_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    stubborn = tmp_path / "folder.body"
    stubborn.mkdir()
    for ticket, path in (("a", str(stubborn)), ("b", None)):
        await _hold(store, ticket, spool_path=path)
        await decisions.discard(store, ticket, Decision(by="ada", reason="spam"))
    async with store.writing() as transaction:
        await transaction.execute(sa.insert(spooled).values(path=str(stubborn), at=NOW, source="s", error="e"))
    assert await Tombstones(store=store, keep=1.0, clock=lambda: NOW * 2).sweep() == 2
    async with store.reading() as transaction:
        assert (await transaction.scalars(sa.select(spooled.c.path))).all() == [str(stubborn)]
    await store.close()


@pytest.mark.parametrize("state", ItemState)
async def test_a_replay_that_never_ends_keeps_its_original(tmp_path: Path, state: ItemState) -> None:
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    await _lay_out(store, [(TicketState.ACCEPTED, 1.0, [(state, 1.0)])])
    assert await Tombstones(store=store, keep=1.0, clock=lambda: NOW).sweep() == 0
    await store.close()

"""What is over goes after its time; what somebody is owed, has to look at, or may still use, never does (Q9)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.station import arrival as arrivals
from gateway.station import figures, holding
from gateway.station.holding import AlertEvent
from gateway.station.store import Store
from gateway.station.sweeper import BATCH, COUNTED_BY_THE_MINUTE, Sweeper, rules
from gateway.station.tables.alerts import notices
from gateway.station.tables.callbacks import callbacks
from gateway.station.tables.items import items
from gateway.station.tables.operations import operation_items, operations
from gateway.station.tables.refusals import passes, refusal_counts, refusal_facts, refusals
from gateway.station.tables.tickets import runs, tickets

NOW = 1_800_000_000.0
KEEP = 30 * 86_400.0
OLD, YOUNG = NOW - KEEP - 1, NOW - KEEP + 1


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _insert(store: Store, table: sa.Table, *rows: Mapping[str, Any]) -> None:
    async with store.writing() as transaction:
        await transaction.execute(sa.insert(table), list(rows))


async def _left(store: Store, column: sa.Column[Any]) -> set[Any]:
    async with store.reading() as transaction:
        return set((await transaction.scalars(sa.select(column))).all())


async def _sweep(store: Store, *, tickets: float = KEEP, refusals: float = KEEP, operations: float = KEEP) -> int:
    kept = rules(tickets=tickets, refusals=refusals, operations=operations)
    sweeper = Sweeper(store=store, rules=kept, clock=lambda: NOW)
    return await sweeper.sweep(asyncio.Event())


def _ticket(name: str, state: str, at: float = OLD) -> dict[str, Any]:
    numbers = dict.fromkeys(("rank", "generation", "attempt", "interruptions", "attempts", "charged"), 1)
    return {"ticket": name, "kind": "k", "state": state, "client": "acme", "updated_at": at, **numbers}


def _run(name: str) -> dict[str, Any]:
    numbers = dict.fromkeys(("generation", "attempt", "interruptions", "trust"), 1)
    words = {"kind": "k", "outcome": "succeeded", "node": "n", "evidence": "{}"}
    return {"ticket": name, "reported_at": OLD, **numbers, **words}


def _callback(name: str, *, sent: float | None = None, dead: float | None = None) -> dict[str, Any]:
    words = {"ticket": name, "state": "done", "client": "acme", "event_id": name, "document": "{}"}
    times = {"created_at": OLD, "due_at": OLD, "sent_at": sent, "dead_at": dead}
    return {**words, **times, "generation": 0, "tries": 3}


async def _hold(store: Store, name: str) -> None:
    item = Envelope(ticket=TicketId(name), kind="k", body=b"", content_type="text/plain", reason="rejected")
    async with store.writing() as transaction:
        await holding.take_in(transaction, arrivals.read(envelopes.encode(item)), channels=["log"], now=OLD)


async def test_a_ticket_that_ended_goes_with_its_runs_unless_it_is_young_was_held_or_is_owed(store: Store) -> None:
    await _hold(store, "held-once")
    over, kept = ("done", "discarded", "given-up"), ("young", "running", "owed")
    await _insert(
        store,
        tickets,
        _ticket("done", "done"),
        _ticket("discarded", "discarded"),
        _ticket("given-up", "done"),
        _ticket("young", "done", YOUNG),
        _ticket("running", "running"),
        _ticket("owed", "done"),
    )
    async with store.writing() as transaction:
        await transaction.execute(sa.update(tickets).filter_by(ticket="held-once").values(state="done", updated_at=OLD))
    await _insert(store, runs, *map(_run, (*over, *kept, "held-once")))
    await _insert(store, callbacks, _callback("owed"), _callback("given-up", dead=OLD))

    await _sweep(store)

    assert await _left(store, tickets.c.ticket) == {*kept, "held-once"}
    assert await _left(store, runs.c.ticket) == {*kept, "held-once"}
    assert await _left(store, callbacks.c.ticket) == {"owed", "given-up"}


async def test_a_callback_that_was_taken_goes_after_its_ticket_and_stays_counted(store: Store) -> None:
    await _insert(store, tickets, _ticket("there", "running"))
    told = (_callback("there", sent=OLD), _callback("gone", sent=OLD), _callback("young", sent=YOUNG))
    await _insert(store, callbacks, *told, _callback("dead", dead=OLD), _callback("open"))
    before = figures.render(await figures.count(store)).decode()

    await _sweep(store)

    assert await _left(store, callbacks.c.ticket) == {"there", "young", "dead", "open"}
    after = figures.render(await figures.count(store)).decode()
    assert _lines(after, "lazaretto_callbacks_total") == _lines(before, "lazaretto_callbacks_total")
    assert _lines(after, "lazaretto_removed_rows_total") == ['lazaretto_removed_rows_total{table="callbacks"} 1.0']


def _lines(exposition: str, name: str) -> list[str]:
    return [line for line in exposition.splitlines() if line.startswith(name + "{")]


async def test_a_refusal_goes_with_its_facts_unless_somebody_may_still_come_in_by_it(store: Store) -> None:
    names = {"old": OLD, "young": YOUNG, "let-in": OLD, "was-let-in": OLD}
    words = {"kind": "k", "node": "d", "client": "acme", "violations": "[]"}
    await _insert(store, refusals, *({"id": name, "at": at, "ticket": name, **words} for name, at in names.items()))
    await _insert(store, refusal_facts, *({"refusal": name, "facts": "{}"} for name in names))
    given = {"fingerprint": "f", "client": "acme", "kind": "k", "by": "ada", "reason": "r", "given_at": OLD}
    expiries = {"let-in": NOW + 1, "was-let-in": OLD, "young": YOUNG}
    await _insert(
        store, passes, *({"id": name, "refusal": name, "expires_at": end, **given} for name, end in expiries.items())
    )

    await _sweep(store)

    assert await _left(store, refusals.c.id) == {"young", "let-in"}
    assert await _left(store, refusal_facts.c.refusal) == {"young", "let-in"}
    assert await _left(store, passes.c.id) == {"young", "let-in"}


async def test_an_alert_about_no_item_goes_once_every_channel_had_it_and_stays_counted(store: Store) -> None:
    def row(window: float, channel: str, sent: float | None) -> dict[str, Any]:
        words = {"event": AlertEvent.REFUSALS_SURGED.value, "subject": "max_tokens", "channel": channel}
        texts = dict.fromkeys(("title", "text", "fields"), "x")
        return {**words, **texts, "window": window, "created_at": OLD, "due_at": OLD, "tries": 1, "sent_at": sent}

    sent = (row(1, "log", OLD), row(1, "mail", OLD))
    owed = (row(2, "log", OLD), row(2, "mail", None))
    young = (row(3, "log", OLD), row(3, "mail", YOUNG))
    await _insert(store, notices, *sent, *owed, *young)
    before = figures.render(await figures.count(store)).decode()

    await _sweep(store)

    assert await _left(store, notices.c.window) == {2, 3}
    after = figures.render(await figures.count(store)).decode()
    assert _lines(after, "lazaretto_refusal_surges_total") == _lines(before, "lazaretto_refusal_surges_total")


async def test_counts_by_the_minute_are_put_together_and_none_is_lost(store: Store) -> None:
    fine = int(NOW - COUNTED_BY_THE_MINUTE) + 60
    minutes = [int(OLD) - 60 * number for number in range(10)]
    rows = [{"rule": rule, "minute": minute, "number": 2} for rule in ("a", "b") for minute in (*minutes, fine)]
    await _insert(store, refusal_counts, *rows)

    for _ in range(2):
        await _sweep(store, refusals=60)

    assert await _left(store, refusal_counts.c.minute) == {0, fine}
    assert dict((await figures.count(store)).refusals) == {"a": 22, "b": 22}


async def test_as_many_as_there_are_go_in_one_sweep_and_none_where_all_are_kept(store: Store) -> None:
    many = 2 * BATCH + 1
    await _insert(store, tickets, *(_ticket(f"t{number}", "done") for number in range(many)))

    assert await _sweep(store, tickets=0, refusals=0) == 0
    assert len(await _left(store, tickets.c.ticket)) == many
    assert await _sweep(store) == many
    assert await _left(store, tickets.c.ticket) == set()


def _operation(name: str, state: str, ended: float | None) -> dict[str, Any]:
    words = {"act": "replay", "lane": "work", "request": "{}", "created_by": "ana"}
    return {
        "id": name,
        "state": state,
        "ended_at": ended,
        "pace": 1.0,
        "canary": 0,
        "total": 1,
        "created_at": 1.0,
        **words,
    }


def _turns(name: str, *tickets: str) -> list[dict[str, Any]]:
    return [
        {"operation": name, "position": position, "ticket": ticket, "generation": 0, "state": "taken"}
        for position, ticket in enumerate(tickets)
    ]


async def test_operations_go_when_they_are_over_and_none_that_somebody_has_to_look_at(store: Store) -> None:
    for ticket in ("held", "doubtful"):
        await _hold(store, ticket)
    async with store.writing() as transaction:
        await transaction.execute(sa.update(items).filter_by(ticket="doubtful").values(state="replaying"))
    await _insert(
        store,
        operations,
        _operation("large", "ended", OLD),
        _operation("stopped", "stopped", OLD),
        _operation("young", "ended", YOUNG),
        _operation("in doubt", "ended", OLD),
        _operation("halted", "halted", None),
        _operation("running", "running", None),
    )
    many = [f"t{number}" for number in range(2 * BATCH + 1)]
    lines = [
        *_turns("large", *many),
        *_turns("stopped", "held"),
        *_turns("young", "t"),
        *_turns("in doubt", "doubtful"),
    ]
    await _insert(store, operation_items, *lines, *_turns("halted", "t"), *_turns("running", "t"))
    await _sweep(store, operations=0)
    assert len(await _left(store, operations.c.id)) == 6
    await _sweep(store)
    kept = {"young", "in doubt", "halted", "running"}
    assert await _left(store, operations.c.id) == kept
    assert await _left(store, operation_items.c.operation) == kept

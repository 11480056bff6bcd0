"""Asks store and broker whether they agree, again and again, and owes an alert where they do not.

Owns the questions, which are answered by indexes, and the rows of `notices` about mismatches: one for each kind and
day. What is a mismatch is said by `agreement`. Mends nothing: what to do is a person's decision.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.amqp import broker
from gateway.contract.logs import event
from gateway.contract.outcomes import TicketState
from gateway.contract.topology import Topology
from gateway.station.agreement import Depths, Finding, Look, Suspects, compare
from gateway.station.holding import AlertEvent, ItemState
from gateway.station.ledger import Trust
from gateway.station.pauses import pause
from gateway.station.standings import insert
from gateway.station.storable import document
from gateway.station.store import Store
from gateway.station.tables.alerts import notices
from gateway.station.tables.items import items
from gateway.station.tables.tickets import runs, tickets
from gateway.station.vitals import Vitals

CONNECT_DEADLINE: Final = 5.0
SHOWN: Final = 10
SILENT_FOR: Final = 120.0
"""Seconds without a beat after which a node is dead for this purpose; others judge it far earlier."""
_DAY: Final = 86_400.0

STARTS: Final = sa.table(
    "starts", *(sa.column(name) for name in ("ticket", "generation", "attempt", "holder", "closed", "decision"))
)
NODES: Final = sa.table("nodes", sa.column("node"), sa.column("beat_at"))
"""As much of the fence's tables as is asked here."""

logger: Final = logging.getLogger("lazaretto.reconciler")

Ask = Callable[[], Awaitable[Depths | None]]


class Reconciler:
    """The looking. `run` until `stop` is set."""

    def __init__(
        self,
        *,
        store: Store,
        ask: Ask,
        channels: Sequence[str],
        vitals: Vitals,
        every: float,
        patience: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._ask = ask
        self._channels = channels
        self._vitals = vitals
        self._every = every
        self._patience = patience
        self._clock = clock
        self._before: Look | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Look every so often; while the store cannot be used, wait for it."""
        while not stop.is_set() and self._every:
            try:
                await self.look()
            except (sa.exc.SQLAlchemyError, OSError) as error:
                event(logger, "reconcile.waits", logging.WARNING, error=error)
            await pause(stop, self._every)

    async def look(self) -> list[Finding]:
        """Look once, write down what was found, and owe an alert for what nobody was told of today."""
        look = await look_at(self._store, await self._ask(), patience=self._patience, now=self._clock())
        found, self._before = compare(look, self._before), look
        self._vitals.findings = found
        for finding in found:
            event(logger, "reconcile.mismatch", logging.WARNING, what=finding.mismatch, number=finding.number)
        rows = [_notice(finding, channel, look.at) for finding in found for channel in self._channels]
        if rows:
            async with self._store.writing() as transaction:
                statement = insert(transaction.dialect.name, notices).on_conflict_do_nothing()
                await transaction.execute(statement, rows)
        return found


def asker(urls: Sequence[str], topology: Topology) -> Ask:
    """Return what asks a broker for its depths; None comes out while it cannot be asked."""
    on_their_way = [
        queue.name
        for queue in topology.queues()
        if queue.name not in {topology.quarantine_queue, topology.journal_queue}
    ]

    async def ask() -> Depths | None:
        try:
            connection = await broker.connect(urls, name="station reconciler", deadline=CONNECT_DEADLINE)
        except broker.BrokerUnreachable as error:
            event(logger, "reconcile.blind", logging.WARNING, error=error)
            return None
        try:
            channel = await broker.open_channel(connection)
            names = [topology.quarantine_queue, topology.journal_queue, *on_their_way]
            counted = [depth.messages for depth in await broker.depths(channel, names)]
        except broker.LOST as error:
            event(logger, "reconcile.blind", logging.WARNING, error=error)
            return None
        finally:
            await broker.close(connection)
        return Depths(quarantine=counted[0], journal=counted[1], on_their_way=sum(counted[2:]))

    return ask


async def look_at(store: Store, depths: Depths | None, *, patience: float, now: float) -> Look:
    """Ask the store everything in one transaction; suspects are those who are so for `patience` seconds."""
    since = now - patience
    async with store.reading() as transaction:
        return Look(
            at=now,
            depths=depths,
            unkept=await _suspects(transaction, _unkept(since)),
            untold=await _suspects(transaction, _untold(since)),
            unseen=await _suspects(transaction, _unseen(since)),
            unconfirmed=await _suspects(transaction, _unconfirmed(since)),
            orphaned=await _orphaned(transaction, since, now - SILENT_FOR),
            kept_at=await _kept_at(transaction),
        )


async def _suspects(transaction: AsyncConnection, query: sa.Select[Any]) -> Suspects:
    counted = query.add_columns(sa.func.count().over().label("number")).limit(SHOWN)
    rows = (await transaction.execute(counted)).all()
    return Suspects(number=rows[0].number if rows else 0, tickets=[row.ticket for row in rows])


def _unkept(since: float) -> sa.Select[Any]:
    kept = sa.exists().where(items.c.ticket == tickets.c.ticket, items.c.generation == tickets.c.generation)
    query = sa.select(tickets.c.ticket).filter_by(state=TicketState.QUARANTINED.value)
    return query.where(tickets.c.updated_at <= since, sa.not_(kept))


def _untold(since: float) -> sa.Select[Any]:
    told = sa.exists().where(
        runs.c.ticket == items.c.ticket, runs.c.generation == items.c.generation, runs.c.trust > Trust.HISTORY
    )
    query = sa.select(items.c.ticket).filter_by(state=ItemState.HELD.value)
    return query.where(items.c.arrived_at <= since, items.c.attempts > 0, sa.not_(told))


def _unseen(since: float) -> sa.Select[Any]:
    # From the tickets that wait for their first start, which are few, to the items that they were.
    query = sa.select(tickets.c.ticket).filter_by(state=TicketState.ACCEPTED.value)
    sent = sa.exists().where(
        items.c.ticket == tickets.c.ticket,
        items.c.generation == tickets.c.generation - 1,
        items.c.state == ItemState.REPLAYED.value,
    )
    return query.where(tickets.c.generation > 0, tickets.c.updated_at <= since, sent)


def _unconfirmed(since: float) -> sa.Select[Any]:
    return sa.select(items.c.ticket).filter_by(state=ItemState.REPLAYING.value).where(items.c.decided_at <= since)


async def _orphaned(transaction: AsyncConnection, since: float, silent_since: float) -> Suspects:
    there = set(await transaction.run_sync(lambda connection: sa.inspect(connection).get_table_names()))
    if not {STARTS.name, NODES.name} <= there:
        return Suspects()  # no node has ever recorded a start here
    alive = sa.exists().where(NODES.c.node == STARTS.c.holder, NODES.c.beat_at > silent_since)
    held = sa.exists().where(
        STARTS.c.ticket == tickets.c.ticket,
        STARTS.c.generation == tickets.c.generation,
        STARTS.c.attempt == tickets.c.attempt,
        sa.not_(STARTS.c.closed),
        STARTS.c.decision.is_(None),
        sa.not_(alive),
    )
    query = sa.select(tickets.c.ticket).filter_by(state=TicketState.RUNNING.value)
    return await _suspects(transaction, query.where(tickets.c.updated_at <= since, held))


async def _kept_at(transaction: AsyncConnection) -> float | None:
    newest = [
        await transaction.scalar(sa.select(sa.func.max(items.c.arrived_at)).filter_by(state=state.value))
        for state in ItemState
    ]
    return max((moment for moment in newest if moment is not None), default=None)


def _notice(finding: Finding, channel: str, now: float) -> dict[str, Any]:
    named = f" First: {', '.join(finding.tickets)}." if finding.tickets else ""
    return {
        "event": AlertEvent.MISMATCH.value,
        "subject": finding.mismatch.value,
        "window": now // _DAY * _DAY,
        "channel": channel,
        "title": f"Queue, store and journal disagree: {finding.mismatch.replace('_', ' ')}",
        "text": f"{finding.sentence}.{named} `reconcile` tells more.",
        "fields": document({"mismatch": finding.mismatch.value, "count": finding.number, "tickets": finding.tickets}),
        "created_at": now,
        "due_at": now,
        "tries": 0,
    }

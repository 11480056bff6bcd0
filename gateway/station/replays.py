"""An item sent again as its next generation: begun in the store, published, concluded by the confirm.

Owns the table `replays` and the order of the three steps. A process that dies between them leaves an item that is
`replaying`: sent, unconfirmed. It is never sent again by itself; a report of the new generation proves that it had
arrived (`gateway.station.proofs`), and a person may resume it.
"""

import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.envelope import Admission
from gateway.contract.outcomes import Stamp, Standing, TicketState
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.station import acts, doubts, holds, item_rows, successor
from gateway.station.acts import Act
from gateway.station.decided import Bar, Barred, Decision, Done, Doubtful, Taken, Unknown, Unsent
from gateway.station.holding import ItemState
from gateway.station.operations import State, Turn
from gateway.station.sender import NotSent, Sender, Unconfirmed
from gateway.station.standings import insert
from gateway.station.storable import document, parsed, storable
from gateway.station.store import Store
from gateway.station.successor import Change
from gateway.station.tables.items import items
from gateway.station.tables.operations import operation_items, operations, replays
from gateway.station.tables.tickets import tickets

UNLIMITED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How an item is to be sent again."""

    lane: Lane = Lane.WORK
    change: Change | None = None
    generation: int | None = None
    """The generation that the reviewer saw; another one by now is somebody else's decision."""
    limit: int = UNLIMITED
    """How many times an item may be replayed."""
    operation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What is to be published now; nobody else will."""

    ticket: str
    generation: int
    """The item's own; what is sent is the next one."""
    wire: Wire | None = field(repr=False)
    """None where a report has proven that an earlier replay had arrived."""
    lane: Lane
    row: Any = field(repr=False)
    begun_at: float
    """Unix seconds; tells this sending from one that somebody resumed since."""
    resumed: bool = False
    operation: str | None = None
    """Whose turn it was, where it is one of many."""


async def replay(
    store: Store, sender: Sender, topology: Topology, ticket: str, decision: Decision, *, plan: Plan | None = None
) -> Done | Unknown | Taken | Barred | Unsent | Doubtful:
    """Send an item again as its next generation."""
    async with store.writing() as transaction:
        begun = await begin(transaction, ticket, decision, plan or Plan())
    return await publish(store, sender, topology, begun, decision) if isinstance(begun, Begun) else begun


async def resume(
    store: Store, sender: Sender, topology: Topology, ticket: str, decision: Decision
) -> Done | Unknown | Taken | Barred | Unsent | Doubtful:
    """Send again what an earlier replay left in doubt.

    Both copies would carry the same stamp, so that the fence lets one of them start.
    """
    async with store.writing() as transaction:
        begun = await resume_in(transaction, ticket, decision)
    return await publish(store, sender, topology, begun, decision) if isinstance(begun, Begun) else begun


async def begin(
    transaction: AsyncConnection, ticket: str, decision: Decision, plan: Plan
) -> Begun | Unknown | Taken | Barred:
    """Take an item for a replay, in a transaction of the caller's; who comes second is told who was first."""
    row = await item_rows.newest(transaction, ticket)
    if row is None:
        return Unknown(ticket=ticket)
    if row.state != ItemState.HELD or plan.generation not in (None, row.generation):
        return await item_rows.gone(transaction, row, plan.generation)
    if (hold := await holds.find(transaction, ticket)) is not None:
        return hold.bar
    barred = await _barred(transaction, row, plan.limit)
    if barred is not None:
        return barred
    wire = successor.message(row, plan.lane, plan.change)
    if isinstance(wire, Barred):
        return wire
    now = time.time()
    await item_rows.decide(transaction, row, ItemState.REPLAYING, decision, now)
    await transaction.execute(_remember(transaction, row, decision, plan, now))
    await _note(transaction, row, decision, Act.REPLAY, plan.operation)
    return Begun(
        ticket=ticket,
        generation=row.generation,
        wire=wire,
        lane=plan.lane,
        row=row,
        begun_at=now,
        operation=plan.operation,
    )


async def resume_in(
    transaction: AsyncConnection,
    ticket: str,
    decision: Decision,
    *,
    generation: int | None = None,
    operation: str | None = None,
) -> Begun | Unknown | Taken | Barred:
    """Take what is in doubt to be sent again, in a transaction of the caller's; `generation` as the reviewer saw it."""
    row = await item_rows.newest(transaction, ticket)
    if row is None:
        return Unknown(ticket=ticket)
    if row.state != ItemState.REPLAYING or generation not in (None, row.generation):
        return await item_rows.gone(transaction, row, generation)
    if (hold := await holds.find(transaction, ticket)) is not None:
        return hold.bar
    told = (
        await transaction.execute(sa.select(replays).filter_by(ticket=ticket, generation=row.generation))
    ).one_or_none()
    now = time.time()
    if told is not None and (sending := doubts.still_sending(told, now)) is not None:
        return sending
    lane, wire = Lane.WORK if told is None else Lane(told.lane), None
    if not await _started_anyway(transaction, row):
        made = successor.message(row, lane, None if told is None else _change(told))
        if isinstance(made, Barred):
            return made
        wire = made
    await transaction.execute(_of(row).values(begun_at=now, in_doubt=0))
    await _note(transaction, row, decision, Act.REPLAY_RESUMED, operation)
    return Begun(
        ticket=ticket,
        generation=row.generation,
        wire=wire,
        lane=lane,
        row=row,
        begun_at=now,
        resumed=True,
        operation=operation,
    )


async def publish(
    store: Store, sender: Sender, topology: Topology, begun: Begun, decision: Decision
) -> Done | Unsent | Doubtful:
    """Send what was begun; it leaves quarantine only after the confirm of a routed publish."""
    if begun.wire is not None:
        try:
            await sender.send_on(topology.to_lane(begun.lane), begun.wire)
        except NotSent as error:
            async with store.writing() as transaction:
                if begun.resumed:
                    await _doubt(transaction, begun)
                    await _give_turn_back(transaction, begun)
                else:
                    await _take_back(transaction, begun, decision, str(error))
            return Unsent(why=str(error))
        except Unconfirmed as error:
            async with store.writing() as transaction:
                await _doubt(transaction, begun)
            return Doubtful(why=str(error))
    async with store.writing() as transaction:
        await conclude(transaction, begun.row, time.time())
    return Done(ticket=begun.ticket, generation=begun.generation + 1)


async def conclude(transaction: AsyncConnection, row: Any, now: float) -> None:
    """Let an item leave quarantine: its next generation is with the broker. Does nothing when that is known already."""
    stamp = Stamp(generation=row.generation + 1, attempt=1, interruptions=0)
    await item_rows.stand(transaction, row, Standing(stamp=stamp, state=TicketState.ACCEPTED), attempts=0, now=now)
    replaying = item_rows.update(row).where(items.c.state == ItemState.REPLAYING)
    if (await transaction.execute(replaying.values(state=ItemState.REPLAYED.value))).rowcount:
        await transaction.execute(_of(row).values(confirmed_at=now, in_doubt=0))
        await item_rows.resolve(transaction, row, now)


def bar(row: Any, replayed: int, limit: int) -> Barred | None:
    """Say why an item that is held may not be replayed; `replayed` is how many times it was. Needs no body."""
    if row.spool_path is not None:
        return Barred(bar=Bar.RAW_FILE, why=f"its message is only kept as a raw file, {row.spool_path}")
    if limit != UNLIMITED and replayed >= limit:
        why = f"it was replayed {replayed} times, and LAZARETTO_REPLAY_LIMIT is {limit}: discard it, or raise that"
        return Barred(bar=Bar.REPLAY_LIMIT, why=why)
    return None


async def _barred(transaction: AsyncConnection, row: Any, limit: int) -> Barred | None:
    counting = sa.select(sa.func.count()).select_from(replays).filter_by(ticket=row.ticket)
    return bar(row, await transaction.scalar(counting) or 0, limit)


def _change(told: Any) -> Change | None:
    if told.body is None:
        return None
    admission = parsed(told.admission)
    return Change(
        body=bytes(told.body),
        content_type=told.content_type,
        admission=Admission(**{**admission, "marked": tuple(admission["marked"])}),
        difference=told.difference,
    )


def _remember(transaction: AsyncConnection, row: Any, decision: Decision, plan: Plan, now: float) -> sa.Executable:
    change = plan.change
    values = {
        "lane": plan.lane.value,
        "operation": plan.operation,
        "by": storable(decision.by),
        "begun_at": now,
        "in_doubt": 0,
        "confirmed_at": None,
        "content_type": None if change is None else storable(change.content_type),
        "body": None if change is None else change.body,
        "admission": None if change is None else document(asdict(change.admission)),
        "difference": None if change is None else storable(change.difference),
    }
    statement = insert(transaction.dialect.name, replays).values(ticket=row.ticket, generation=row.generation, **values)
    found: sa.Executable = statement.on_conflict_do_update(index_elements=["ticket", "generation"], set_=values)
    return found


async def _doubt(transaction: AsyncConnection, begun: Begun) -> None:
    """Let it be resumed at once, unless somebody has resumed it already."""
    await transaction.execute(_of(begun.row).where(replays.c.begun_at == begun.begun_at).values(in_doubt=1))


async def _take_back(transaction: AsyncConnection, begun: Begun, decision: Decision, why: str) -> None:
    """Hold an item as before: it certainly was not sent. An operation that had taken it may take it again.

    Not if somebody has resumed it meanwhile: what he sends is not to be held beside it.
    """
    row = await item_rows.newest(transaction, begun.ticket)
    if row is None or row.state != ItemState.REPLAYING:
        return
    mine = sa.select(replays.c.operation).filter_by(
        ticket=row.ticket, generation=begun.generation, begun_at=begun.begun_at
    )
    found = (await transaction.execute(mine)).one_or_none()
    if found is None or row.generation != begun.generation:
        return
    await item_rows.hold(transaction, row)
    await transaction.execute(sa.delete(replays).filter_by(ticket=row.ticket, generation=row.generation))
    await _give_turn_back(transaction, begun)
    await _note(transaction, row, Decision(by=decision.by, reason=why), Act.REPLAY_NOT_SENT, begun.operation)


async def _give_turn_back(transaction: AsyncConnection, begun: Begun) -> None:
    """Let an operation take an item again that certainly was not sent; one that has ended meanwhile has not, then.

    Another process may have found nothing more to be done while this one did not get on with its sending.
    """
    if begun.operation is None:
        return
    taken = sa.update(operation_items).filter_by(
        operation=begun.operation, ticket=begun.ticket, generation=begun.generation
    )
    await transaction.execute(taken.values(state=Turn.WAITING.value, at=None))
    ended = sa.update(operations).filter_by(id=begun.operation, state=State.ENDED.value)
    await transaction.execute(ended.values(state=State.RUNNING.value, ended_at=None, holder=None, held_until=None))


async def _started_anyway(transaction: AsyncConnection, row: Any) -> bool:
    """Tell whether a report of the next generation proves that an earlier replay did reach the broker."""
    generation: int | None = await transaction.scalar(sa.select(tickets.c.generation).filter_by(ticket=row.ticket))
    return generation is not None and generation > row.generation


async def _note(transaction: AsyncConnection, row: Any, decision: Decision, act: Act, operation: str | None) -> None:
    await acts.note(
        transaction,
        act=act,
        by=decision.by,
        reason=decision.reason,
        ticket=row.ticket,
        generation=row.generation,
        operation=operation,
    )


def _of(row: Any) -> sa.Update:
    return sa.update(replays).where(replays.c.ticket == row.ticket, replays.c.generation == row.generation)

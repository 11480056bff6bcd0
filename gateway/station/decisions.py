"""What a reviewer decides about an item: replay it, or discard it. Compare-and-set, audited, with a name and a reason.

Owns every change of an item's state after it was taken in. Two reviewers cannot both win: the first one's transaction
takes the item, the second one is told who did and when.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope, Malformed, Spent
from gateway.contract.ids import TicketId
from gateway.contract.outcomes import Stamp, Standing, TicketState
from gateway.contract.topology import Lane, Topology
from gateway.station import holding, standings, wording
from gateway.station.amqp import thaw
from gateway.station.holding import AlertEvent, ItemState
from gateway.station.sender import NotSent, Sender, Unconfirmed
from gateway.station.standings import Report
from gateway.station.storable import storable
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from gateway.station.tables.audit import audit
from gateway.station.tables.items import items
from gateway.station.tables.tickets import tickets

CLOSED: Final = 2**31 - 1
"""Attempt number under which a discard is recorded: greater than any report that may still be on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Who wants it and why; both are mandatory."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """It is decided, and what was to be sent was confirmed."""

    ticket: str
    generation: int
    """The generation that is now current."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nothing of this ticket was ever held here."""

    ticket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Somebody else's decision stands; `sentence` names who, what and when."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """The broker certainly did not take it; the item is as it was: held, or in doubt when it was to be resumed."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubtful:
    """The broker may have taken it; the item stays `replaying` until a report of it arrives or it is sent again."""

    why: str


async def replay(
    store: Store, sender: Sender, topology: Topology, ticket: str, decision: Decision, *, resume: bool = False
) -> Done | Unknown | Taken | Unsent | Doubtful:
    """Send an item again as a new generation: a full budget, the same bytes, its whole history.

    `resume` sends again what an earlier replay left in doubt. Both copies would carry the same stamp, so that the
    fence lets one of them start.
    """
    async with store.writing() as transaction:
        row = await _newest(transaction, ticket)
        if row is None:
            return Unknown(ticket=ticket)
        expected = ItemState.REPLAYING if resume else ItemState.HELD
        if row.state != expected:
            return Taken(sentence=_standing_decision(row))
        if row.spool_path is not None:
            return Unsent(why=f"its message is only kept as a raw file, {row.spool_path}")
        try:
            wire = envelopes.encode(next_generation(row))
        except Exception as error:  # noqa: BLE001 - what a message holds must not leave its item half decided
            return Unsent(why=f"its message cannot be made again: {type(error).__name__}: {error}")
        started = resume and await _started_anyway(transaction, row)
        if not resume:
            await _decide(transaction, row, ItemState.REPLAYING, decision)
        await _note(transaction, row, decision, "replay resumed" if resume else "replay")
    done = Done(ticket=ticket, generation=row.generation + 1)
    if not started:
        try:
            await sender.send(topology.to_lane(Lane.WORK), wire, mandatory=True)
        except NotSent as error:
            if not resume:
                await _take_back(store, row, decision, str(error))
            return Unsent(why=str(error))
        except Unconfirmed as error:
            return Doubtful(why=str(error))
    async with store.writing() as transaction:
        await _conclude_replay(transaction, row)
    return done


async def discard(store: Store, ticket: str, decision: Decision) -> Done | Unknown | Taken:
    """End an item for good, with a reason; its row, body and history stay."""
    async with store.writing() as transaction:
        row = await _newest(transaction, ticket)
        if row is None:
            return Unknown(ticket=ticket)
        if row.state != ItemState.HELD:
            return Taken(sentence=_standing_decision(row))
        await _decide(transaction, row, ItemState.DISCARDED, decision)
        await _note(transaction, row, decision, "discard")
        stamp = Stamp(generation=row.generation, attempt=CLOSED, interruptions=0)
        await _stand(transaction, row, Standing(stamp=stamp, state=TicketState.DISCARDED), detail=decision.reason)
        await _resolve(transaction, row)
        return Done(ticket=ticket, generation=row.generation)


def next_generation(row: Any) -> Envelope:
    """Return the envelope of an item's next generation.

    One whose headers nobody could read is sent as if it had just come past the door: under its ticket id, without
    admission, so that the consumer checks it before its handler starts (P14).
    """
    wire = thaw(row.properties, row.body)
    found = envelopes.decode(wire)
    changes: dict[str, Any] = {
        "ticket": TicketId(row.ticket),
        "generation": row.generation + 1,
        "attempt": 1,
        "crashes": 0,
        "interruptions": 0,
        "waits": 0,
        "waiting_since": 0.0,
        "spent": Spent(),
        "suspect": None,
    }
    match found:
        case Envelope():
            return envelopes.supersede(found, **changes)
        case Malformed():
            unread = Envelope(
                ticket=found.ticket,
                kind=found.kind,
                body=wire.body,
                content_type=wire.content_type or "application/octet-stream",
                content_encoding=wire.content_encoding,
                submitted_at=wire.timestamp or 0.0,
            )
            return envelopes.supersede(unread, **changes)


async def _newest(transaction: AsyncConnection, ticket: str) -> Any:
    query = sa.select(items).filter_by(ticket=ticket).order_by(items.c.generation.desc()).limit(1)
    return (await transaction.execute(query)).one_or_none()


async def _started_anyway(transaction: AsyncConnection, row: Any) -> bool:
    """Tell whether a report of the next generation proves that an earlier replay did reach the broker."""
    generation: int | None = await transaction.scalar(sa.select(tickets.c.generation).filter_by(ticket=row.ticket))
    return generation is not None and generation > row.generation


async def _decide(transaction: AsyncConnection, row: Any, state: ItemState, decision: Decision) -> None:
    await transaction.execute(
        _update(row).values(
            state=state.value,
            decided_at=time.time(),
            decided_by=storable(decision.by),
            decision_reason=storable(decision.reason),
        )
    )


async def _take_back(store: Store, row: Any, decision: Decision, why: str) -> None:
    async with store.writing() as transaction:
        await transaction.execute(
            _update(row)
            .where(items.c.state == ItemState.REPLAYING)
            .values(state=ItemState.HELD.value, decided_at=None, decided_by=None, decision_reason=None)
        )
        await _note(transaction, row, Decision(by=decision.by, reason=why), "replay not sent")


async def _conclude_replay(transaction: AsyncConnection, row: Any) -> None:
    await transaction.execute(_update(row).values(state=ItemState.REPLAYED.value))
    stamp = Stamp(generation=row.generation + 1, attempt=1, interruptions=0)
    await _stand(transaction, row, Standing(stamp=stamp, state=TicketState.ACCEPTED), detail=None)
    await _resolve(transaction, row)


async def _stand(transaction: AsyncConnection, row: Any, standing: Standing, detail: str | None) -> None:
    attempts = row.attempts if standing.state is TicketState.DISCARDED else 0
    report = Report(
        ticket=row.ticket, kind=row.kind, standing=standing, attempts=attempts, at=time.time(), detail=detail
    )
    await standings.merge(transaction, [report])


async def _resolve(transaction: AsyncConnection, row: Any) -> None:
    # Whoever was told of the item is told that it is decided: the channels are those of its alert, not this process's.
    told = sa.select(alerts.c.channel).filter_by(
        ticket=row.ticket, generation=row.generation, event=AlertEvent.QUARANTINED.value, retired_at=None
    )
    channels: Sequence[str] = (await transaction.scalars(told)).all()
    await holding.announce(
        transaction,
        ticket=row.ticket,
        generation=row.generation,
        event=AlertEvent.RESOLVED,
        channels=channels,
        now=time.time(),
    )


async def _note(transaction: AsyncConnection, row: Any, decision: Decision, act: str) -> None:
    await transaction.execute(
        sa.insert(audit).values(
            at=time.time(),
            ticket=row.ticket,
            generation=row.generation,
            actor=storable(decision.by),
            act=act,
            reason=storable(decision.reason),
        )
    )


def _update(row: Any) -> sa.Update:
    return sa.update(items).where(items.c.ticket == row.ticket, items.c.generation == row.generation)


def _standing_decision(row: Any) -> str:
    if row.state == ItemState.HELD:
        return f"ticket {row.ticket}, generation {row.generation}, is held and nobody has begun a replay"
    when = wording.clock(row.decided_at)
    told = f"ticket {row.ticket}, generation {row.generation}, was already {{}} by {row.decided_by} at {when}"
    match ItemState(row.state):
        case ItemState.REPLAYING:
            return told.format("sent") + ", unconfirmed; `replay --resume` sends it again"
        case decided:
            return told.format(decided.value) + f", because: {row.decision_reason}"

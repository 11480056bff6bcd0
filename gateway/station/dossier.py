"""All that the station knows of one ticket, and lists of what it holds; questions only.

Owns the queries of the reviewers' verbs and of the desk. Never writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import owners, told_twice
from gateway.station.holding import ItemState
from gateway.station.selection import Filter, where
from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from gateway.station.tables.audit import audit
from gateway.station.tables.items import items
from gateway.station.tables.tickets import runs, tickets

MAX_LISTED: Final = 500
PREVIEW_BYTES: Final = 16 * 1024
_IN_ORDER: Final = (runs.c.generation, runs.c.attempt, runs.c.interruptions)
_ACT: Final = ("at", "generation", "actor", "act", "reason", "code", "operation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one start ended."""

    generation: int
    attempt: int
    interruptions: int
    outcome: str
    node: str
    worker: int | None
    lane: str | None
    started_at: float | None
    seconds: float | None
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What is or was held of one generation, its body aside."""

    ticket: str
    generation: int
    kind: str
    state: ItemState
    reason: str
    detail: str | None
    malformed: bool
    attempts: int
    crashes: int
    interruptions: int
    size: int
    digest: str
    content_type: str | None
    admission: dict[str, Any] | None
    spool_path: str | None
    submitted_at: float | None
    arrived_at: float
    decided_at: float | None
    decided_by: str | None
    decision_reason: str | None
    removed_at: float | None
    """When its body and headers were removed (Unix seconds); what is left is a tombstone."""
    decision_code: str | None = None
    """Of a discard."""
    owner: str = ""
    """Whose it is to review; empty: nobody's in particular."""
    deadline: float | None = None
    """When it is to be decided at the latest (Unix seconds)."""
    on_hold: bool = False
    """Whether somebody has its ticket wait."""
    group: str | None = None
    """Id of what it died of; None where that is still to be found out."""
    build: str | None = None
    """Handler build of its last run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """How many items there are, listed or not."""

    number: int
    oldest: float | None
    """When the one arrived that has been here longest (Unix seconds); None when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One message to people about an item; `sent_at` is None while it is still owed, or when it was retired."""

    generation: int
    event: str
    channel: str
    text: str | None
    created_at: float
    sent_at: float | None
    retired_at: float | None
    """When its channel was found to be configured no more."""
    tries: int
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What somebody did about an item."""

    at: float
    generation: int
    actor: str
    act: str
    reason: str
    code: str | None = None
    """Of a discard."""
    operation: str | None = None
    """That it was part of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The body of an item, and how it is to be read."""

    body: bytes = field(repr=False)
    kind: str
    content_type: str | None
    content_encoding: str | None
    charset: str | None
    """As the door measured it."""
    stored: str
    """The depot's folder with attachments that are not in the body; empty where all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """One ticket with everything about it."""

    ticket: str
    kind: str
    state: str
    attempts: int
    generation: int
    client: str | None
    updated_at: float
    items: Sequence[Item]
    """Newest generation first."""
    runs: Sequence[Run]
    """Oldest first."""
    alerts: Sequence[Alert]
    acts: Sequence[Act]

    @property
    def reason(self) -> str | None:
        """Why the newest generation that ended in quarantine did."""
        return self.items[0].reason if self.items else None


async def find(store: Store, ticket: str) -> Dossier | None:
    """Return what is known of `ticket`, or None when nobody ever reported it."""
    async with store.reading() as transaction:
        row = (await transaction.execute(sa.select(tickets).filter_by(ticket=ticket))).one_or_none()
        if row is None:
            return None
        held = await _items(transaction, items.c.ticket == ticket, items.c.generation.desc())
        sent = await _rows(transaction, alerts, ticket, alerts.c.id)
        acts = await _rows(transaction, audit, ticket, audit.c.id)
        return Dossier(
            ticket=row.ticket,
            kind=row.kind,
            state=row.state,
            attempts=row.attempts,
            generation=row.generation,
            client=row.client,
            updated_at=row.updated_at,
            items=held,
            runs=await find_runs(transaction, ticket),
            alerts=[
                Alert(
                    generation=alert.generation,
                    event=alert.event,
                    channel=alert.channel,
                    text=alert.text,
                    created_at=alert.created_at,
                    sent_at=alert.sent_at,
                    retired_at=alert.retired_at,
                    tries=alert.tries,
                    last_error=alert.last_error,
                )
                for alert in sent
            ],
            acts=[Act(**{name: getattr(act, name) for name in _ACT}) for act in acts],
        )


async def find_runs(transaction: AsyncConnection, ticket: str) -> list[Run]:
    """Return a ticket's runs, oldest first, each start once."""
    return _told_once((await transaction.execute(sa.select(runs).filter_by(ticket=ticket).order_by(*_IN_ORDER))).all())


def _told_once(rows: Sequence[Any]) -> list[Run]:
    return [run_of(row) for row in told_twice.told_once(rows)]


async def find_items(store: Store, states: Sequence[ItemState], *, newest_first: bool = False) -> list[Item]:
    """Return at most `MAX_LISTED` items in one of these states: the oldest, or those that were decided last."""
    order = (items.c.decided_at.desc() if newest_first else items.c.arrived_at, items.c.ticket)
    async with store.reading() as transaction:
        return await _items(transaction, items.c.state.in_(list(states)), *order)


async def find_chosen(
    store: Store, chosen: Filter, *, after: Item | None = None, most: int | None = None
) -> list[Item]:
    """Return at most `most` items (else `MAX_LISTED`) that the filter means, oldest first.

    `after` is the last one of the page before.
    """
    order = (items.c.arrived_at, items.c.ticket, items.c.generation)
    wanted = sa.and_(*where(chosen))
    if after is not None:
        wanted &= sa.tuple_(*order) > sa.tuple_(after.arrived_at, after.ticket, after.generation)
    async with store.reading() as transaction:
        return await _items(transaction, wanted, *order, most=most)


async def find_item(store: Store, ticket: str, generation: int) -> Item | None:
    """Return one generation of a ticket as it is or was held."""
    which = sa.and_(items.c.ticket == ticket, items.c.generation == generation)
    async with store.reading() as transaction:
        return next(iter(await _items(transaction, which, items.c.ticket)), None)


async def count_items(store: Store, states: Sequence[ItemState]) -> Census:
    """Count all items in these states."""
    return await count_chosen(store, Filter(states=tuple(states)))


async def count_chosen(store: Store, chosen: Filter) -> Census:
    """Count all items that the filter means."""
    query = sa.select(sa.func.count().label("number"), sa.func.min(items.c.arrived_at).label("oldest"))
    async with store.reading() as transaction:
        row = (await transaction.execute(query.where(*where(chosen)))).one()
    return Census(number=row.number, oldest=row.oldest)


async def find_preview(store: Store, ticket: str, generation: int) -> tuple[bytes, str | None]:
    """Return the beginning of an item's body, and the charset that the door measured; raises KeyError."""
    query = sa.select(sa.func.substr(items.c.body, 1, PREVIEW_BYTES).label("head"), items.c.admission).filter_by(
        ticket=ticket, generation=generation
    )
    async with store.reading() as transaction:
        row = (await transaction.execute(query)).one_or_none()
    if row is None:
        raise KeyError(ticket)
    admission = parsed(row.admission)
    return bytes(row.head or b""), admission["charset"] if admission else None


async def find_content(store: Store, ticket: str, generation: int) -> Content:
    """Return an item's whole body and what is known of its form; raises KeyError."""
    names = ("body", "kind", "content_type", "content_encoding", "admission")
    query = sa.select(*(items.c[name] for name in names)).filter_by(ticket=ticket, generation=generation)
    async with store.reading() as transaction:
        row = (await transaction.execute(query)).one_or_none()
    if row is None:
        raise KeyError(ticket)
    admission = parsed(row.admission)
    return Content(
        body=bytes(row.body),
        kind=row.kind,
        content_type=row.content_type,
        content_encoding=row.content_encoding,
        charset=admission["charset"] if admission else None,
        stored=str(admission.get("stored", "")) if admission else "",
    )


async def _rows(transaction: AsyncConnection, table: sa.Table, ticket: str, order: Any) -> Sequence[Any]:
    return (await transaction.execute(sa.select(table).filter_by(ticket=ticket).order_by(order))).all()


async def _items(
    transaction: AsyncConnection,
    which: sa.ColumnElement[bool],
    *order: Any,
    most: int | None = None,
) -> list[Item]:
    left_out = {"body", "properties", "headers"}
    columns = [column for column in items.c if column.name not in left_out]
    size = sa.func.coalesce(items.c.removed_bytes, sa.func.length(items.c.body))
    about = (owners.owner().label("owner"), owners.deadline().label("deadline"), owners.is_on_hold().label("on_hold"))
    query = sa.select(*columns, *about, size.label("size"))
    query = query.where(which).order_by(*order).limit(MAX_LISTED if most is None else most)
    rows = (await transaction.execute(query)).all()
    return [_item(row) for row in rows]


def _item(row: Any) -> Item:
    return Item(
        ticket=row.ticket,
        generation=row.generation,
        kind=row.kind,
        state=ItemState(row.state),
        reason=row.reason,
        detail=row.detail,
        malformed=bool(row.malformed),
        attempts=row.attempts,
        crashes=row.crashes,
        interruptions=row.interruptions,
        size=row.size,
        digest=row.digest,
        content_type=row.content_type,
        admission=parsed(row.admission),
        spool_path=row.spool_path,
        submitted_at=row.submitted_at,
        arrived_at=row.arrived_at,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        decision_reason=row.decision_reason,
        removed_at=row.removed_at,
        decision_code=row.decision_code,
        owner=row.owner,
        deadline=row.deadline,
        on_hold=bool(row.on_hold),
        group=row.cause,
        build=row.build,
    )


def run_of(row: Any) -> Run:
    """Return a row of `runs` as what people read."""
    return Run(
        generation=row.generation,
        attempt=row.attempt,
        interruptions=row.interruptions,
        outcome=row.outcome,
        node=row.node,
        worker=row.worker,
        lane=row.lane,
        started_at=row.started_at,
        seconds=row.seconds,
        evidence=parsed(row.evidence),
    )

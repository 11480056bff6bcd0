"""What is done with many items at once, as a record: a frozen selection, who wants it, how far it is.

Owns the tables `operations` and `operation_items` up to the executor's work. An operation is made as a draft, which
counts and says why some of it cannot be done, and changes nothing; it is started by its id, so that starting it twice
is starting it once. Everything about it stands in the store: it survives whoever works on it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.ids import uuid7
from gateway.contract.topology import Lane
from gateway.station import acts
from gateway.station.acts import Act
from gateway.station.decided import Decision, DiscardCode
from gateway.station.standings import insert
from gateway.station.storable import document, parsed, storable
from gateway.station.store import Store
from gateway.station.tables.operations import operation_items, operations

MAX_ITEMS: Final = 50_000
MAX_LISTED: Final = 200
DEFAULT_PACE: Final = 20.0
"""Items a second."""
MAX_PACE: Final = 1000.0
_CHUNK: Final = 500


class Kind(StrEnum):
    """What is done with each item."""

    REPLAY = "replay"
    RESUME = "resume"
    """Sent again is what a replay has left in doubt, as that replay had it."""
    DISCARD = "discard"

    @property
    def past(self) -> str:
        """What an item is afterwards."""
        return {Kind.REPLAY: "replayed", Kind.RESUME: "sent again", Kind.DISCARD: "discarded"}[self]

    @property
    def sends(self) -> bool:
        """Whether items go to the broker, so that some of them can go first."""
        return self is not Kind.DISCARD


class State(StrEnum):
    """Where an operation stands."""

    DRAFT = "draft"
    """Counted; nothing has been changed."""
    RUNNING = "running"
    HALTED = "halted"
    """Its canary did not succeed: a person continues it, or leaves it."""
    STOPPED = "stopped"
    """By a person."""
    ENDED = "ended"
    """Every item had its turn; what became of them may still be open."""


class Turn(StrEnum):
    """Whether an item of an operation has had its turn."""

    WAITING = "waiting"
    TAKEN = "taken"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is wanted of a selection."""

    act: Kind
    by: str
    chosen: dict[str, Any]
    """The filter as it was asked for."""
    lane: Lane = Lane.WORK
    """Of a replay; what is resumed goes where its replay has sent it."""
    code: DiscardCode | None = None
    """Of a discard."""
    pace: float = DEFAULT_PACE
    canary: int = 0
    """How many go first; the others follow if all of these end well. 0: no canary."""
    token: str | None = None
    """Of whoever asks: asked twice, it is one operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One item of a selection; `why` it cannot be done, where that is known beforehand."""

    ticket: str
    generation: int
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation as it stands. Times in Unix seconds."""

    id: str
    act: Kind
    state: State
    lane: Lane | None
    code: str | None
    pace: float
    canary: int
    chosen: dict[str, Any]
    total: int
    created_at: float
    created_by: str
    started_at: float | None
    started_by: str | None
    reason: str | None
    passed_at: float | None
    """When its canary had ended well."""
    ended_at: float | None
    note: str | None
    """Why it stands still, where it does."""
    holder: str | None = field(repr=False)
    """Which process works on it."""
    held_until: float | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTaken:
    """The token stands for another request."""

    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotNow:
    """Its state does not allow that."""

    sentence: str


async def draft(store: Store, request: Request, found: Sequence[Candidate]) -> tuple[Operation, bool] | TokenTaken:
    """Freeze a selection; return the operation, and whether it is new."""
    async with store.writing() as transaction:
        name = uuid7()
        row = {
            "id": name,
            "token": storable(request.token),
            "act": request.act.value,
            "state": State.DRAFT.value,
            "lane": request.lane.value if request.act is Kind.REPLAY else None,
            "code": None if request.code is None else request.code.value,
            "pace": request.pace,
            "canary": request.canary if request.act.sends else 0,
            "request": document(request.chosen),
            "total": len(found),
            "created_at": time.time(),
            "created_by": storable(request.by),
        }
        statement = insert(transaction.dialect.name, operations).values(**row).on_conflict_do_nothing()
        if not (await transaction.execute(statement)).rowcount:
            known = await _by_token(transaction, request)
            return known if isinstance(known, TokenTaken) else (known, False)
        for first in range(0, len(found), _CHUNK):
            chunk = found[first : first + _CHUNK]
            rows = [_row(name, position, one) for position, one in enumerate(chunk, first)]
            await transaction.execute(sa.insert(operation_items), rows)
        return await _get(transaction, name), True


async def start(store: Store, name: str, decision: Decision, *, expect: int | None = None) -> Operation | NotNow | None:
    """Have a draft done; None when there is no such operation. Done twice, it is done once.

    `expect` is how many items the reviewer saw that can be done.
    """
    async with store.writing() as transaction:
        found = await _locked(transaction, name)
        if found is None or found.state is not State.DRAFT:
            return found
        waiting = await transaction.scalar(
            sa.select(sa.func.count()).select_from(operation_items).filter_by(operation=name, state=Turn.WAITING.value)
        )
        if expect is not None and expect != waiting:
            return NotNow(sentence=f"{expect} expected, {waiting} found: nothing was changed")
        changes = {
            "state": State.RUNNING.value,
            "started_at": time.time(),
            "started_by": storable(decision.by),
            "reason": storable(decision.reason),
        }
        await _change(transaction, name, **changes)
        await _note(transaction, name, decision, Act.OPERATION_STARTED)
        return await _get(transaction, name)


async def stop(store: Store, name: str, decision: Decision) -> Operation | NotNow | None:
    """Let no further item have its turn. The one that is being sent comes to its end."""
    async with store.writing() as transaction:
        found = await _locked(transaction, name)
        if found is None or found.state is State.STOPPED:
            return found
        if found.state not in {State.RUNNING, State.HALTED}:
            return NotNow(sentence=f"operation {name} is {found.state}")
        said = f"stopped by {decision.by}: {decision.reason}"
        await _change(transaction, name, state=State.STOPPED.value, note=storable(said), ended_at=time.time())
        await _note(transaction, name, decision, Act.OPERATION_STOPPED)
        return await _get(transaction, name)


async def proceed(store: Store, name: str, decision: Decision) -> Operation | NotNow | None:
    """Go on with what was stopped, or with the rest although the canary did not end well."""
    async with store.writing() as transaction:
        found = await _locked(transaction, name)
        if found is None or found.state is State.RUNNING:
            return found
        if found.state not in {State.STOPPED, State.HALTED}:
            return NotNow(sentence=f"operation {name} is {found.state}")
        passed = time.time() if found.state is State.HALTED else found.passed_at
        await _change(transaction, name, state=State.RUNNING.value, note=None, ended_at=None, passed_at=passed)
        await _note(transaction, name, decision, Act.OPERATION_CONTINUED)
        return await _get(transaction, name)


async def find(store: Store, name: str) -> Operation | None:
    """Return one operation, or None."""
    async with store.reading() as transaction:
        row = (await transaction.execute(sa.select(operations).filter_by(id=name))).one_or_none()
        return None if row is None else operation(row)


async def newest(store: Store, *, states: Sequence[State] = ()) -> list[Operation]:
    """Return the newest `MAX_LISTED` operations in one of these states; none named: in any."""
    query = sa.select(operations).order_by(operations.c.created_at.desc(), operations.c.id.desc()).limit(MAX_LISTED)
    if states:
        query = query.where(operations.c.state.in_([state.value for state in states]))
    async with store.reading() as transaction:
        return [operation(row) for row in (await transaction.execute(query)).all()]


def operation(row: Any) -> Operation:
    """Read a row of `operations`."""
    return Operation(
        id=row.id,
        act=Kind(row.act),
        state=State(row.state),
        lane=None if row.lane is None else Lane(row.lane),
        code=row.code,
        pace=row.pace,
        canary=row.canary,
        chosen=parsed(row.request),
        total=row.total,
        created_at=row.created_at,
        created_by=row.created_by,
        started_at=row.started_at,
        started_by=row.started_by,
        reason=row.reason,
        passed_at=row.passed_at,
        ended_at=row.ended_at,
        note=row.note,
        holder=row.holder,
        held_until=row.held_until,
    )


def _row(name: str, position: int, one: Candidate) -> dict[str, Any]:
    turn = Turn.WAITING if one.why is None else Turn.SKIPPED
    return {
        "operation": name,
        "position": position,
        "ticket": storable(one.ticket),
        "generation": one.generation,
        "state": turn.value,
        "why": storable(one.why),
    }


async def _by_token(transaction: AsyncConnection, request: Request) -> Operation | TokenTaken:
    query = sa.select(operations).filter_by(token=storable(request.token))
    known = operation((await transaction.execute(query)).one())
    asked = (
        request.act,
        parsed(document(request.chosen)),
        request.pace,
        request.lane if request.act is Kind.REPLAY else None,
        request.canary if request.act.sends else 0,
        None if request.code is None else request.code.value,
    )
    same = (known.act, known.chosen, known.pace, known.lane, known.canary, known.code) == asked
    return known if same else TokenTaken(operation=known.id)


async def _locked(transaction: AsyncConnection, name: str) -> Operation | None:
    query = sa.select(operations).filter_by(id=name).with_for_update()
    row = (await transaction.execute(query)).one_or_none()
    return None if row is None else operation(row)


async def _get(transaction: AsyncConnection, name: str) -> Operation:
    return operation((await transaction.execute(sa.select(operations).filter_by(id=name))).one())


async def _change(transaction: AsyncConnection, name: str, **changes: Any) -> None:
    await transaction.execute(sa.update(operations).where(operations.c.id == name).values(**changes))


async def _note(transaction: AsyncConnection, name: str, decision: Decision, act: Act) -> None:
    await acts.note(transaction, act=act, by=decision.by, reason=decision.reason, operation=name)

"""Does operations, item by item, in the process that serves; killed half-way, the next one goes on.

Owns the lease: one process at a time works on an operation; another takes over when it is heard of no more. An item's
turn is taken in the transaction that begins its replay, so that it is begun once, whoever else is at it. What was
begun and not confirmed when a process died stays "sent, unconfirmed": it is shown, and never sent again from here.
"""

import asyncio
import contextlib
import logging
import time
import traceback
from dataclasses import dataclass
from typing import Any, Final, assert_never

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.ids import uuid7
from gateway.contract.logs import event
from gateway.contract.topology import Topology
from gateway.station import decisions, operations, progress, replays
from gateway.station.decided import Barred, Decision, DiscardCode, Done, Doubtful, Taken, Unknown, Unsent
from gateway.station.operations import Kind, Operation, State, Turn
from gateway.station.pauses import pause
from gateway.station.progress import Outcome
from gateway.station.replays import Begun, Plan
from gateway.station.sender import Sender
from gateway.station.storable import storable
from gateway.station.store import Store
from gateway.station.tables.operations import operation_items
from gateway.station.tables.operations import operations as table

POLL: Final = 0.5
"""Seconds between looks at the store for work, and at a canary that has not ended."""
TOGETHER: Final = 4
"""Operations under way at a time."""
DRAFT_LIFETIME: Final = 24 * 3600.0
"""Seconds after which a draft that nobody started is forgotten."""
_TIDY: Final = 600.0
_RENEW: Final = 2 / 3
"""Part of the lease that may be left when it is renewed."""
_IMPLAUSIBLE: Final = 10
"""Leases that nobody's lease is as long as, whatever he has set and his clock says."""
_PAUSES: Final = (1.0, 2.0, 5.0, 10.0)
"""Seconds to wait after the first, second, ... failure in a row; the last one from then on."""
_STORE_TROUBLE: Final = (sa.exc.SQLAlchemyError, OSError)

logger: Final = logging.getLogger("lazaretto.executor")


@dataclass(frozen=True, slots=True)
class _Wait:
    """Nothing can be done now."""


@dataclass(frozen=True, slots=True)
class _Over:
    """Nothing is to be done any more, or not by this process."""


@dataclass(frozen=True, slots=True)
class _Settled:
    """An item has had its turn."""


class Executor:
    """The working side. `run` until `stop` is set."""

    def __init__(self, *, store: Store, sender: Sender, topology: Topology, replay_limit: int, lease: float) -> None:
        """`lease` is after how many seconds without a sign of life another process may take over."""
        self._store = store
        self._sender = sender
        self._topology = topology
        self._limit = replay_limit
        self._lease = lease
        self._holder = uuid7()
        self._tidied = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Take up what is to be done and is nobody's, again and again; while the store cannot be used, wait for it."""
        working: dict[str, asyncio.Task[None]] = {}
        try:
            while not stop.is_set():
                for name in [name for name, task in working.items() if task.done()]:
                    working.pop(name).result()
                try:
                    await self._tidy()
                    for name in await self._take_up(working.keys(), TOGETHER - len(working)):
                        working[name] = asyncio.create_task(self._guarded(name, stop), name=f"operation {name}")
                except _STORE_TROUBLE as error:
                    event(logger, "executor.waits", logging.WARNING, error=error)
                await pause(stop, POLL)
            if working:
                await asyncio.wait(working.values())
        finally:
            for task in working.values():
                task.cancel()

    async def _take_up(self, mine: Any, room: int) -> list[str]:
        if room <= 0:
            return []
        now = time.time()
        # No lease lasts that long: one from before a clock was put back must not be waited for.
        over = sa.or_(table.c.held_until < now, table.c.held_until > now + _IMPLAUSIBLE * self._lease)
        free = sa.or_(table.c.holder.is_(None), over, table.c.holder == self._holder)
        due = sa.and_(table.c.state == State.RUNNING.value, free, table.c.id.not_in(list(mine)))
        query = sa.select(table.c.id, table.c.holder).where(due).order_by(table.c.started_at).limit(room)
        async with self._store.reading() as transaction:
            found = (await transaction.execute(query)).all()
        taken = []
        for name, before in found:
            async with self._store.writing() as transaction:
                claim = sa.update(table).where(table.c.id == name, due)
                done = await transaction.execute(claim.values(holder=self._holder, held_until=now + self._lease))
            if done.rowcount:
                event(logger, "operation.taken_up", operation=name, taken_over=before not in (None, self._holder))
                taken.append(name)
        return taken

    async def _guarded(self, name: str, stop: asyncio.Event) -> None:
        """Work on one; what it breaks ends neither the others nor the station."""
        try:
            await self._work(name, stop)
        except Exception as error:  # noqa: BLE001 - see above; the trace is logged
            trace = traceback.format_exc()
            event(logger, "operation.failed", logging.ERROR, operation=name, error=error, trace=trace)
            note = f"halted by a fault of the station: {type(error).__name__}"
            with contextlib.suppress(*_STORE_TROUBLE):
                async with self._store.writing() as transaction:
                    mine = sa.update(table).where(table.c.id == name, table.c.holder == self._holder)
                    await transaction.execute(mine.values(state=State.HALTED.value, note=note, holder=None))

    async def _work(self, name: str, stop: asyncio.Event) -> None:
        """Give one item after the other its turn, until there is none left or the operation is no longer ours."""
        failures = 0
        told = None
        while not stop.is_set():
            began = time.monotonic()
            rest = POLL
            try:
                async with self._store.writing() as transaction:
                    found = await self._next(transaction, name)
                match found:
                    case _Over():
                        return
                    case _Wait():
                        pass
                    case (Operation() as one, step):
                        trouble = await self._finish(one, step)
                        failures = 0 if trouble is None else failures + 1
                        if trouble != told:
                            await self._tell(name, trouble)
                            told = trouble
                        rest = 1 / one.pace - (time.monotonic() - began)
            except _STORE_TROUBLE as error:
                failures += 1
                event(logger, "executor.waits", logging.WARNING, operation=name, error=error)
            if failures:
                rest = _PAUSES[min(failures, len(_PAUSES)) - 1]
                await self._rest(name, rest, stop)
            elif rest > 0:
                await pause(stop, rest)
        await self._let_go(name)

    async def _next(
        self, transaction: AsyncConnection, name: str
    ) -> tuple[Operation, Begun | _Settled] | _Wait | _Over:
        """Renew the lease and give the next item its turn, in one transaction."""
        row = (await transaction.execute(sa.select(table).filter_by(id=name).with_for_update())).one_or_none()
        if row is None or row.state != State.RUNNING or row.holder != self._holder:
            return _Over()
        one = operations.operation(row)
        mine = sa.update(table).where(table.c.id == name)
        now = time.time()
        if (one.held_until or 0.0) - now < self._lease * _RENEW:  # a wait for a canary is no commit twice a second
            await transaction.execute(mine.values(held_until=now + self._lease))
        if one.canary and one.passed_at is None:
            verdict = await self._judge_canary(transaction, one)
            if verdict is not None:
                return verdict
        next_up = (
            sa.select(operation_items)
            .filter_by(operation=name, state=Turn.WAITING.value)
            .order_by(operation_items.c.position)
            .limit(1)
        )
        item = (await transaction.execute(next_up)).one_or_none()
        if item is None:
            await transaction.execute(
                mine.values(state=State.ENDED.value, ended_at=time.time(), note=None, holder=None, held_until=None)
            )
            event(logger, "operation.ended", operation=name)
            return _Over()
        return one, await self._turn(transaction, one, item)

    async def _judge_canary(self, transaction: AsyncConnection, one: Operation) -> _Wait | _Over | None:
        """Say whether the next item has to wait for the first ones; None when it has not."""
        counted = await progress.count_in(transaction, one.id)
        failed = counted[Outcome.QUARANTINED] + counted[Outcome.DISCARDED]
        sent = failed + counted[Outcome.DONE] + counted[Outcome.PENDING] + counted[Outcome.UNCONFIRMED]
        mine = sa.update(table).where(table.c.id == one.id)
        if failed:
            note = f"canary: {failed} of {sent} did not succeed; the others wait until somebody continues"
            await transaction.execute(mine.values(state=State.HALTED.value, note=note, holder=None, held_until=None))
            event(logger, "operation.halted", logging.WARNING, operation=one.id, failed=failed)
            return _Over()
        if sent < one.canary and counted[Outcome.WAITING]:
            return None
        if counted[Outcome.DONE] == sent:
            await transaction.execute(mine.values(passed_at=time.time(), note=None))
            return None
        open_ones = f"{counted[Outcome.PENDING]} pending, {counted[Outcome.UNCONFIRMED]} unconfirmed"
        note = f"canary: {open_ones}; the others wait for their end"
        if note != one.note:
            await transaction.execute(mine.values(note=note))
        return _Wait()

    async def _turn(self, transaction: AsyncConnection, one: Operation, item: Any) -> Begun | _Settled:
        decision = Decision(by=one.started_by or one.created_by, reason=one.reason or "")
        found: Begun | Done | Unknown | Taken | Barred
        match one.act:
            case Kind.REPLAY:
                assert one.lane is not None  # noqa: S101 - a replay has one
                plan = Plan(lane=one.lane, generation=item.generation, limit=self._limit, operation=one.id)
                found = await replays.begin(transaction, item.ticket, decision, plan)
            case Kind.RESUME:
                found = await replays.resume_in(
                    transaction, item.ticket, decision, generation=item.generation, operation=one.id
                )
            case Kind.DISCARD:
                code = DiscardCode(one.code or DiscardCode.OTHER)
                found = await decisions.discard_in(
                    transaction, item.ticket, decision, code, generation=item.generation, operation=one.id
                )
            case _:
                assert_never(one.act)
        match found:
            case Begun() | Done():
                turn, why = Turn.TAKEN, None
            case Unknown():
                turn, why = Turn.SKIPPED, "it was never in quarantine here"
            case Taken(sentence=sentence):
                turn, why = Turn.SKIPPED, sentence
            case Barred(why=sentence):
                turn, why = Turn.SKIPPED, sentence
            case _:
                assert_never(found)
        update = sa.update(operation_items).filter_by(operation=one.id, position=item.position)
        await transaction.execute(update.values(state=turn.value, why=storable(why), at=time.time()))
        return found if isinstance(found, Begun) else _Settled()

    async def _finish(self, one: Operation, step: Begun | _Settled) -> str | None:
        """Publish what was begun; return what is wrong with the broker, None where nothing is."""
        if isinstance(step, _Settled):
            return None
        decision = Decision(by=one.started_by or one.created_by, reason=one.reason or "")
        match await replays.publish(self._store, self._sender, self._topology, step, decision):
            case Done():
                return None
            case Unsent(why=why):
                return f"paused, the broker takes nothing: {why}"
            case Doubtful(why=why):
                return f"paused, ticket {step.ticket} was sent and not confirmed: {why}"

    async def _tell(self, name: str, trouble: str | None) -> None:
        if trouble is not None:
            event(logger, "operation.paused", logging.WARNING, operation=name, why=trouble)
        async with self._store.writing() as transaction:
            running = sa.update(table).where(table.c.id == name, table.c.state == State.RUNNING.value)
            await transaction.execute(running.values(note=storable(trouble)))

    async def _rest(self, name: str, seconds: float, stop: asyncio.Event) -> None:
        """Wait, without losing the lease."""
        until = time.monotonic() + seconds
        while not stop.is_set() and (left := until - time.monotonic()) > 0:
            await pause(stop, min(left, self._lease / 3))
            try:
                async with self._store.writing() as transaction:
                    mine = sa.update(table).where(table.c.id == name, table.c.holder == self._holder)
                    await transaction.execute(mine.values(held_until=time.time() + self._lease))
            except _STORE_TROUBLE:
                continue

    async def _let_go(self, name: str) -> None:
        """Leave it to whoever comes next, without a wait."""
        try:
            async with self._store.writing() as transaction:
                mine = sa.update(table).where(table.c.id == name, table.c.holder == self._holder)
                await transaction.execute(mine.values(holder=None, held_until=None))
        except _STORE_TROUBLE as error:
            event(logger, "executor.waits", logging.WARNING, operation=name, error=error)

    async def _tidy(self) -> None:
        if time.monotonic() - self._tidied < _TIDY and self._tidied:
            return
        old = sa.and_(table.c.state == State.DRAFT.value, table.c.created_at < time.time() - DRAFT_LIFETIME)
        async with self._store.writing() as transaction:
            # Locked first: one that is started at this moment must not lose its selection.
            names = (await transaction.scalars(sa.select(table.c.id).where(old).with_for_update())).all()
            await transaction.execute(sa.delete(operation_items).where(operation_items.c.operation.in_(names)))
            await transaction.execute(sa.delete(table).where(table.c.id.in_(names)))
        self._tidied = time.monotonic()

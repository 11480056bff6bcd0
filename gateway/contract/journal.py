"""What door and fleet tell the station: events about items, in batches.

Owns the bytes of the journal queue. One message holds many events; order of arrival never matters, since each event
carries its stamp (P18) and its own id (so that a batch stored twice is stored once).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import orjson

from gateway.contract.ids import uuid7
from gateway.contract.outcomes import Stamp, Standing, TicketState
from gateway.contract.text import clip, clip_tail
from gateway.contract.values import value

VERSION: Final = 1
MAX_BATCH_EVENTS: Final = 512
MAX_BATCH_BYTES: Final = 1 << 20
_MAX_DATA_TEXT: Final = 16 * 1024
_SHORT: Final = _MAX_DATA_TEXT // 4
"""Characters that fit into it whatever they are."""
_MAX_DEPTH: Final = 8
_MAX_NAME: Final = 128
_MAX_NUMBER: Final = 2**53


class EventName(StrEnum):
    """What an event reports."""

    ACCEPTED = "accepted"
    """The door took responsibility. data: client, bytes, charset, tokens, exact, attachments, marked, pass."""
    REFUSED = "refused"
    """The door or the consumer's preflight said no. data: violations, client, address, bytes, digest, facts, sample."""
    STARTED = "started"
    """A run began. data: lane, worker."""
    FINISHED = "finished"
    """A run ended. data: outcome, verdict, seconds, started_at, lane, worker, evidence, delay."""
    CLAIMED = "claimed"
    """A redelivery was closed as lost or as an outage. data: like FINISHED."""
    RELEASED = "released"
    """An item went back uncharged. data: like FINISHED."""
    QUARANTINED = "quarantined"
    """An item was published to quarantine, confirmed. data: reason, detail."""
    DISCARDED = "discarded"
    """An item ended in this record because its kind says so. data: reason."""
    DROPPED = "dropped"
    """A copy was dropped by the fence. data: why."""
    BREAKER = "breaker"
    """Of a node, not of a ticket: a dependency's breaker changed. data: dependency, state, why, until, lane."""
    STORM = "storm"
    """Of a node, not of a ticket: the storm guard tripped or was lifted. data: state, build, why, items, evidence."""
    LEAK = "leak"
    """Of a node, not of a ticket: what a leak hunt found. data: worker, runs, sites."""
    NODE = "node"
    """Of a node, not of a ticket: what it is and has now. data: lane, state, every, obstacles, build, slots, memory,
    workers, recycling and more; a node that is silent for much longer than `every` seconds is gone."""


_FIRST: Final = Stamp(generation=0, attempt=1, interruptions=0)
"""Of a ticket that has not run yet."""

OF_NODES: Final = frozenset({EventName.BREAKER, EventName.STORM, EventName.LEAK, EventName.NODE})
"""What nodes tell of themselves; it names no ticket."""


class Condition(StrEnum):
    """How a node says it is."""

    READY = "ready"
    """It takes what there is."""
    IDLE = "idle"
    """It is to take nothing: it has no slots."""
    HINDERED = "hindered"
    """Something keeps it from taking anything; its obstacles say what."""
    DRAINING = "draining"
    """It takes nothing any more, and ends what it has."""
    ENDED = "ended"
    """That was its last word."""


class Verdict(StrEnum):
    """What was done about a run's outcome."""

    ACK = "ack"
    RETRY = "retry"
    RELEASE = "release"
    QUARANTINE = "quarantine"
    DISCARD = "discard"


_STATE_AFTER: Final = {
    Verdict.ACK: TicketState.DONE,
    Verdict.RETRY: TicketState.RETRYING,
    Verdict.RELEASE: TicketState.RETRYING,
    Verdict.QUARANTINE: TicketState.QUARANTINED,
    Verdict.DISCARD: TicketState.DISCARDED,
}


_STATE_OF: Final = {
    EventName.ACCEPTED: TicketState.ACCEPTED,
    EventName.STARTED: TicketState.RUNNING,
    EventName.QUARANTINED: TicketState.QUARANTINED,
    EventName.DISCARDED: TicketState.DISCARDED,
}


@value(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to one item (or, for a refusal, to one request)."""

    event: EventName
    at: float
    """Unix seconds, on the reporter's clock; for people, never for order."""
    ticket: str
    kind: str
    node: str
    """The door or fleet node that reports."""
    stamp: Stamp = _FIRST
    crashes: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=uuid7)

    @property
    def standing(self) -> Standing | None:
        """The ticket's state as this event implies it; None for what says nothing about a ticket's state."""
        if self.event in {EventName.FINISHED, EventName.CLAIMED, EventName.RELEASED}:
            return Standing(stamp=self.stamp, state=_STATE_AFTER[Verdict(self.data["verdict"])])
        state = _STATE_OF.get(self.event)
        return None if state is None else Standing(stamp=self.stamp, state=state)


def encode(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield the bodies of as many messages as the events need, each within the batch bounds."""
    return batches(map(row_of, events))


def batches(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bodies of as many messages as events that are written already need."""
    batch: list[bytes] = []
    size = 0
    for row in rows:
        if batch and (len(batch) == MAX_BATCH_EVENTS or size + len(row) > MAX_BATCH_BYTES):
            yield b"[" + b",".join(batch) + b"]"
            batch, size = [], 0
        batch.append(row)
        size += len(row) + 1
    if batch:
        yield b"[" + b",".join(batch) + b"]"


def decode(body: bytes) -> tuple[Event, ...]:
    """Read one batch; raises ValueError naming what is wrong with it."""
    try:
        rows = orjson.loads(body)
        if not isinstance(rows, list):
            raise TypeError("no list of events")
        return tuple(_event(row) for row in rows)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a journal batch: {type(error).__name__}: {error}") from error


def decode_each(body: bytes) -> tuple[tuple[Event, ...], bytes | None]:
    """Read every event of a batch that this version can read, and return the others as a batch of their own, or None.

    Raises ValueError when it is no batch at all.
    """
    events, others = [], []
    for row in _rows(body):
        try:
            events.append(_event(row))
        except (KeyError, TypeError, ValueError, OverflowError):
            others.append(row)
    return tuple(events), _batch(others) if others else None


def halves(body: bytes) -> tuple[bytes, ...]:
    """Return a batch as two batches, or nothing when it cannot be divided any more."""
    try:
        rows = _rows(body)
        middle = len(rows) // 2
        return (_batch(rows[:middle]), _batch(rows[middle:])) if middle else ()
    except (ValueError, RecursionError):
        return ()


def _rows(body: bytes) -> list[Any]:
    rows = orjson.loads(body)
    if not isinstance(rows, list):
        raise ValueError(f"not a journal batch: {type(rows).__name__}, not a list of events")  # noqa: TRY004
    return rows


def _batch(rows: list[Any]) -> bytes:
    # Not orjson: it reads what nests deeper than it writes.
    return json.dumps(rows, separators=(",", ":")).encode()


def row_of(event: Event) -> bytes:
    """Return an event as one element of a batch, whatever its data are."""
    return _row(
        event.event,
        identity=event.id,
        at=event.at,
        ticket=event.ticket,
        kind=event.kind,
        node=event.node,
        stamp=event.stamp,
        crashes=event.crashes,
        data=_clean(event.data, _MAX_DEPTH),
    )


def row_of_new(*, at: float, ticket: str, kind: str, node: str, data: Mapping[str, str | int | bool]) -> bytes:
    """Return the event that a new ticket was accepted, whose data are short words and small figures.

    The same as making the event and then its row, at a sixth of the cost: there is one for each ticket.
    """
    return _row(
        EventName.ACCEPTED,
        identity=uuid7(),
        at=at,
        ticket=ticket,
        kind=kind,
        node=node,
        stamp=_FIRST,
        crashes=0,
        data=data,
    )


def _row(
    event: EventName,
    *,
    identity: str,
    at: float,
    ticket: str,
    kind: str,
    node: str,
    stamp: Stamp,
    crashes: int,
    data: Any,
) -> bytes:
    return orjson.dumps(
        {
            "v": VERSION,
            "id": identity,
            "event": event,
            "at": at,
            "ticket": ticket,
            "kind": kind,
            "node": node,
            "stamp": list(stamp),
            "crashes": crashes,
            "data": data,
        },
        option=orjson.OPT_NON_STR_KEYS,
    )


def _event(row: Any) -> Event:
    if row["v"] != VERSION:
        raise ValueError(f"event version {row['v']!r}, this version reads {VERSION}")
    generation, attempt, interruptions = row["stamp"]
    data = row["data"]
    if not isinstance(data, dict):
        raise TypeError("data is no object")
    if "verdict" in data:
        Verdict(data["verdict"])
    elif row["event"] in {EventName.FINISHED, EventName.CLAIMED, EventName.RELEASED}:
        raise ValueError("an ended run without a verdict")
    return Event(
        id=str(row["id"]),
        event=EventName(row["event"]),
        at=float(row["at"]),
        ticket=str(row["ticket"]),
        kind=str(row["kind"]),
        node=str(row["node"]),
        stamp=Stamp(generation=int(generation), attempt=int(attempt), interruptions=int(interruptions)),
        crashes=int(row["crashes"]),
        data=data,
    )


@lru_cache(maxsize=1024, typed=True)
def _name(name: Any) -> str:
    """Bound the name of a member; nearly all are the same few in every event."""
    return clip(str(name), _MAX_NAME)


def _members(members: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    """Bound what stands under names: of a log tail the end matters more than the start."""
    cleaned: dict[str, Any] = {}
    for name, member in members.items():
        if isinstance(member, str):
            if len(member) <= _SHORT and member.isprintable():  # so that neither NUL nor half a surrogate pair is in it
                cleaned[_name(name)] = member
            else:
                cleaned[_name(name)] = (clip_tail if name == "log_tail" else clip)(member, _MAX_DATA_TEXT)
        else:
            cleaned[_name(name)] = _clean(member, depth)
    return cleaned


def _clean(value: Any, depth: int) -> Any:
    """Bound an event's data: depth, lengths, numbers, and every text as valid UTF-8.

    Never raises: what an event says may come from a worker.
    """
    kind = type(value)  # what most values are is known by a glance at it
    if kind is dict and depth:
        return _members(value, depth - 1)
    if (kind is float or kind is int) and -_MAX_NUMBER <= value <= _MAX_NUMBER:
        return value
    match value:
        case str():
            return clip(value, _MAX_DATA_TEXT)
        case None | bool():
            return value
        case int() | float():
            return value if -_MAX_NUMBER <= value <= _MAX_NUMBER else str(value)
        case Mapping() if depth:
            return _members(value, depth - 1)
        case list() | tuple() if depth:
            return [_clean(item, depth - 1) for item in value[:64]]
        case _:
            return clip(f"({type(value).__name__})", _MAX_DATA_TEXT)

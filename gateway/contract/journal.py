"""What door and fleet tell the station: events about items, in batches.

Owns the bytes of the journal queue. One message holds many events; order of arrival never matters, since each event
carries its stamp (P18) and its own id (so that a batch stored twice is stored once).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from gateway.contract.ids import uuid7
from gateway.contract.outcomes import Stamp, Standing, TicketState
from gateway.contract.text import clip, clip_tail

VERSION: Final = 1
MAX_BATCH_EVENTS: Final = 512
MAX_BATCH_BYTES: Final = 1 << 20
_MAX_DATA_TEXT: Final = 16 * 1024
_MAX_DEPTH: Final = 8
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to one item (or, for a refusal, to one request)."""

    event: EventName
    at: float
    """Unix seconds, on the reporter's clock; for people, never for order."""
    ticket: str
    kind: str
    node: str
    """The door or fleet node that reports."""
    stamp: Stamp = field(default_factory=lambda: Stamp(generation=0, attempt=1, interruptions=0))
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
    batch: list[bytes] = []
    size = 0
    for event in events:
        row = _row(event)
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


def _row(event: Event) -> bytes:
    return orjson.dumps(
        {
            "v": VERSION,
            "id": event.id,
            "event": event.event,
            "at": event.at,
            "ticket": event.ticket,
            "kind": event.kind,
            "node": event.node,
            "stamp": [event.stamp.generation, event.stamp.attempt, event.stamp.interruptions],
            "crashes": event.crashes,
            "data": _clean(event.data, _MAX_DEPTH),
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


def _clean(value: Any, depth: int) -> Any:
    """Bound an event's data: depth, lengths, numbers, and every text as valid UTF-8.

    The end of a log tail matters more than its start. Never raises: what an event says may come from a worker.
    """
    match value:
        case str():
            return clip(value, _MAX_DATA_TEXT)
        case None | bool():
            return value
        case int() | float():
            return value if -_MAX_NUMBER <= value <= _MAX_NUMBER else str(value)
        case Mapping() if depth:
            return {
                clip(str(name), 128): clip_tail(item, _MAX_DATA_TEXT)
                if name == "log_tail" and isinstance(item, str)
                else _clean(item, depth - 1)
                for name, item in value.items()
            }
        case list() | tuple() if depth:
            return [_clean(item, depth - 1) for item in value[:64]]
        case _:
            return clip(f"({type(value).__name__})", _MAX_DATA_TEXT)

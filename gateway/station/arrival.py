"""A message from the quarantine queue as what the station keeps of it; pure.

Owns the reading: an envelope, a stranger that the broker gave up on, a raw message that nobody understood, each become
one `Arrival`.
"""

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Admission, Envelope, Malformed
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import UNKNOWN_KIND, TicketId
from gateway.contract.outcomes import CHARGED, Outcome, Reason, Stamp
from gateway.contract.text import clip
from gateway.contract.wire import Wire

MAX_TICKET_ID: Final = 128
_MAX_REASON: Final = 128
MAX_DETAIL: Final = 1024
"""Bytes. Both stand in indexes, which hold no long text; the message keeps the whole of them."""
_RAW_HEADERS: Final = "lz-raw-headers"
_UNCHARGED_RETURNS: Final = frozenset({Outcome.RELEASED, Outcome.OUTAGE, Outcome.DEPENDENCY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One exhausted item, as it is about to be stored."""

    ticket: str
    generation: int
    kind: str
    reason: str
    detail: str | None
    malformed: bool
    """Its headers could not be read; `wire` is all that is known."""
    stamp: Stamp
    crashes: int
    history: History
    admission: Admission | None
    wire: Wire = field(repr=False)
    digest: str
    """SHA-256 of the body, in hexadecimal."""

    @property
    def history_total(self) -> int:
        """How many records the item has ever had, those that gave way included."""
        return self.history.left_out + len(self.history.runs)


def read(wire: Wire) -> Arrival:
    """Read a message of the quarantine queue; raises nothing that depends on what it holds."""
    digest = hashlib.sha256(wire.body).hexdigest()
    found = envelopes.decode(wire)
    match found:
        case Envelope():
            return Arrival(
                ticket=found.ticket,
                generation=found.generation,
                kind=found.kind,
                # Only the broker dead-letters without a reason: it gave up on handing the message out (C18).
                reason=clip(found.reason or Reason.DELIVERY_LIMIT, _MAX_REASON),
                detail=None if found.detail is None else clip(found.detail, MAX_DETAIL),
                malformed=False,
                stamp=found.stamp,
                crashes=found.crashes,
                history=found.history,
                admission=found.admission,
                wire=wire,
                digest=digest,
            )
        case Malformed():
            return _malformed(found, digest)


def unreadable(wire: Wire, error: Exception) -> Arrival:
    """Return what can be said of any message at all: its body's digest, and that it could not be read."""
    digest = hashlib.sha256(wire.body).hexdigest()
    detail = f"could not be read: {type(error).__name__}"
    return _malformed(
        Malformed(detail=detail, ticket=TicketId(digest), kind=UNKNOWN_KIND, wire=replace(wire, headers={})), digest
    )


def named(arrival: Arrival) -> Iterator[Arrival]:
    """Yield the arrival under its own ticket id, then under names for when other items have that one; without an end.

    Whoever chooses ticket ids can take any of these names beforehand, so no number of them is enough.
    """
    yield arrival
    mark = "~raw" if arrival.malformed else ""
    yield _called(arrival, f"~{arrival.digest[:16]}{mark}")
    for number in itertools.count(1):
        # A long id is cut to make room, hence the whole of it is in the digest.
        identity = hashlib.sha256(f"{arrival.ticket}\0{arrival.digest}\0{number}".encode()).hexdigest()
        yield _called(arrival, f"~{identity[:32]}{mark}")


def generation_runs(arrival: Arrival, known_before: int) -> dict[Stamp, RunRecord]:
    """Name the start that each record of this generation tells of.

    `known_before` is how many records the item had when its last generation ended. Records of earlier
    generations were stored when those arrived.
    """
    first = max(0, known_before - arrival.history.left_out)
    records = arrival.history.runs[first:]
    returns = sum(_returns(record) for record in records)
    # Where the oldest records gave way, the item's own count tells how many returns went before those that are left.
    missing = max(0, arrival.stamp.interruptions - returns) if known_before < arrival.history.left_out else 0
    return dict(_stamped(records, arrival.generation, missing))


def charged_attempts(arrival: Arrival, runs: dict[Stamp, RunRecord]) -> int:
    """Return how many charged starts the item had in this generation, as far as it can tell itself."""
    told = [stamp.attempt for stamp, record in runs.items() if record.outcome in CHARGED]
    return max([arrival.stamp.attempt - 1, *told])


def _called(arrival: Arrival, suffix: str) -> Arrival:
    return replace(arrival, ticket=arrival.ticket[: MAX_TICKET_ID - len(suffix)] + suffix)


def _stamped(records: tuple[RunRecord, ...], generation: int, interruptions: int) -> Iterator[tuple[Stamp, RunRecord]]:
    for record in records:
        yield Stamp(generation=generation, attempt=record.attempt, interruptions=interruptions), record
        interruptions += _returns(record)


def _returns(record: RunRecord) -> int:
    return record.times if record.outcome in _UNCHARGED_RETURNS else 0


def _malformed(found: Malformed, digest: str) -> Arrival:
    headers = found.wire.headers
    reason, detail = headers.get("lz-reason"), headers.get("lz-detail")
    wrapped = isinstance(headers.get(_RAW_HEADERS), str)
    return Arrival(
        ticket=found.ticket,
        generation=0,
        kind=found.kind,
        reason=clip(reason, _MAX_REASON) if wrapped and isinstance(reason, str) else Reason.MALFORMED,
        detail=clip(detail if wrapped and isinstance(detail, str) else found.detail, MAX_DETAIL),
        malformed=True,
        stamp=Stamp(generation=0, attempt=1, interruptions=0),
        crashes=0,
        history=History(),
        admission=None,
        wire=found.wire,
        digest=digest,
    )

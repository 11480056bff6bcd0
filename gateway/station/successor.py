"""The message of an item's next generation; pure.

Owns what travels on and what begins anew: the same bytes unless they were edited, the whole history, a full budget.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Admission, Envelope, Malformed, Spent
from gateway.contract.ids import TicketId
from gateway.contract.topology import Lane
from gateway.contract.wire import Wire
from gateway.station.amqp import thaw
from gateway.station.decided import Bar, Barred

REPLAYED: Final = "replayed"
"""What `lz-suspect` says of an item that a reviewer sends to the isolation lane; success clears it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An edit that has passed the door's checks."""

    body: bytes = field(repr=False)
    content_type: str
    admission: Admission
    difference: str


def next_generation(row: Any, body: bytes | None = None) -> Envelope:
    """Return the envelope of an item's next generation; raises whatever its bytes make a codec raise.

    One whose headers nobody could read is sent as if it had just come past the door: under its ticket id, without
    admission, so that the consumer checks it before its handler starts (P14).
    """
    wire = thaw(row.properties, row.body if body is None else body)
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


def message(row: Any, lane: Lane, change: Change | None) -> Wire | Barred:
    """Return what is to be published of an item's row, to this lane."""
    try:
        envelope = next_generation(row)
        if change is not None:
            envelope = replace(
                envelope,
                body=change.body,
                content_type=change.content_type,
                content_encoding=None,
                admission=change.admission,
            )
        return envelopes.encode(replace(envelope, suspect=REPLAYED if lane is Lane.SUSPECTS else None))
    except Exception as error:  # noqa: BLE001 - what a message holds must not leave its item half decided
        why = f"its message cannot be made again: {type(error).__name__}: {error}"
        return Barred(bar=Bar.UNREADABLE, why=why)

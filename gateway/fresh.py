"""The message of an ordinary new ticket: the same as every other's but for seven values, which are filled in.

Owns what is ordinary about it. The contract's own encoder writes the message that the stencils are cut from, and each
of those that no stencil fits.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from msgspec import Struct

from gateway.admission import Facts
from gateway.amqp.frames import Unencodable, content_header
from gateway.amqp.stencil import Laid, Message, Stencil, Uncuttable
from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Admission, Envelope
from gateway.contract.ids import TicketId, uuid7
from gateway.contract.wire import Wire

_STENCILS: Final = 1024
"""Kinds, content types and clients that have one; of more, those that were used last."""

# Samples: conspicuous values, of the width that the real ones have.
_SIZE, _BYTES, _TOKENS, _AT = 7_877, 1_651_084_389, 1_953_460_334, 1_835_626_049.381
_TICKET, _MESSAGE = "7469636b-6574-7000-8000-7469636b6574", "6d657373-6167-7000-8000-6d6573736167"
_WIDEST: Final = 2**31
"""A number from here on takes another form in a header table."""


class FreshTicket(Struct, frozen=True, kw_only=True, gc=False):
    """An ordinary new ticket: without attachments, traces, marks, or anything else that only some have."""

    ticket: TicketId
    kind: str
    client: str
    content_type: str
    body: bytes
    charset: str
    tokens: int
    exact: bool
    received: float
    """Unix seconds."""

    def __repr__(self) -> str:
        """Show which ticket it is, and nothing of what it says."""
        return f"FreshTicket(ticket={self.ticket!r}, kind={self.kind!r}, client={self.client!r})"

    @classmethod
    def of(
        cls, facts: Facts, *, ticket: TicketId, kind: str, client: str, content_type: str, body: bytes, received: float
    ) -> "FreshTicket":
        """Return the ticket of which `facts` were measured."""
        return cls(
            ticket=ticket,
            kind=kind,
            client=client,
            content_type=content_type,
            body=body,
            charset=facts.known_charset,
            tokens=facts.counted,
            exact=facts.is_exact,
            received=received,
        )

    @property
    def admission(self) -> Admission:
        """What was measured of it, as it travels with it."""
        return Admission(
            bytes=len(self.body),
            charset=self.charset,
            tokens=self.tokens,
            exact=self.exact,
            attachments=0,
            client=self.client,
            admitted_at=self.received,
        )

    @property
    def envelope(self) -> Envelope:
        """The same with everything that a ticket can have."""
        return Envelope(
            ticket=self.ticket,
            kind=self.kind,
            body=self.body,
            content_type=self.content_type,
            submitted_at=self.received,
            admission=self.admission,
        )

    @property
    def message(self) -> Message:
        """What is published of it, with a fresh message id."""
        stencil = _stencil(self.kind, self.content_type, self.charset, self.exact, self.client)
        size = len(self.body)
        if stencil is None or size >= _WIDEST or self.tokens >= _WIDEST:
            return envelopes.encode(self.envelope)
        message_id = uuid7()
        header = stencil.filled(
            size,
            size,
            self.tokens,
            round(self.received * 1000),
            self.ticket.encode("ascii"),
            message_id.encode("ascii"),
            int(self.received),
        )
        return Laid(body=self.body, message_id=message_id, header=header, wire=self._wire)

    def _wire(self) -> Wire:
        return envelopes.encode(self.envelope)


@lru_cache(maxsize=_STENCILS)
def _stencil(kind: str, content_type: str, charset: str, exact: bool, client: str) -> Stencil | None:  # noqa: FBT001
    """Return the stencil of all tickets that have these in common; None where none can be cut."""
    sample = FreshTicket(
        ticket=TicketId(_TICKET),
        kind=kind,
        client=client,
        content_type=content_type,
        body=bytes(_SIZE),
        charset=charset,
        tokens=_TOKENS,
        exact=exact,
        received=_AT,
    )
    measured = replace(sample.admission, bytes=_BYTES)  # of the real ones, the size stands in both places
    wire = envelopes.encode(replace(sample.envelope, admission=measured))
    holes = (
        (_SIZE.to_bytes(8, "big"), "Q"),
        (_BYTES.to_bytes(4, "big"), "i"),
        (_TOKENS.to_bytes(4, "big"), "i"),
        (round(_AT * 1000).to_bytes(8, "big"), "q"),
        (_TICKET.encode("ascii"), "36s"),
        (_MESSAGE.encode("ascii"), "36s"),
        (int(_AT).to_bytes(8, "big"), "Q"),
    )
    try:
        return Stencil(content_header(wire, _MESSAGE), holes)
    except (Unencodable, Uncuttable):
        return None  # a client may have chosen its kind to look like a sample

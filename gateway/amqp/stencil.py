"""Content headers that differ from one another in a few values: cut once from a whole one, then filled in.

Owns the cutting. Pure, and knows no header by name: who wants a stencil brings a message with conspicuous samples in
the places that vary, written like every other, so that there is no second layout that could disagree with the first.
"""

import struct
from collections.abc import Callable, Sequence

from msgspec import Struct

from gateway.contract.wire import Wire


class Uncuttable(Exception):
    """A sample does not stand where it can be told from all else."""


class Stencil:
    """The payload of a content header with holes in it."""

    def __init__(self, whole: bytes, holes: Sequence[tuple[bytes, str]]) -> None:
        """Each hole is the sample that stands there in `whole` and the `struct` format of what may; in their order.

        Raises Uncuttable.
        """
        layout, pieces, at = ">", list[bytes | int](), 0
        for sample, form in holes:
            found = whole.find(sample)
            if found < at or whole.count(sample) != 1 or struct.calcsize(f">{form}") != len(sample):
                raise Uncuttable(repr(sample))
            layout += f"{found - at}s{form}"
            pieces += (whole[at:found], b"")
            at = found + len(sample)
        self._pieces = (*pieces, whole[at:])
        self._pack = struct.Struct(f"{layout}{len(whole) - at}s").pack

    def filled(self, *values: int | bytes) -> bytes:
        """Return the payload with a value in each hole, in their order.

        Raises struct.error for a number that does not fit. That text has the length of its sample is the caller's to
        see to: it would be padded, or cut.
        """
        pieces = list(self._pieces)
        pieces[1::2] = values
        return self._pack(*pieces)


class Laid(Struct, frozen=True, kw_only=True, gc=False):
    """A message whose content header is written already."""

    body: bytes
    message_id: str
    header: bytes
    wire: Callable[[], Wire]
    """Makes the message for who writes headers in another way."""


Message = Wire | Laid


def wire_of(message: Message) -> Wire:
    """Return a message as plain values."""
    return message.wire() if isinstance(message, Laid) else message

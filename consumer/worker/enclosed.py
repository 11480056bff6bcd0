"""Attachments as a handler meets them: those that travelled, and those that are fetched when it first asks.

Owns what becomes of a run whose attachment cannot be had: a depot that is down is nobody's fault and waited for, a
content that is gone or altered is hopeless. Opens no depot before a handler wants something of it.
"""

from functools import cached_property

from consumer.handler import Attachment, DependencyDown, Reject
from gateway import depot, preflight
from gateway.contract.references import Reference
from gateway.depot import ContentLost, DepotDown
from gateway.preflight.attachments import fetched

DEPENDENCY = "attachments"
"""The name under which a depot that is down has its breaker."""


def enclosed(found: preflight.Attachment, place: str) -> Attachment:
    """Return what a handler is given for an attachment; `place` is where the depot is."""
    reference = found.reference
    return Attachment(
        name=found.name,
        content_type=found.content_type,
        size=len(found.content) if reference is None else reference.bytes,
        source=_Travelled(found) if reference is None else _Stored(found, reference, place),
    )


class _Travelled:
    """It came in the message."""

    def __init__(self, found: preflight.Attachment) -> None:
        self.content = found.content
        self.text = found.text


class _Stored:
    """It lies in the depot; what was fetched once stays for as long as the ticket is held."""

    def __init__(self, found: preflight.Attachment, reference: Reference, place: str) -> None:
        self._found = found
        self._reference = reference
        self._place = place

    @property
    def content(self) -> bytes:
        return self._fetched.content

    @property
    def text(self) -> str | None:
        return self._fetched.text

    @cached_property
    def _fetched(self) -> preflight.Attachment:
        try:
            content = depot.fetch(depot.open_depot(self._place), self._reference)
        except DepotDown as error:
            raise DependencyDown(DEPENDENCY) from error
        except ContentLost as error:
            raise Reject(f"an attachment cannot be had any more: {error}") from error
        return fetched(self._found, content)

"""An item's body as a ticket with its attachments, read from its body as the door and the workers read them.

Owns the reading for the desk: lenient, off the event loop, and never more than facts and bytes. A name is text to show;
nothing is opened, decoded or written anywhere. What does not lie in the body is fetched when somebody wants its bytes.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from gateway import depot
from gateway.admission import Limits, Mode
from gateway.contract.references import digest_of
from gateway.preflight.attachments import Attachment
from gateway.preflight.inflation import Coding, inflate
from gateway.preflight.ticket import Submission, Ticket, parse_ticket
from gateway.station import dossier
from gateway.station.dossier import Content, Dossier
from gateway.station.store import Store

_MAX_INFLATED = 16 << 20


async def find(store: Store, ticket: str, generation: int) -> Sequence[Attachment]:
    """Return the attachments of an item, none where its body is no ticket; raises KeyError."""
    found = await read(store, ticket, generation)
    return () if found is None else found.attachments


async def read(store: Store, ticket: str, generation: int) -> Ticket | None:
    """Return an item's body as the ticket that it is, None where it is none; raises KeyError."""
    content = await dossier.find_content(store, ticket, generation)
    return await asyncio.to_thread(_read, content)


async def of(store: Store, found: Dossier) -> Sequence[Attachment]:
    """Return the attachments of a ticket's newest item, none where there is none, or its body is gone."""
    newest = found.items[0] if found.items else None
    return () if newest is None or newest.removed_at is not None else await find(store, found.ticket, newest.generation)


async def content_of(attachment: Attachment, place: str) -> bytes:
    """Return an attachment's bytes, from the depot at `place` where they lie there; raises DepotDown, ContentLost."""
    if attachment.reference is None:
        return attachment.content
    return await asyncio.to_thread(depot.fetch, depot.open_depot(place), attachment.reference)


def listed(attachments: Sequence[Attachment]) -> list[dict[str, Any]]:
    """Return attachments as `show --json` and the desk's API list them."""
    return [
        {
            **asdict(attachment.facts),
            "sha256": digest_of(attachment.content) if attachment.reference is None else attachment.reference.sha256,
            "reference": None if attachment.reference is None else attachment.reference.path,
        }
        for attachment in attachments
    ]


def disposition(name: str) -> str:
    """Return a header that has a browser save a file under `name`, and never show it."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def _read(content: Content) -> Ticket | None:
    body = content.body
    coding = Coding.named(content.content_encoding)
    if coding is not None and coding is not Coding.IDENTITY:
        plain = inflate(body, coding, max_bytes=_MAX_INFLATED)
        body = plain if isinstance(plain, bytes) else b""
    submission = Submission(
        body=body,
        content_type=content.content_type,
        kind=content.kind,
        charset=content.charset,
        opaque_as_text=True,
        folder=content.stored,
    )
    return parse_ticket(submission, Limits().softened(Mode.OFF)).ticket

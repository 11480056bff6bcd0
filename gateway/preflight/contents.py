"""What a ticket says, in the few bytes by which a repetition is told from another ticket under the same name.

Owns that digest. It stays the same over versions: stores keep it for as long as a repetition may come.
"""

import hashlib

import orjson

from gateway.preflight.ticket import Ticket


def digest_of(ticket: Ticket, client: str) -> str:
    """Return a digest of who says what, however it was wrapped: multipart boundaries change by themselves."""
    attributes = orjson.dumps(ticket.attributes, option=orjson.OPT_SORT_KEYS)
    parts: list[str | bytes] = [client, ticket.kind, ticket.subject or "", ticket.text, attributes]
    for attachment in ticket.attachments:
        parts += [attachment.name, attachment.content_type, attachment.content]
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()

"""References: how a message names a content that lies in the depot and not in the message itself.

Owns the names of folders and contents. None holds a word of a client's but its ticket id, whose characters cannot make
a path; and none can be forged: a folder's name has a digest of the very body that would have to contain it.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.contract.ids import TICKET_ID_PATTERN, TicketId

FOLDER_PATTERN: Final = re.compile(rf"({TICKET_ID_PATTERN.pattern})~([0-9a-f]{{32}})")
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_FOLDER_DIGITS: Final = 32
_MAX_BYTES: Final = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Where one content lies, and by what it is known again."""

    folder: str
    sha256: str
    bytes: int
    charset: str | None = None
    """What its text is in, for one that came as text; None: as its content type says."""
    sniffed: str | None = None
    """What its first bytes say that it is, where that is not what was declared."""

    @property
    def path(self) -> str:
        """Its name in the depot: folder and digest."""
        return f"{self.folder}/{self.sha256}"

    def document(self) -> dict[str, Any]:
        """Return what stands for the content in a message."""
        found: dict[str, Any] = {"reference": self.path, "bytes": self.bytes, "sha256": self.sha256}
        if self.charset is not None:
            found["charset"] = self.charset
        if self.sniffed is not None:
            found["sniffed"] = self.sniffed
        return found


def digest_of(content: bytes) -> str:
    """Return the name of a content."""
    return hashlib.sha256(content).hexdigest()


def folder_of(ticket: TicketId, body: bytes) -> str:
    """Name the folder of one submission: the same for the same bytes sent again, another one for any other."""
    digest = hashlib.sha256(ticket.encode() + b"\0")
    digest.update(body)
    return f"{ticket}~{digest.hexdigest()[:_FOLDER_DIGITS]}"


def owner_of(folder: str) -> TicketId | None:
    """Return the ticket that a folder was made for; None for a name that is no folder's."""
    found = FOLDER_PATTERN.fullmatch(folder)
    return None if found is None else TicketId(found[1])


def read(document: object, *, folder: str) -> Reference | None:
    """Read what `Reference.document` wrote; None for anything else, and for what lies in another folder."""
    if not isinstance(document, Mapping) or owner_of(folder) is None:
        return None
    path, size, digest = (document.get(name) for name in ("reference", "bytes", "sha256"))
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None or path != f"{folder}/{digest}":
        return None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MAX_BYTES:
        return None
    charset, sniffed = document.get("charset"), document.get("sniffed")
    return Reference(
        folder=folder,
        sha256=digest,
        bytes=size,
        charset=charset if isinstance(charset, str) else None,
        sniffed=sniffed if isinstance(sniffed, str) else None,
    )

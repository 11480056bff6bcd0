"""What a ticket brings along: names made safe to show, types, contents read where they are text.

Owns attachments as facts. Limits on their number, size and type are the admission's to judge; nothing here decodes an
image or opens an archive, and a name is never a path.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from gateway.admission import AttachmentFacts, Rule, Violation
from gateway.contract.references import Reference
from gateway.contract.rules import SOFT
from gateway.preflight.characters import blemishes
from gateway.preflight.encoding import Decoded, Undecodable, read_text
from gateway.preflight.media_type import parse_media_type
from gateway.preflight.sniffing import fits, sniff

MAX_NAME_BYTES = 255
OPAQUE = "application/octet-stream"

_UNSHOWABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """One attachment: a name to show (never a path), the type as declared, the bytes, and their text if it is text.

    One with a `reference` is not here but in the depot: its bytes are empty, and its text is not known.
    """

    name: str
    content_type: str
    content: bytes = field(repr=False)
    text: str | None = field(default=None, repr=False)
    waived: tuple[Violation, ...] = ()
    """What it breaks of the rules that were waived when it was read."""
    reference: Reference | None = None

    @property
    def facts(self) -> AttachmentFacts:
        """What of it is measured and recorded."""
        essence = self.content_type.partition(";")[0].strip().lower()
        if self.reference is not None:
            said = self.reference.sniffed
            return AttachmentFacts(
                name=self.name, content_type=essence, bytes=self.reference.bytes, sniffed=said, fits=said is None
            )
        found = sniff(self.content)
        return AttachmentFacts(
            name=self.name, content_type=essence, bytes=len(self.content), sniffed=found, fits=fits(essence, found)
        )


def from_text(
    *, name: str, content_type: str | None, text: str, pointer: str, waived: Collection[Rule] = ()
) -> Attachment | Violation:
    """An attachment that came as a JSON string."""
    passed_over = []
    for found in blemishes(text):
        violation = Violation(rule=found.rule, message=found.detail, pointer=f"{pointer}/content")
        if found.rule not in waived:
            return violation
        passed_over.append(violation)
    declared = content_type or "text/plain; charset=utf-8"
    if parse_media_type(declared) is None:
        return _bad_type(pointer)
    return Attachment(name=name, content_type=declared, content=text.encode(), text=text, waived=tuple(passed_over))


def from_base64(
    *, name: str, content_type: str | None, encoded: str, pointer: str, waived: Collection[Rule] = ()
) -> Attachment | Violation:
    """An attachment that came as base64 in JSON."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: not ASCII
        message = f"this is not base64: {error}"
        return Violation(rule=Rule.ATTACHMENT_CONTENT, message=message, pointer=f"{pointer}/content_base64")
    return from_bytes(
        name=name, content_type=content_type, content=content, pointer=f"{pointer}/content_base64", waived=waived
    )


def from_bytes(
    *, name: str, content_type: str | None, content: bytes, pointer: str, waived: Collection[Rule] = ()
) -> Attachment | Violation:
    """An attachment as bytes; where its type is text, the text is read by the same rules as a body's."""
    declared = content_type or OPAQUE
    media_type = parse_media_type(declared)
    if media_type is None:
        return _bad_type(pointer)
    if not media_type.is_text or not content:
        text = "" if media_type.is_text else None
        return Attachment(name=name, content_type=declared, content=content, text=text)
    match read_text(content, media_type.parameters.get("charset"), waived=waived):
        case Decoded() as read:
            passed_over = tuple(violation_of(refusal, pointer) for refusal in read.waived)
            return Attachment(name=name, content_type=declared, content=content, text=read.text, waived=passed_over)
        case Undecodable() as refusal:
            return violation_of(refusal, pointer)


def from_reference(
    *, name: str, content_type: str | None, reference: Reference, pointer: str
) -> Attachment | Violation:
    """An attachment that was left in the depot when its ticket was admitted."""
    declared = content_type or ("text/plain; charset=utf-8" if reference.charset else OPAQUE)
    if parse_media_type(declared) is None:
        return _bad_type(pointer)
    return Attachment(name=name, content_type=declared, content=b"", reference=reference)


def fetched(attachment: Attachment, content: bytes) -> Attachment:
    """Return an attachment with what was fetched from the depot, its text read as at the door."""
    reference = attachment.reference
    if reference is not None and reference.charset is not None:
        return replace(attachment, content=content, text=content.decode(reference.charset, "replace"))
    read = from_bytes(
        name=attachment.name, content_type=attachment.content_type, content=content, pointer="", waived=SOFT
    )
    text = read.text if isinstance(read, Attachment) else None
    return replace(attachment, content=content, text=text)


def violation_of(refusal: Undecodable, pointer: str = "") -> Violation:
    """What an answer says about bytes that are not read as text."""
    return Violation(
        rule=refusal.rule, message=refusal.detail, pointer=pointer, offset=refusal.offset, hint=refusal.hint
    )


def _bad_type(pointer: str) -> Violation:
    message = "the content type is malformed, or longer than 255 bytes"
    return Violation(rule=Rule.ATTACHMENT_TYPE, message=message, pointer=f"{pointer}/content_type")


def shown_name(sent: str | None, position: int) -> str:
    """The name to show for what a client called `sent`: its last path part, printable, at most 255 bytes of UTF-8.

    Lone surrogates become U+FFFD; what is left empty, or is only dots, becomes `attachment-<position + 1>`.
    """
    whole = (sent or "").encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    last = re.split(r"[/\\]", whole)[-1]
    clean = unicodedata.normalize("NFC", _UNSHOWABLE.sub("", last)).strip()
    if not clean.strip(". "):
        return f"attachment-{position + 1}"
    if len(clean.encode()) <= MAX_NAME_BYTES:
        return clean
    # The beginning and the ending both matter; never cut inside a character.
    stem, dot, ending = clean.rpartition(".")
    if not dot or len(ending.encode()) > MAX_NAME_BYTES // 4:
        stem, ending = clean, ""
    tail = f"….{ending}" if ending else "…"
    return stem.encode()[: MAX_NAME_BYTES - len(tail.encode())].decode("utf-8", "ignore") + tail

"""A ticket from the bytes of its message: the one reading that door and worker share.

Owns the three forms (JSON, text, multipart). Reads everything it safely can and lists what is wrong; judges no limit
but those that bound its own work. Never raises for any input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from gateway.admission import AttachmentFacts, Limits, Rule, Violation
from gateway.contract import references
from gateway.contract.ids import is_kind
from gateway.contract.references import Reference
from gateway.preflight import form, multipart
from gateway.preflight.attachments import (
    OPAQUE,
    Attachment,
    from_bytes,
    from_reference,
    shown_name,
    violation_of,
)
from gateway.preflight.charsets import codec_for
from gateway.preflight.encoding import CharsetSource, Undecodable, read_text
from gateway.preflight.json_body import Document, read_json
from gateway.preflight.media_type import MediaType, parse_media_type

SUPPORTED_TYPES = ("application/json", "text/*", "multipart/form-data")

_ASCII_COMPATIBLE = ("cp1252",)  # what us-ascii and latin1 mean, which JSON with escapes may well be declared as
_LONGEST_REFERENCE = 1_024
_OPAQUE_AS_TEXT = MediaType(essence="text/plain", parameters={})


class Submission(Struct, frozen=True, kw_only=True):
    """The bytes of a ticket and what was said about them, over HTTP or in a message's properties.

    `kind` is the one named beside the body (`?kind=`, `Lazaretto-Kind`, the message's type). `charset` is what an
    earlier check found, for a content type that declares none. `opaque_as_text` reads bytes without a type as text: for
    items that came past the door. `folder` is where its references may lead, as the door has said of an admitted item:
    without one there are none, whatever the bytes say.
    """

    body: bytes
    content_type: str | None
    kind: str | None = None
    charset: str | None = None
    content_encoding: str | None = None
    opaque_as_text: bool = False
    folder: str = ""

    def __repr__(self) -> str:
        """Show what was said about the bytes, and none of them."""
        return f"Submission(kind={self.kind!r}, content_type={self.content_type!r}, bytes={len(self.body)})"


class Ticket(Struct, frozen=True, kw_only=True):
    """What a handler gets to work with. `id` is the client's choice, if it made one."""

    kind: str
    id: str | None = None
    subject: str | None = None
    text: str
    attributes: Mapping[str, Any] = {}
    attachments: tuple[Attachment, ...] = ()

    def __repr__(self) -> str:
        """Show which ticket it is, and nothing of what it says."""
        return f"Ticket(kind={self.kind!r}, id={self.id!r}, attachments={len(self.attachments)})"

    def texts(self) -> tuple[str, ...]:
        """Everything of it that a prompt may contain, and so everything whose tokens count."""
        parts = [self.subject, self.text]
        # Not what is published or stored: a re-dump would lose what clients wrote (spacing, 1.0 or 1).
        parts.append(orjson.dumps(self.attributes).decode() if self.attributes else None)
        parts.extend(attachment.text for attachment in self.attachments)
        return tuple(part for part in parts if part)


class Reading(Struct, frozen=True, kw_only=True):
    """A ticket and how it was read; `ticket` is None when findings refuse it, `kind` when no valid one was named."""

    ticket: Ticket | None = None
    kind: str | None = None
    charset: str | None = None
    charset_source: CharsetSource | None = None
    warnings: tuple[str, ...] = ()
    attachments: tuple[AttachmentFacts, ...] = ()
    findings: tuple[Violation, ...] = ()


def parse_ticket(submission: Submission, limits: Limits) -> Reading:
    """Read `submission`, whose content encoding is undone already. Bounded for bodies within `max_body_bytes`.

    What breaks only rules that are not enforced is a ticket, and a finding.
    """
    limits = limits.of(submission.kind)
    reading = _read_form_of(submission, limits)
    if submission.kind is None:
        return reading
    if not is_kind(submission.kind):
        # One more finding, not the end: what an earlier stage finds goes before it in the answer.
        return replace(reading, ticket=None, findings=(*reading.findings, form.bad_kind()))
    return reading if reading.kind is not None else replace(reading, kind=submission.kind)


def _read_form_of(submission: Submission, limits: Limits) -> Reading:
    media_type = parse_media_type(submission.content_type or OPAQUE)
    if media_type is not None and media_type.essence == OPAQUE and submission.opaque_as_text:
        media_type = _OPAQUE_AS_TEXT
    if media_type is None:
        return Reading(findings=(_unsupported("the content type is malformed, or longer than 255 bytes"),))
    if media_type.essence == "application/json":
        return _from_json(submission.body, media_type, submission, limits)
    if media_type.is_text:
        return _from_text(submission, media_type, limits)
    if media_type.essence == "multipart/form-data":
        return _from_multipart(submission, media_type, limits)
    return Reading(findings=(_unsupported("this content type is not supported"),))


def _unsupported(message: str) -> Violation:
    supported = ", ".join(SUPPORTED_TYPES)
    return Violation(
        rule=Rule.UNSUPPORTED_CONTENT_TYPE, message=f"{message}; supported are {supported}", limit=supported
    )


def _from_json(body: bytes, media_type: MediaType, submission: Submission, limits: Limits) -> Reading:
    charset = media_type.parameters.get("charset")
    codec = "utf-8" if charset is None else codec_for(charset)
    if codec != "utf-8" and not (codec in _ASCII_COMPATIBLE and body.isascii()):
        message = "JSON is UTF-8; no other charset is supported for it"
        return Reading(findings=(Violation(rule=Rule.UNSUPPORTED_CHARSET, message=message, limit="utf-8"),))
    match read_json(
        body,
        max_brackets=limits.max_json_brackets,
        max_keys=limits.max_json_keys,
        max_depth=limits.max_json_depth,
    ):
        case Violation() as violation:
            return Reading(findings=(violation,))
        case Document(value):
            read = form.read_form(
                value,
                kind=submission.kind,
                limits=limits,
                source=body,
                folder=submission.folder,
            )
            return _reading(read, limits, charset="utf-8", source=CharsetSource.FORMAT)


def _from_text(submission: Submission, media_type: MediaType, limits: Limits) -> Reading:
    declared = media_type.parameters.get("charset") or submission.charset
    read = read_text(submission.body, declared, accept_detected=limits.accept_detected, waived=limits.waived)
    if isinstance(read, Undecodable):
        return Reading(findings=(violation_of(read),))
    findings = tuple(violation_of(refusal) for refusal in read.waived)
    if submission.kind is None:
        findings += (form.no_kind(),)
    found = form.Form(kind=submission.kind, text=read.text, warnings=read.warnings, findings=findings)
    return _reading(found, limits, charset=read.charset, source=read.source)


def _from_multipart(submission: Submission, media_type: MediaType, limits: Limits) -> Reading:
    # One part is the ticket or its body; whatever the limit, the work stays bounded.
    parts = multipart.read_parts(submission.body, media_type, max_parts=form.most_attachments(limits) + 1)
    match parts:
        case multipart.BadMultipart(detail=detail):
            return Reading(findings=(Violation(rule=Rule.MULTIPART_MALFORMED, message=detail),))
        case multipart.TooManyParts(parts=count):
            return Reading(findings=(form.too_many_attachments(count - 1, limits),))
        case _:
            pass
    leading = [part for part in parts if part.filename is None and part.name in ("ticket", "body")]
    if len(leading) != 1:
        message = "a multipart ticket has exactly one part named `ticket` (JSON) or `body` (text)"
        return Reading(findings=(Violation(rule=Rule.MULTIPART_MALFORMED, message=message),))
    main = leading[0]
    attachments = _attached([part for part in parts if part is not main], limits.waived, submission.folder)
    if main.name == "ticket":
        reading = _from_json(main.content, main.media_type, submission, limits)
    else:
        body = Submission(
            body=main.content, content_type=main.content_type, kind=submission.kind, charset=submission.charset
        )
        reading = _from_text(body, main.media_type, limits)
    return _with_attachments(reading, attachments, limits)


def _attached(parts: list[multipart.Part], waived: Collection[Rule], folder: str) -> list[Attachment | Violation]:
    return [_attachment(part, position, waived, folder) for position, part in enumerate(parts)]


def _attachment(part: multipart.Part, position: int, waived: Collection[Rule], folder: str) -> Attachment | Violation:
    name = shown_name(part.filename if part.filename is not None else part.name, position)
    content_type = part.content_type or ("text/plain" if part.filename is None else None)
    pointer = f"/attachments/{position}"
    reference = _referred(part.content, folder)
    if reference is not None:
        return from_reference(name=name, content_type=content_type, reference=reference, pointer=pointer)
    return from_bytes(name=name, content_type=content_type, content=part.content, pointer=pointer, waived=waived)


def _referred(content: bytes, folder: str) -> Reference | None:
    """Return the reference that stands in the place of a part's content, None for content."""
    if not folder or len(content) > _LONGEST_REFERENCE:
        return None
    try:
        return references.read(orjson.loads(content), folder=folder)
    except orjson.JSONDecodeError:
        return None


def _with_attachments(reading: Reading, attachments: list[Attachment | Violation], limits: Limits) -> Reading:
    good = tuple(attachment for attachment in attachments if isinstance(attachment, Attachment))
    bad = tuple(attachment for attachment in attachments if isinstance(attachment, Violation))
    ticket = reading.ticket
    findings = sum((attachment.waived for attachment in good), reading.findings + bad)
    if ticket is not None:
        ticket = replace(ticket, attachments=ticket.attachments + good)
    return replace(
        reading,
        ticket=None if _is_refused(findings, limits) else ticket,
        attachments=reading.attachments + tuple(attachment.facts for attachment in good),
        findings=findings,
    )


def _is_refused(findings: tuple[Violation, ...], limits: Limits) -> bool:
    """Tell whether any of this is certain to refuse the ticket, so that it need not be made."""
    waived = limits.waived
    return any(finding.rule not in waived for finding in findings)


def _reading(read: form.Form, limits: Limits, *, charset: str, source: CharsetSource) -> Reading:
    ticket = None
    if read.kind is not None and not _is_refused(read.findings, limits):
        ticket = Ticket(
            kind=read.kind,
            id=read.id,
            subject=read.subject,
            text=read.text,
            attributes=read.attributes,
            attachments=read.attachments,
        )
    return Reading(
        ticket=ticket,
        kind=read.kind if read.kind is not None and is_kind(read.kind) else None,
        charset=charset,
        charset_source=source,
        warnings=read.warnings,
        attachments=tuple(attachment.facts for attachment in read.attachments),
        findings=read.findings,
    )

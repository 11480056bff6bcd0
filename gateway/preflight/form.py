"""The members of a ticket in JSON: which there are, of what type, and what their text may hold.

Owns the shape clients write against. An unknown member is an error: whoever misspells one should hear of it now, not
wonder later. Answers name at most ten of a kind, and never quote a value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from gateway.admission import Limits, Rule, Violation
from gateway.contract import references
from gateway.contract.ids import is_kind, is_ticket_id
from gateway.preflight.attachments import Attachment, from_base64, from_reference, from_text, shown_name
from gateway.preflight.characters import blemishes, warnings
from gateway.preflight.json_body import quoted

MEMBERS = ("kind", "id", "subject", "body", "attributes", "attachments")
ATTACHMENT_MEMBERS = ("name", "content_type", "content", "content_base64")
STORED = "stored"
"""The member of an attachment whose content was left in the depot: written by the door, unknown in a submission."""
MOST_NAMED = 10
MOST_ATTACHMENTS = 1_000
"""Where no limit on them is enforced."""


class Form(Struct, frozen=True, kw_only=True):
    """What was written into the members, as far as it could be read; `findings` is what was wrong with it."""

    kind: str | None = None
    id: str | None = None
    subject: str | None = None
    text: str = ""
    attributes: Mapping[str, Any] = {}
    attachments: tuple[Attachment, ...] = ()
    warnings: tuple[str, ...] = ()
    findings: tuple[Violation, ...] = ()

    def __repr__(self) -> str:
        """Show what was found, and nothing of the text."""
        return f"Form(kind={self.kind!r}, id={self.id!r}, findings={self.findings!r})"


def read_form(value: object, *, kind: str | None, limits: Limits, source: bytes, folder: str = "") -> Form:
    """Read a parsed JSON ticket. `kind` is the one named beside the body; a null member counts as left out.

    `source` are the bytes it was parsed from: what they cannot hold is not looked for. `folder` is where the ticket's
    references may lead; without one, none is believed.
    """
    if not isinstance(value, dict):
        return Form(findings=(_type("", "a ticket is a JSON object"),))
    return _at_a_glance(value, kind, source) or _read(value, kind, limits, source, folder)


def _at_a_glance(value: dict[str, object], kind: str | None, source: bytes) -> Form | None:
    """Read the form that most tickets have, at a fifth of what it costs to look for all that can be wrong.

    It has a kind, a text and perhaps a subject, all in ASCII and without an escape: nothing can be wrong with these.
    """
    own, text, subject = value.get("kind"), value.get("body"), value.get("subject", "")
    if (
        not (type(own) is type(text) is type(subject) is str)
        or not text
        or len(value) != (3 if subject else 2)
        or (kind is not None and kind != own)
        or not is_kind(own)
        or b"\\" in source
        or b"\x7f" in source
        or not (text.isascii() and subject.isascii())
    ):
        return None
    return Form(kind=own, subject=subject or None, text=text)


def _read(value: dict[str, object], kind: str | None, limits: Limits, source: bytes, folder: str) -> Form:
    members = {name: member for name, member in value.items() if member is not None}
    findings = list(_unknown(value, MEMBERS, ""))
    own_kind = _text_member(members, "kind", "", findings)
    attributes = members.get("attributes", {})
    if not isinstance(attributes, dict):
        findings.append(_type("/attributes", "attributes are a JSON object"))
        attributes = {}
    # In JSON, the only control that may stand as it is, unescaped, is DEL.
    may_hold_controls = b"\\" in source or b"\x7f" in source
    if attributes and b"\\u0000" in source and _holds_nul(attributes):
        findings.append(Violation(rule=Rule.NUL, message="the text contains U+0000", pointer="/attributes"))
    subject = _text_member(members, "subject", "", findings)
    text = _text_member(members, "body", "", findings)
    if "body" not in members:
        message = "a ticket has a member `body`: its text"
        findings.append(Violation(rule=Rule.MISSING_MEMBER, message=message, pointer="/body"))
    elif text == "":
        findings.append(Violation(rule=Rule.EMPTY, message="there is no text", pointer="/body"))
    ticket_id = _text_member(members, "id", "", findings)
    if ticket_id is not None and not is_ticket_id(ticket_id):
        message = "an id has 1 to 128 of the characters A-Z a-z 0-9 . _ : ~ -"
        findings.append(Violation(rule=Rule.ID_INVALID, message=message, pointer="/id"))
    findings += _kind_findings(own_kind, kind)
    kind = own_kind or kind
    for pointer, part in (("/subject", subject), ("/body", text)):
        if not part or (part.isascii() and not may_hold_controls):
            continue  # nothing unusual can be in it
        findings += [
            Violation(rule=found.rule, message=found.detail, pointer=pointer)
            for found in blemishes(part, may_hold_controls=may_hold_controls)
        ]
    attachments = _attachments(members["attachments"], limits, folder) if "attachments" in members else []
    for attachment in attachments:
        findings += [attachment] if isinstance(attachment, Violation) else attachment.waived
    return Form(
        kind=kind,
        id=ticket_id,
        subject=subject,
        text=text or "",
        attributes=attributes,
        attachments=tuple(attachment for attachment in attachments if isinstance(attachment, Attachment)),
        warnings=warnings(text or ""),
        findings=tuple(findings),
    )


def bad_kind(pointer: str = "") -> Violation:
    """The kind is not one."""
    message = "a kind has 1 to 64 of the characters a-z 0-9 . _ - and begins with a letter or a digit"
    return Violation(rule=Rule.KIND_INVALID, message=message, pointer=pointer)


def no_kind() -> Violation:
    """Nobody named the kind."""
    message = "the kind of the ticket is missing: a member `kind`, `?kind=` or the header Lazaretto-Kind"
    return Violation(rule=Rule.MISSING_MEMBER, message=message, pointer="/kind")


def most_attachments(limits: Limits) -> int:
    """How many attachments are looked at, so that the work is bounded by a limit and not by the body."""
    is_waived = Rule.TOO_MANY_ATTACHMENTS in limits.waived
    return max(limits.max_attachments, MOST_ATTACHMENTS) if is_waived else limits.max_attachments


def too_many_attachments(count: int, limits: Limits) -> Violation:
    """More attachments than are looked at: none of them is."""
    most = most_attachments(limits)
    return Violation(
        rule=Rule.TOO_MANY_PARTS if Rule.TOO_MANY_ATTACHMENTS in limits.waived else Rule.TOO_MANY_ATTACHMENTS,
        message=f"{count} attachments; at most {most} are admitted",
        pointer="/attachments",
        limit=most,
        actual=count,
        unit="attachments",
    )


def _kind_findings(own: str | None, beside: str | None) -> Iterator[Violation]:
    if own is None:
        if beside is None:
            yield no_kind()
    elif not is_kind(own):
        yield bad_kind("/kind")
    elif beside is not None and own != beside:
        message = "the ticket names another kind than the request"
        yield Violation(rule=Rule.KIND_INVALID, message=message, pointer="/kind")


def _type(pointer: str, message: str) -> Violation:
    return Violation(rule=Rule.MEMBER_TYPE, message=message, pointer=pointer)


def _unknown(value: Mapping[str, object], known: tuple[str, ...], pointer: str) -> Iterator[Violation]:
    strangers = [name for name in value if name not in known]
    for name in strangers[:MOST_NAMED]:
        message = f"{quoted(name)} is not a member here; known are {', '.join(known)}"
        yield Violation(rule=Rule.UNKNOWN_MEMBER, message=message, pointer=pointer)


def _text_member(members: Mapping[str, object], name: str, pointer: str, findings: list[Violation]) -> str | None:
    member = members.get(name)
    if member is None or isinstance(member, str):
        return member
    findings.append(_type(f"{pointer}/{name}", f"`{name}` is a string"))
    return None


def _holds_nul(value: object) -> bool:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text if "\0" in text:
                return True
            case list() as items:
                waiting.extend(items)
            case dict() as members:
                waiting.extend(members)
                waiting.extend(members.values())
            case _:
                pass
    return False


def _attachments(value: object, limits: Limits, folder: str) -> list[Attachment | Violation]:
    if not isinstance(value, list):
        return [_type("/attachments", "attachments are a JSON array")]
    if len(value) > most_attachments(limits):
        return [too_many_attachments(len(value), limits)]
    return [
        found for position, entry in enumerate(value) for found in _attachment(entry, position, limits.waived, folder)
    ]


def _attachment(entry: object, position: int, waived: Collection[Rule], folder: str) -> list[Attachment | Violation]:
    pointer = f"/attachments/{position}"
    if not isinstance(entry, dict):
        return [_type(pointer, "an attachment is a JSON object")]
    members = {name: member for name, member in entry.items() if member is not None}
    unknown, findings = list(_unknown(entry, ATTACHMENT_MEMBERS, pointer)), list[Violation]()
    name = _text_member(members, "name", pointer, findings)
    content_type = _text_member(members, "content_type", pointer, findings)
    reference = references.read(members.get(STORED), folder=folder) if folder else None
    if reference is not None and not findings:
        shown = shown_name(name, position)
        return [from_reference(name=shown, content_type=content_type, reference=reference, pointer=pointer)]
    text = _text_member(members, "content", pointer, findings)
    encoded = _text_member(members, "content_base64", pointer, findings)
    if ("content" in members) == ("content_base64" in members):
        message = "an attachment has either `content` (text) or `content_base64`"
        findings.append(Violation(rule=Rule.ATTACHMENT_CONTENT, message=message, pointer=pointer))
    if findings or (unknown and Rule.UNKNOWN_MEMBER not in waived):
        return [*unknown, *findings]
    shown = shown_name(name, position)
    if text is not None:
        read = from_text(name=shown, content_type=content_type, text=text, pointer=pointer, waived=waived)
    else:
        read = from_base64(name=shown, content_type=content_type, encoded=encoded or "", pointer=pointer, waived=waived)
    return [*unknown, read]

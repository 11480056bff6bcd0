"""A held item's body with something in it changed, and what the change is in words; pure.

Owns the three ways to edit: the whole body as bytes, a text in place of its text, members of a JSON ticket. What was
not named stays as it was. The item keeps its own body: an edit belongs to the generation that it begins.
"""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.contract.text import clip
from gateway.preflight.media_type import MediaType, parse_media_type

MAX_DIFFERENCE: Final = 64 * 1024
"""Bytes of the difference that are kept; it says so where it was cut."""
_MOST_LINES: Final = 5000
"""Beyond it a line by line comparison takes longer than a person would wait."""
_JSON: Final = "application/json"


class NotEditable(ValueError):
    """The edit does not fit the form of the body; the text says why, and what would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is to be different; None stays as it is."""

    body: bytes | None = field(default=None, repr=False)
    """The whole body. Not together with the members below."""
    content_type: str | None = None
    """Of the whole body."""
    text: str | None = field(default=None, repr=False)
    subject: str | None = field(default=None, repr=False)
    attributes: Mapping[str, Any] | None = field(default=None, repr=False)
    """In place of all that it had."""

    @property
    def is_empty(self) -> bool:
        """Tell whether it changes nothing."""
        return all(value is None for value in (self.body, self.content_type, self.text, self.subject, self.attributes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The body as it is to be sent."""

    body: bytes = field(repr=False)
    content_type: str


def apply(body: bytes, content_type: str | None, edit: Edit) -> Edited:
    """Return a body, whose content encoding is undone, with an edit applied; raises NotEditable."""
    if edit.body is not None or edit.content_type is not None:
        if any(value is not None for value in (edit.text, edit.subject, edit.attributes)):
            raise NotEditable("give either the whole body or members of it, not both")
        whole = body if edit.body is None else edit.body
        return Edited(body=whole, content_type=edit.content_type or content_type or "application/octet-stream")
    media_type = parse_media_type(content_type or "")
    if media_type is not None and media_type.essence == _JSON:
        return Edited(body=_json(body, edit), content_type=_JSON)
    if media_type is None or not media_type.is_text:
        raise NotEditable(f"a body of the type {content_type or 'unknown'} can only be edited as a whole")
    if edit.subject is not None or edit.attributes is not None:
        raise NotEditable(f"a body of the type {media_type.essence} has no subject and no attributes, only a text")
    return Edited(body=(edit.text or "").encode("utf-8", "replace"), content_type=_as_utf8(media_type))


def difference(before: bytes, after: Edited, *, was: str | None, charset: str | None = None) -> str:
    """Say what an edit changed, as a unified diff of the texts; of other bytes, their sizes.

    `was` is the content type before, `charset` what the door had measured where that type names none.
    """
    told = [] if was == after.content_type else [f"content type: {was} -> {after.content_type}\n"]
    one, other = _lines(before, was, charset), _lines(after.body, after.content_type, None)
    if one is None or other is None:
        told.append(f"{len(before)} bytes -> {len(after.body)} bytes, not shown line by line\n")
    else:
        told += (line if line.endswith("\n") else f"{line}\n" for line in difflib.unified_diff(one, other, n=2))
    return clip("".join(told), MAX_DIFFERENCE)


def _json(body: bytes, edit: Edit) -> bytes:
    try:
        ticket = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotEditable("its body is no JSON that can be read: give a whole body") from error
    if not isinstance(ticket, dict):
        raise NotEditable("its body is no JSON object: give a whole body")
    for name, value in (("body", edit.text), ("subject", edit.subject), ("attributes", edit.attributes)):
        if value is not None:
            ticket[name] = value
    # Whoever pasted a lone surrogate gets the door's answer to it, not an error of the encoder.
    return json.dumps(ticket, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _as_utf8(media_type: MediaType) -> str:
    return f"{media_type.essence}; charset=utf-8"


def _lines(body: bytes, content_type: str | None, measured: str | None) -> list[str] | None:
    media_type = parse_media_type(content_type or "")
    is_json = media_type is not None and media_type.essence == _JSON
    named = None if media_type is None or is_json else media_type.parameters.get("charset")
    try:
        text = body.decode("utf-8" if is_json else named or measured or "utf-8")
        if is_json:
            text = json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (LookupError, ValueError, RecursionError):
        return None
    lines = text.splitlines(keepends=True)
    return lines if len(lines) <= _MOST_LINES else None

"""A body without its larger attachments: references stand where they stood, and not another byte is changed.

Owns where a content begins and ends in the body, in JSON and in multipart. What it makes is read by `parse_ticket`, to
which the folder has been named. Pure, for bodies that were admitted; the worst takes as long as their examination.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from gateway.contract.references import Reference, digest_of
from gateway.preflight import multipart
from gateway.preflight.attachments import Attachment
from gateway.preflight.form import STORED
from gateway.preflight.media_type import parse_media_type
from gateway.preflight.multipart import Part

_CONTENTS = ("content", "content_base64")
_SPACE = re.compile(r"[ \t\r\n]*+")
_JSON = json.JSONDecoder(parse_int=str, parse_float=str)
"""Only to find out where a value ends; the interpreter bounds the digits that it makes a number of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """What travels, and what is to be stored before it may: contents by their digest, each once."""

    body: bytes = field(repr=False)
    contents: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Edit:
    """Bytes of the body, from `begin` to before `end`, and what takes their place."""

    begin: int
    end: int
    instead: bytes


def withdraw(
    body: bytes, content_type: str, attachments: Sequence[Attachment], *, folder: str, above: int
) -> Withdrawal | None:
    """Take the contents of more than `above` bytes out of the body of an admitted ticket; None where there are none.

    `attachments` are the ticket's, as they were read of this very body; `folder` is where their contents will lie.
    """
    media_type = parse_media_type(content_type)
    if media_type is None or all(len(attachment.content) <= above for attachment in attachments):
        return None
    take = _Taker(attachments, folder, above)
    if media_type.essence == "application/json":
        edits = list(_in_json(body, 0, take))
    else:
        parts = multipart.read_parts(body, media_type, max_parts=len(attachments) + 1)
        edits = list(_in_parts(parts, take)) if isinstance(parts, tuple) else []
    return Withdrawal(body=_edited(body, edits), contents=take.contents) if edits else None


class _Taker:
    """Goes through the attachments in their order, and keeps what is to be stored."""

    def __init__(self, attachments: Sequence[Attachment], folder: str, above: int) -> None:
        self._waiting = iter(attachments)
        self._folder = folder
        self._above = above
        self.contents: dict[str, bytes] = {}

    def next(self, charset: str | None = None, *, stays: bool = False) -> bytes | None:
        """Return what stands for the next attachment; None if it stays where it is."""
        attachment = next(self._waiting)
        content, facts = attachment.content, attachment.facts
        if stays or len(content) <= self._above:
            return None
        reference = Reference(
            folder=self._folder,
            sha256=digest_of(content),
            bytes=len(content),
            charset=charset,
            sniffed=None if facts.fits else facts.sniffed or "",
        )
        self.contents[reference.sha256] = content
        return orjson.dumps(reference.document())


def _in_parts(parts: Sequence[Part], take: _Taker) -> Iterator[_Edit]:
    """The attachments of the part that is the ticket come first, as they do where they are read."""
    main = next(part for part in parts if part.filename is None and part.name in ("ticket", "body"))
    if main.name == "ticket":
        yield from _in_json(main.content, main.at, take)
    for part in parts:
        if part is main:
            continue
        reference = take.next()
        if reference is not None:
            yield _Edit(part.at, part.at + len(part.content), reference)


def _in_json(document: bytes, at: int, take: _Taker) -> Iterator[_Edit]:
    """Edits of a JSON ticket that begins at `at` of the body."""
    # A character for each byte, so that places are the same in both. What matters here is ASCII; what is not stands
    # inside strings, of which only the ends are looked for.
    text = document.decode("latin-1")
    listed = next((one for one in _members(text, _past_space(text, 0)) if one.name == "attachments"), None)
    if listed is None or text[listed.value] != "[":
        return
    for begin in _elements(text, listed.value):
        members = list(_members(text, begin))
        content = next(one for one in members if one.name in _CONTENTS and text[one.value] == '"')
        # A member of the client's own that goes by this name keeps its place, and so does the content beside it.
        is_taken = any(one.name == STORED for one in members)
        reference = take.next("utf-8" if content.name == "content" else None, stays=is_taken)
        if reference is not None:
            yield _Edit(at + content.begin, at + content.end, b'"%s":%s' % (STORED.encode(), reference))


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object, and where its name begins, its value begins, and it ends."""

    name: str
    begin: int
    value: int
    end: int


def _members(text: str, at: int) -> Iterator[_Member]:
    """Yield the members of the well-formed object that begins at `at`."""
    at = _past_space(text, at + 1)
    while text[at] != "}":
        name, end = _JSON.raw_decode(text, at)
        value = _past_space(text, _past_space(text, end) + 1)
        end = _JSON.raw_decode(text, value)[1]
        yield _Member(name, at, value, end)
        at = _past_comma(text, end)


def _elements(text: str, at: int) -> Iterator[int]:
    """Yield where each element of the well-formed array begins that begins at `at`."""
    at = _past_space(text, at + 1)
    while text[at] != "]":
        yield at
        at = _past_comma(text, _JSON.raw_decode(text, at)[1])


def _past_comma(text: str, at: int) -> int:
    at = _past_space(text, at)
    return _past_space(text, at + 1) if text[at] == "," else at


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _edited(body: bytes, edits: Sequence[_Edit]) -> bytes:
    pieces, at = [], 0
    for edit in sorted(edits, key=lambda one: one.begin):
        pieces += [body[at : edit.begin], edit.instead]
        at = edit.end
    return b"".join([*pieces, body[at:]])

"""The parts of a complete multipart/form-data body.

Owns a small strict parser (RFC 2046, RFC 7578): the body is here and under its cap already, so there is nothing to
stream, and every step is one pass over it. Never decides what a part means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.preflight.file_names import file_name, header_text
from gateway.preflight.media_type import MediaType, parse_form_parameters, parse_media_type

MAX_HEADER_BYTES = 4_096
MAX_HEADER_LINES = 16

_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]++):[ \t]*+(.*+)", re.DOTALL)
_TRANSPARENT = ("", "7bit", "8bit", "binary")
_DEFAULT_TYPE = MediaType(essence="text/plain", parameters={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part: the form field's name, the file name as sent (None: it is no file), its type and bytes.

    `at` is where the bytes begin in the whole body.
    """

    name: str
    filename: str | None
    content_type: str | None
    media_type: MediaType
    content: bytes
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BadMultipart:
    """What is wrong with the framing, in words without payload."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TooManyParts:
    """More parts than will be looked at; nothing else was read."""

    parts: int


def read_parts(
    body: bytes, content_type: MediaType, *, max_parts: int
) -> tuple[Part, ...] | BadMultipart | TooManyParts:
    """Split `body` at the boundary its content type names. Parts are counted before the first is looked at."""
    boundary = content_type.parameters.get("boundary", "")
    if _BOUNDARY.fullmatch(boundary) is None:
        return BadMultipart(detail="the content type names no usable boundary")
    delimiter = b"\r\n--" + boundary.encode("ascii")
    framed = b"\r\n" + body
    count = framed.count(delimiter) - 1
    if count > max_parts:
        return TooManyParts(parts=count)
    preamble, *segments = framed.split(delimiter)
    parts: list[Part] = []
    end = len(preamble) - len(b"\r\n")
    for segment in segments:
        begin = end + len(delimiter)
        end = begin + len(segment)
        if segment.startswith(b"--"):
            return tuple(parts) if parts else BadMultipart(detail="there are no parts")
        padding, line_end, rest = segment.partition(b"\r\n")
        if padding.strip(b" \t") or not line_end:
            return BadMultipart(detail="a boundary is followed by something else on its line")
        part = _part(rest, end - len(rest))
        if isinstance(part, BadMultipart):
            return part
        parts.append(part)
    return BadMultipart(detail="the closing boundary is missing")


def _part(raw: bytes, at: int) -> Part | BadMultipart:
    end = raw.find(b"\r\n\r\n", 0, MAX_HEADER_BYTES + 4)
    if end < 0:
        return BadMultipart(detail=f"the headers of a part do not end within {MAX_HEADER_BYTES} bytes")
    headers = _headers(raw[:end])
    if isinstance(headers, BadMultipart):
        return headers
    if headers.get("content-transfer-encoding", "").lower() not in _TRANSPARENT:
        return BadMultipart(detail="a part has a content transfer encoding; parts are read as they are")
    disposition, semicolon, rest = headers.get("content-disposition", "").partition(";")
    parameters = parse_form_parameters(semicolon + rest)
    if disposition.strip().lower() != "form-data" or parameters is None or "name" not in parameters:
        return BadMultipart(detail="a part has no content disposition of the form `form-data; name=...`")
    declared = headers.get("content-type")
    media_type = _DEFAULT_TYPE if declared is None else parse_media_type(declared)
    if media_type is None:
        return BadMultipart(detail="the content type of a part is malformed")
    return Part(
        name=parameters["name"],
        filename=file_name(parameters),
        content_type=declared,
        media_type=media_type,
        content=raw[end + 4 :],
        at=at + end + 4,
    )


def _headers(block: bytes) -> Mapping[str, str] | BadMultipart:
    lines = block.split(b"\r\n")
    if len(lines) > MAX_HEADER_LINES:
        return BadMultipart(detail=f"a part has more than {MAX_HEADER_LINES} headers")
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            return BadMultipart(detail="a part has a malformed header line")
        name = found[1].decode("ascii").lower()
        if name in headers:
            return BadMultipart(detail="a part has the same header twice")
        headers[name] = header_text(found[2].rstrip(b" \t"))
    return headers

"""JSON from bytes, within limits, and nothing that JSON readers disagree on.

Owns the checks around orjson: brackets counted before it parses, depth, duplicate keys, integers it would turn into
floats. The bytes themselves travel on unchanged; nothing here is ever re-dumped in their place. Never raises.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.admission import Rule, Violation

LONGEST_QUOTE = 64
"""Characters of a client's own name for a member that an answer may repeat."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32le"),
    (codecs.BOM_UTF32_BE, "utf-32be"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# No possessive group with a choice or an end to look for in it: CPython before 3.11.5 matches those wrongly.
_STEP = re.compile(_STRING + rb"([ \t\r\n]*+:)?|[{}\[\]]", re.DOTALL)
"""A string, which a colon makes a key, or a bracket."""
_NUMBER = re.compile(_STRING + rb"|(-?[0-9]++(?![.eE])|[0-9.eE+-]++)", re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_LONGEST_INTEGER = 20
"""Digits of the largest unsigned 64-bit integer, or of the smallest signed one with its sign."""

_ORJSON_DEPTH = 1_024


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON value that every reader reads alike."""

    value: Any


def read_json(body: bytes, *, max_brackets: int = 100_000, max_depth: int = 128) -> Document | Violation:
    """Parse `body`, or name the first thing wrong with it and where. Bounded: under 100 ms for the worst 512 KiB."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            message = f"JSON is UTF-8 without a byte order mark; this body begins with that of {name}"
            return Violation(rule=Rule.JSON_BOM, message=message, offset=0, hint=name)
    brackets = body.count(b"[") + body.count(b"{")
    if brackets > max_brackets:
        # orjson holds the GIL for all of them, so they are counted before it starts (microseconds).
        return _nesting(limit=max_brackets, actual=brackets, unit="brackets")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _malformed(body, error, max_depth)
    if brackets <= max_depth and _is_plain(body):
        return Document(value)
    return _structure(body, max_depth) or _integers(body) or Document(value)


def quoted(name: str) -> str:
    """A client's own name for something, safe to repeat: short, printable, in quotes."""
    short = name if len(name) <= LONGEST_QUOTE else name[: LONGEST_QUOTE - 1] + "…"
    return f'"{"".join(character if character.isprintable() else "�" for character in short)}"'


def _nesting(*, limit: int, actual: int, unit: str, offset: int | None = None) -> Violation:
    message = f"the JSON is nested too much: {actual} {unit}, at most {limit} are read"
    return Violation(rule=Rule.JSON_NESTING, message=message, limit=limit, actual=actual, unit=unit, offset=offset)


def _malformed(body: bytes, error: orjson.JSONDecodeError, max_depth: int) -> Violation:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        message = f"JSON is UTF-8; the bytes at {undecodable.start} are not"
        return Violation(rule=Rule.JSON_INVALID_UTF8, message=message, offset=undecodable.start)
    offset = len(text[: error.pos].encode())
    if "surrogate" in error.msg:
        message = f"half of a surrogate pair stands alone at byte {offset}"
        return Violation(rule=Rule.JSON_LONE_SURROGATE, message=message, offset=offset)
    if "depth" in error.msg:
        return _nesting(limit=max_depth, actual=_ORJSON_DEPTH + 1, unit="levels", offset=offset)
    return Violation(rule=Rule.JSON_MALFORMED, message=f"{error.msg} (byte {offset})", offset=offset)


class _Doubt(Exception):
    """A quick look found something that may break a rule."""


def _is_plain(body: bytes) -> bool:
    """Whether a quick look (a few microseconds for a small ticket) finds every key once and no huge integer."""
    try:
        json.loads(body.decode("utf-8"), object_pairs_hook=_each_key_once, parse_int=_short_integer)
    except (_Doubt, ValueError, RecursionError):
        return False
    return True


def _each_key_once(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _value in pairs}) != len(pairs):
        raise _Doubt


def _short_integer(digits: str) -> None:
    if len(digits) >= _LONGEST_INTEGER - 1:
        raise _Doubt


def _structure(body: bytes, max_depth: int) -> Violation | None:
    """Depth and duplicate keys of JSON that is known to be well-formed."""
    open_objects: list[set[bytes]] = []
    for step in _STEP.finditer(body):
        match step[0][:1]:
            case b'"' if step[1] is None:
                pass  # a value
            case b'"':
                key = _unescaped(step[0][: step.start(1) - step.start()])
                if key in open_objects[-1]:
                    name = quoted(key[1:-1].decode("utf-8", "replace"))
                    message = f"the key {name} comes twice in one object, again at byte {step.start()}"
                    return Violation(rule=Rule.JSON_DUPLICATE_KEY, message=message, offset=step.start())
                open_objects[-1].add(key)
            case b"{" | b"[":
                open_objects.append(set())
                if len(open_objects) > max_depth:
                    return _nesting(limit=max_depth, actual=len(open_objects), unit="levels", offset=step.start())
            case _:
                open_objects.pop()
    return None


def _unescaped(key: bytes) -> bytes:
    """The one spelling of a key, which may be written with escapes or without."""
    return orjson.dumps(orjson.loads(key)) if b"\\" in key else key


def _integers(body: bytes) -> Violation | None:
    """The first integer beyond 64 bits: orjson would read it as a float, other readers as something else."""
    if _LONG_NUMBER.search(body) is None:
        return None
    for found in _NUMBER.finditer(body):
        digits = found[1]
        if digits is None or len(digits) < _LONGEST_INTEGER - 1 or not digits.lstrip(b"-").isdigit():
            continue
        if len(digits) > _LONGEST_INTEGER or not -(2**63) <= int(digits) < 2**64:
            message = f"the integer at byte {found.start()} does not fit 64 bits"
            return Violation(rule=Rule.JSON_INTEGER_RANGE, message=message, offset=found.start(), limit="64 bits")
    return None

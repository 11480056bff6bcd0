"""JSON from bytes, within limits, and nothing that JSON readers disagree on.

Owns the checks around orjson: brackets and keys counted before it parses, depth, duplicate keys, numbers that readers
round their own way. The bytes travel on unchanged; nothing here is ever re-dumped in their place. Never raises.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

import orjson
from msgspec import Struct

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
_MARKS = tuple(mark for mark, _ in _BOMS)
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# No possessive group with a choice or an end to look for in it: CPython before 3.11.5 matches those wrongly.
_STRINGS = re.compile(_STRING, re.DOTALL)
_STEP = re.compile(_STRING + rb"([ \t\r\n]*+:)?|[{}\[\]]", re.DOTALL)
"""A string, which a colon makes a key, or a bracket."""
_NUMBER = re.compile(_STRING + rb"|([0-9.eE+-]++)", re.DOTALL)
_LONGEST_INTEGER = 20
"""Digits of the largest unsigned 64-bit integer, or of the smallest signed one with its sign."""
LONGEST_NUMBER = 128
"""Characters of a number. A double needs 25; PostgreSQL's numeric and many a reader have a bound of their own."""

_FEW_MEMBERS = 64
_GLANCED_AT = 2
"""Levels of containers that a glance looks at."""
_SHORT_INTEGER = 10**17
_ORJSON_DEPTH = 1_024


class Document(Struct, frozen=True):
    """A JSON value that every reader reads alike."""

    value: Any


def read_json(
    body: bytes, *, max_brackets: int = 100_000, max_keys: int = 50_000, max_depth: int = 128
) -> Document | Violation:
    """Parse `body`, or name the first thing wrong with it and where. Bounded: under 100 ms for the worst 512 KiB."""
    if body.startswith(_MARKS):
        name = next(name for mark, name in _BOMS if body.startswith(mark))
        message = f"JSON is UTF-8 without a byte order mark; this body begins with that of {name}"
        return Violation(rule=Rule.JSON_BOM, message=message, offset=0, hint=name)
    # orjson holds the interpreter lock from begin to end, so that work is counted before it starts (microseconds).
    crowd = _crowd(body, max_brackets=max_brackets, max_keys=max_keys)
    if crowd is not None:
        return crowd
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _malformed(body, error, max_depth)
    if max_depth >= _GLANCED_AT and _has_each_string_once(value, body):
        return Document(value)
    if _is_shallow(value, max_depth) and _is_plain(body):
        return Document(value)
    return _structure(body, max_depth) or _numbers(body) or Document(value)


def _crowd(body: bytes, *, max_brackets: int, max_keys: int) -> Violation | None:
    """More containers or members than are read. What stands in a string is text and counts for nothing."""
    if len(body) <= min(max_brackets, max_keys):
        return None  # each of them is a byte: to count them would cost a small ticket more than to parse it
    if body.count(b"[") + body.count(b"{") <= max_brackets and body.count(b":") <= max_keys:
        return None
    bare = _STRINGS.sub(b"", body)
    brackets, keys = bare.count(b"[") + bare.count(b"{"), bare.count(b":")
    if brackets > max_brackets:
        return _nesting(limit=max_brackets, actual=brackets, unit="brackets")
    if keys > max_keys:
        message = f"the JSON has {keys} keys; at most {max_keys} are read"
        return Violation(rule=Rule.JSON_KEYS, message=message, limit=max_keys, actual=keys, unit="keys")
    return None


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
        return _badly_encoded(body, undecodable.start, max_depth)
    offset = len(text[: error.pos].encode())
    if "surrogate" in error.msg:
        message = f"half of a surrogate pair stands alone at byte {offset}"
        return Violation(rule=Rule.JSON_LONE_SURROGATE, message=message, offset=offset)
    if "depth" in error.msg:
        return _nesting(limit=max_depth, actual=_ORJSON_DEPTH + 1, unit="levels", offset=offset)
    if "infinity" in error.msg:
        return _out_of_range(offset, "a double")
    hint = _wide(body)
    return Violation(rule=Rule.JSON_MALFORMED, message=f"{error.msg} (byte {offset})", offset=offset, hint=hint)


def _badly_encoded(body: bytes, start: int, max_depth: int) -> Violation:
    """Bytes that are no UTF-8, unless the JSON before them is wrong already: the first bad byte is what is named."""
    try:
        orjson.loads(body[:start])
    except orjson.JSONDecodeError as error:
        earlier = _malformed(body[:start], error, max_depth)
        if earlier.offset is not None and earlier.offset < start:
            return earlier
    message = f"JSON is UTF-8; the bytes at {start} are not"
    return Violation(rule=Rule.JSON_INVALID_UTF8, message=message, offset=start)


def _wide(body: bytes) -> str | None:
    """The UTF-16 without a mark that the NULs of two ASCII characters speak for (RFC 4627, 3)."""
    return {(True, False): "utf-16be", (False, True): "utf-16le"}.get((body[:1] == b"\0", body[1:2] == b"\0"))


def _out_of_range(offset: int, limit: str) -> Violation:
    message = f"the number at byte {offset} does not fit {limit}"
    return Violation(rule=Rule.JSON_NUMBER_RANGE, message=message, offset=offset, limit=limit)


def _is_shallow(value: Any, max_depth: int) -> bool:
    """Whether no container stands deeper than `max_depth`; level by level, a few milliseconds for the worst."""
    level = [value] if isinstance(value, dict | list) else []
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return True


def _has_each_string_once(value: Any, body: bytes) -> bool:
    """Whether a glance proves that no key came twice, no number is long and nothing is deep: so it is for most tickets.

    A string has two quotes, and what is dropped because its key comes again has a string at least, that key. So where
    the bytes have no more quotes than the strings that were read need, each was read; an escaped quote is one too many.
    """
    if not isinstance(value, dict) or len(value) > _FEW_MEMBERS:
        return False
    strings = 0
    for members in (value, *(inner for inner in value.values() if isinstance(inner, dict))):
        if len(members) > _FEW_MEMBERS:
            return False
        strings += len(members)
        for member in members.values():
            kind = type(member)
            if kind is str:
                strings += 1
            elif kind is int:
                if not -_SHORT_INTEGER < member < _SHORT_INTEGER:
                    return False
            elif kind is dict and members is value:
                continue  # its turn comes
            elif member is not None and kind is not bool:
                return False
    # What is cut out is found as fast as the processor can; `count` looks at byte after byte, 5 us for 16 KiB.
    return len(body) - len(body.replace(b'"', b"")) == 2 * strings


class _Doubt(Exception):
    """A quick look found something that may break a rule."""


def _is_plain(body: bytes) -> bool:
    """Whether a quick look (a few microseconds for a small ticket) finds every key once and no huge integer."""
    try:
        _QUICK_LOOK.decode(body.decode("utf-8"))
    except (_Doubt, ValueError, RecursionError):
        return False
    return True


def _each_key_once(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _value in pairs}) != len(pairs):
        raise _Doubt


def _short_integer(digits: str) -> None:
    if len(digits) >= _LONGEST_INTEGER - 1:
        raise _Doubt


def _short_number(number: str) -> None:
    if len(number) > LONGEST_NUMBER:
        raise _Doubt


_QUICK_LOOK = json.JSONDecoder(object_pairs_hook=_each_key_once, parse_int=_short_integer, parse_float=_short_number)


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


def _numbers(body: bytes) -> Violation | None:
    """The first number without end, or integer beyond 64 bits: orjson would read that as a float, others anyhow."""
    for found in _NUMBER.finditer(body):
        number = found[1]
        if number is None or len(number) < _LONGEST_INTEGER - 1:
            continue
        if len(number) > LONGEST_NUMBER:
            return _out_of_range(found.start(), f"{LONGEST_NUMBER} characters")
        if number.lstrip(b"-").isdigit() and not -(2**63) <= int(number) < 2**64:
            message = f"the integer at byte {found.start()} does not fit 64 bits"
            return Violation(rule=Rule.JSON_INTEGER_RANGE, message=message, offset=found.start(), limit="64 bits")
    return None

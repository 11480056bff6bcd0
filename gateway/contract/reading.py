"""Reading single headers and properties of a message that anybody may have sent, and bounding what is written back.

Never guesses: what is not what the protocol says raises `Unreadable`, which names it.
"""

from collections.abc import Mapping
from typing import Any, Final

from gateway.contract.text import clip
from gateway.contract.wire import headers_size

_MAX_SHORT: Final = 255
_MAX_COUNT: Final = 2**31 - 1
_MAX_FIGURE: Final = 2**53
"""Largest number in a table; beyond it, codecs begin to disagree."""


class Unreadable(Exception):
    """A header that is not what the protocol says; the text names it."""


def count(headers: Mapping[str, Any], name: str, *, least: int = 0, unless: int | None = None) -> int:
    """Read a count; a header that is not there is `unless`, where that may be."""
    value = headers.get(name, unless)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MAX_COUNT:
        raise Unreadable(f"{name} is {value!r}, not a count of at least {least}")
    return value


def text(headers: Mapping[str, Any], name: str) -> str | None:
    """Read a text, None where there is none; raises Unreadable."""
    value = headers.get(name)
    if value is not None and not isinstance(value, str):
        raise Unreadable(f"{name} is {type(value).__name__}, not text")
    return value


def lenient_text(headers: Mapping[str, Any], name: str) -> str | None:
    """Read a text; whatever else is there counts as none."""
    value = headers.get(name)
    return value if isinstance(value, str) else None


def table(headers: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Read a table, None where there is none; raises Unreadable."""
    value = headers.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise Unreadable(f"{name} is {type(value).__name__}, not a table")
    return value


def figure(value: Any) -> int:
    """Return a number of a table; raises ValueError for what is no whole number of a size that all codecs know."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_FIGURE:
        raise ValueError(f"{value!r} is no figure")
    return value


def short(text: str | None) -> str | None:
    """Return a property's text within what AMQP can carry: odd bytes grow when they are read as escapes."""
    return None if text is None else clip(text, _MAX_SHORT)


def foreign(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stranger's headers in writable types; not ours, and never the broker's."""
    ours = ("lz-", "x-")
    traces = ("traceparent", "tracestate")
    return {
        name: _writable(value) for name, value in headers.items() if not name.startswith(ours) and name not in traces
    }


def _writable(value: Any) -> Any:
    """Return a header's value in types that every client library writes as it reads them; others become text."""
    match value:
        case None | bool() | int() | str() | bytes() | bytearray():
            return value
        case Mapping():
            return {name: _writable(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_writable(inner) for inner in value]
        case _:
            return str(value)


def bounded(headers: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return as many of the headers, in order, as fit into `limit` bytes."""
    kept: dict[str, Any] = {}
    room = limit
    for name, value in headers.items():
        room -= headers_size({name: value})
        if room < 0:
            break
        kept[name] = value
    return kept

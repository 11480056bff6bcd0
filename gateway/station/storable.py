"""The one way texts and documents are made storable: no NUL, no lone surrogate, no nesting that nobody can follow."""

from typing import Any, Final

import orjson

from gateway.contract.text import printable

MAX_DEPTH: Final = 64
"""Levels of a document; the broker's tables and the journal may nest deeper than any JSON writer or page can follow."""
_DEEPER: Final = "…[deeper]"
_AS_IT_IS: Final = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""Refuses what JSON does not know, and every text and number that has to be changed; NUL and nesting aside."""


def storable(text: str | None) -> str | None:
    """Return `text` without what no store can hold: NUL and lone surrogates become U+FFFD."""
    return None if text is None else printable(text)


def document(value: object) -> str:
    """Return `value` as JSON text that every store can hold; what JSON does not know is written as its `repr`."""
    try:
        text = orjson.dumps(value, option=_AS_IT_IS).decode()
    except TypeError:  # which nothing of it is lost by: the other way writes everything
        return orjson.dumps(_clean(value)).decode()
    # Brackets in texts count, too: the other way is slower, and no different.
    is_flat = text.count("{") + text.count("[") <= MAX_DEPTH
    return text if is_flat and "\\u0000" not in text else orjson.dumps(_clean(value)).decode()


def parsed(text: str | None) -> Any:
    """Read what `document` wrote; None for a column that was never filled."""
    return None if text is None else orjson.loads(text)


def _clean(value: object, depth: int = MAX_DEPTH) -> object:
    if depth == 0 and isinstance(value, dict | list | tuple):
        return _DEEPER
    match value:
        case str():
            return printable(value)
        case bool() | None | float():
            return value
        case int():
            return value if -(2**53) < value < 2**53 else str(value)
        case bytes() | bytearray():
            return repr(bytes(value))
        case dict():
            return {printable(str(name)): _clean(item, depth - 1) for name, item in value.items()}
        case list() | tuple():
            return [_clean(item, depth - 1) for item in value]
        case _:
            return printable(repr(value))

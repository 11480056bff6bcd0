"""What stands in for message properties that no codec can read.

A broker passes properties on as it got them, whatever their bytes. A reader that gives up on them loses its connection,
gets the same message on the next one, and so cycles for ever: the properties are replaced by a mark instead, with their
bytes beside it, and the message goes to quarantine as malformed (P12).
"""

from typing import Any, Final

MARK: Final = "lz-unreadable"
"""Header that only a reader sets, on what it received; never sent."""
MAX_DEPTH: Final = 32
_MAX_SHOWN: Final = 1024


def headers(raw: bytes) -> dict[str, Any]:
    """Return the headers that stand in for properties whose bytes are `raw`."""
    return {MARK: raw[:_MAX_SHOWN].hex()}


def is_too_deep(table: Any) -> bool:
    """Tell whether tables and lists nest deeper than anybody writes them, without recursion of our own."""
    level: list[Any] = [table]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def short_text(value: bytes) -> tuple[int, str]:
    """Read a short string, odd bytes as escapes; returns the bytes consumed, too. Raises ValueError when it is cut."""
    if not value or len(value) <= value[0]:
        raise ValueError("a short string that is longer than its frame")
    end = 1 + value[0]
    return end, value[1:end].decode("utf-8", "backslashreplace")

"""A message as a broker client hands it over: plain values, no client library.

Owns the size rules of header tables. Knows nothing of what the headers mean.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from gateway.contract.trace_context import TraceContext
from gateway.contract.values import value

MAX_HEADER_BYTES: Final = 8192
"""All headers together: a content header frame cannot be split, and one over `frame_max` closes the connection."""


@value(frozen=True, slots=True, kw_only=True)
class Wire:
    """Body, properties and headers of one message; persistent by definition."""

    body: bytes
    headers: Mapping[str, Any] = field(default_factory=dict)
    message_id: str | None = None
    correlation_id: str | None = None
    type: str | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    timestamp: float | None = None
    """Unix seconds; AMQP keeps whole ones."""
    app_id: str | None = None

    def carrying(self, trace: TraceContext) -> "Wire":
        """Return the same message in another place of a trace."""
        headers = {name: said for name, said in self.headers.items() if name not in TraceContext._fields}
        return replace(self, headers={**headers, **trace.headers})


def encodable(value: Any) -> Any:
    """Return a header's value with bytes as bytearrays: client libraries read both but write only one."""
    match value:
        case bytes():
            return bytearray(value)
        case Mapping():
            return {name: encodable(item) for name, item in value.items()}
        case list() | tuple():
            return [encodable(item) for item in value]
        case _:
            return value


def table_size(value: Any) -> int:
    """Return the bytes that a header value takes in an AMQP 0-9-1 field table, its type octet included.

    Every number is counted at its widest, so the answer is never below what a client library writes.
    """
    match value:
        case None:
            return 1
        case bool():
            return 2
        case int() | float() | Decimal() | datetime():
            return 9
        case str():
            return 5 + len(value.encode("utf-8", "surrogatepass"))
        case bytes() | bytearray():
            return 5 + len(value)
        case Mapping():
            return 5 + headers_size(value)
        case list() | tuple():
            return 5 + sum(table_size(item) for item in value)
        case _:
            return 5 + len(str(value).encode("utf-8", "surrogatepass"))


def headers_size(headers: Mapping[Any, Any]) -> int:
    """Return the bytes that a header table takes on the wire."""
    return sum(
        1 + len(str(name).encode("utf-8", "surrogatepass")) + table_size(value) for name, value in headers.items()
    )

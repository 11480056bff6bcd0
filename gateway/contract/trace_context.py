"""Where in a trace something belongs, as the headers of W3C's Trace Context say it.

Owns the pair, and what of it may be shown to others. Whoever has no tracer passes it on as it came, whatever it says.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

MAX_HEADER: Final = 512
"""Bytes that a message has room for, of each."""
_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE: Final = re.compile(rf"[\t -~]{{1,{MAX_HEADER}}}")


class TraceContext(NamedTuple):
    """The two headers; None for one that is not there."""

    traceparent: str | None = None
    tracestate: str | None = None

    @classmethod
    def of(cls, headers: Mapping[str, Any]) -> "TraceContext":
        """Return what the headers of a request or of a message say; what is no text counts as not there."""
        parent, state = headers.get("traceparent"), headers.get("tracestate")
        return cls(parent if isinstance(parent, str) else None, state if isinstance(state, str) else None)

    @property
    def headers(self) -> dict[str, str]:
        """The headers that there are, as they came."""
        named = zip(("traceparent", "tracestate"), self, strict=True)
        return {name: text for name, text in named if text is not None}

    @property
    def presentable(self) -> dict[str, str]:
        """The headers as others may be sent them: nothing without a place in a trace, and no text that is no header."""
        if self.traceparent is None or _PARENT.fullmatch(self.traceparent) is None:
            return {}
        state = self.tracestate
        shown = {} if state is None or _STATE.fullmatch(state) is None else {"tracestate": state}
        return {"traceparent": self.traceparent, **shown}


UNTRACED: Final = TraceContext()
"""Of what belongs in no trace."""

"""What may be shown to others of a context that anybody may have sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.trace_context import UNTRACED, TraceContext

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        (TraceContext(PARENT), {"traceparent": PARENT}),
        (TraceContext(PARENT, "a=1,b=2"), {"traceparent": PARENT, "tracestate": "a=1,b=2"}),
        (TraceContext(PARENT, "a=1…[cut]"), {"traceparent": PARENT}),
        (TraceContext(PARENT, "a=1\r\nX-Evil: 1"), {"traceparent": PARENT}),
        (TraceContext(PARENT, ""), {"traceparent": PARENT}),
        (TraceContext(f"{PARENT}\r\n", "a=1"), {}),
        (TraceContext(PARENT.upper()), {}),
        (TraceContext("00-aa-bb-01", "a=1"), {}),
        (TraceContext(f"ff{PARENT[2:]}"), {}),
        (TraceContext(f"00-{'0' * 32}-b7ad6b7169203331-01"), {}),
        (TraceContext(f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01"), {}),
        (TraceContext(None, "a=1"), {}),
        (UNTRACED, {}),
    ],
    ids=lambda value: None,
)
def test_a_handler_is_given_headers_that_it_can_send_or_none(context: TraceContext, shown: dict[str, str]) -> None:
    assert context.presentable == shown


@given(st.text() | st.none(), st.text() | st.none())
def test_what_is_shown_is_always_a_header(parent: str | None, state: str | None) -> None:
    shown = TraceContext(parent, state).presentable
    assert all(text.isascii() and not set(text) & set("\r\n\0") for text in shown.values())


def test_what_is_no_text_counts_as_not_there() -> None:
    assert TraceContext.of({"traceparent": b"00", "tracestate": 7}) == UNTRACED
    assert TraceContext.of({"traceparent": "x"}).headers == {"traceparent": "x"}

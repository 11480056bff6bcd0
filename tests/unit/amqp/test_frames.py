"""Frames of our own read, for the client library, as what was meant; what no frame can carry is said, and not sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import frame as pamqp_frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from gateway.amqp.frames import Layout, Unencodable
from gateway.contract.topology import Route
from gateway.contract.wire import Wire

ROUTE = Route(exchange="tickets", key="work")
FRAME_MAX = 4096

_texts = st.text(max_size=40)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), _texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=8,
)
_wires = st.builds(
    Wire,
    body=st.binary(max_size=3 * FRAME_MAX),
    headers=st.dictionaries(_texts, _values, max_size=6),
    correlation_id=st.none() | _texts,
    type=st.none() | _texts,
    content_type=st.none() | _texts,
    content_encoding=st.none() | _texts,
    timestamp=st.none() | st.floats(0, 2**31),
    app_id=st.none() | _texts,
)


def _read(sent: bytes) -> tuple[Basic.Publish, ContentHeader, bytes]:
    frames, channels, sizes = [], set(), []
    while sent:
        size, channel, frame = pamqp_frame.unmarshal(sent)
        frames.append(frame)
        channels.add(channel)
        sizes.append(size)
        sent = sent[size:]
    assert channels == {7}
    assert max(sizes) <= FRAME_MAX
    publish, header, *bodies = frames
    assert isinstance(publish, Basic.Publish)
    assert isinstance(header, ContentHeader)
    assert all(isinstance(body, ContentBody) for body in bodies)
    return publish, header, b"".join(body.value for body in bodies if isinstance(body, ContentBody))


@given(_wires)
def test_what_is_laid_out_reads_as_it_was_meant(wire: Wire) -> None:
    try:
        sent = Layout(channel=7, frame_max=FRAME_MAX).publish(wire, "message-1", ROUTE)
    except Unencodable:
        pytest.fail("each of these fits")
    publish, header, body = _read(sent)

    assert (publish.exchange, publish.routing_key, publish.mandatory) == ("tickets", "work", True)
    assert body == wire.body
    assert header.body_size == len(wire.body)
    found = header.properties
    assert found.delivery_mode == 2
    assert found.message_id == "message-1"
    assert (found.headers or {}) == dict(wire.headers)
    for name in ("correlation_id", "content_type", "content_encoding", "app_id"):
        assert (getattr(found, name) or None) == (getattr(wire, name) or None), name
    assert (found.message_type or None) == (wire.type or None)
    assert (None if found.timestamp is None else int(found.timestamp.timestamp())) == (
        None if wire.timestamp is None else int(wire.timestamp)
    )


@pytest.mark.parametrize(
    "wire",
    [
        Wire(body=b"", correlation_id="x" * 256),
        Wire(body=b"", type="\udc80"),
        Wire(body=b"", headers={"large": "x" * FRAME_MAX}),
        Wire(body=b"", headers={"strange": object()}),
        Wire(body=b"", timestamp=-1.0),
    ],
    ids=["long", "surrogate", "headers-over-frame-max", "strange-type", "before-the-epoch"],
)
def test_what_no_frame_can_carry_is_said(wire: Wire) -> None:
    with pytest.raises(Unencodable):
        Layout(channel=7, frame_max=FRAME_MAX).publish(wire, "message-1", ROUTE)

"""However a stream of bytes is cut on its way, the same frames are taken from it and the same bytes passed on."""

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.cutter import END, HEAD, Cutter

OURS = (7, 9)
Frame = tuple[int, int, bytes]

_frames = st.tuples(st.sampled_from([1, 2, 3, 8]), st.sampled_from([0, 1, 2, *OURS]), st.binary(max_size=40))
_streams = st.lists(_frames, max_size=12)
_cuts = st.lists(st.integers(0, 600), max_size=30)


def _bytes(frame: Frame) -> bytes:
    kind, channel, payload = frame
    return HEAD.pack(kind, channel, len(payload)) + payload + bytes([END])


def _pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(edges)]


class _Listener:
    """What came of a stream, in its order."""

    def __init__(self) -> None:
        self.taken: list[Frame] = []
        self.passed = b""
        self.cutter = Cutter(self._pass_on)
        for channel in OURS:
            self._listen(channel)

    def _listen(self, channel: int) -> None:
        self.cutter.takers[channel] = lambda kind, payload: self.taken.append((kind, channel, payload))

    def _pass_on(self, data: bytes) -> None:
        assert data
        self.passed += data


@given(_streams, _cuts)
def test_any_cutting_of_a_stream_gives_the_same_frames_and_passes_the_rest_on(
    frames: list[Frame], cuts: list[int]
) -> None:
    listener = _Listener()
    taken = sum(listener.cutter.feed(piece) for piece in _pieces(b"".join(map(_bytes, frames)), cuts))
    assert listener.taken == [frame for frame in frames if frame[1] in OURS]
    assert listener.passed == b"".join(_bytes(frame) for frame in frames if frame[1] not in OURS)
    assert taken == len(listener.taken)
    assert listener.cutter.is_between


@given(_streams, _cuts)
def test_single_bytes_are_enough(frames: list[Frame], cuts: list[int]) -> None:
    at_once, dripping = _Listener(), _Listener()
    stream = b"".join(map(_bytes, frames))
    at_once.cutter.feed(stream)
    for byte in stream:
        dripping.cutter.feed(bytes([byte]))
    assert (dripping.taken, dripping.passed) == (at_once.taken, at_once.passed)


@given(st.binary(max_size=300), _cuts)
def test_without_a_taker_all_is_passed_on_as_it_comes(stream: bytes, cuts: list[int]) -> None:
    passed: list[bytes] = []
    cutter = Cutter(passed.append)
    for piece in _pieces(stream, cuts):
        cutter.feed(piece)
    # A head that has not come whole waits for its rest, which cannot harm: nobody could make anything of it.
    assert stream.startswith(b"".join(passed))
    assert len(stream) - len(b"".join(passed)) < HEAD.size


def test_what_is_no_frame_is_passed_on_with_all_that_follows() -> None:
    listener = _Listener()
    broken = _bytes((1, 7, b"abc"))[:-1] + b"\x00"
    after = _bytes((1, 7, b"later"))
    listener.cutter.feed(_bytes((1, 7, b"first")) + broken + after)
    assert listener.taken == [(1, 7, b"first")]
    assert listener.passed == broken + after


def test_an_unexpected_protocol_is_passed_on_at_once() -> None:
    listener = _Listener()
    listener.cutter.feed(b"AMQP\x00\x00\x09\x01")
    assert listener.passed == b"AMQP\x00\x00\x09\x01"


def test_the_rest_of_a_frame_to_pass_on_is_no_place_to_speak_up() -> None:
    listener = _Listener()
    frame = _bytes((1, 0, b"x" * 20))
    listener.cutter.feed(frame[:10])
    assert not listener.cutter.is_between
    listener.cutter.feed(frame[10:])
    assert listener.cutter.is_between


def test_a_taker_may_leave_and_join_while_it_takes() -> None:
    listener = _Listener()
    late: list[bytes] = []

    def take(_: int, payload: bytes) -> None:
        late.append(payload)
        del listener.cutter.takers[7]

    listener.cutter.takers[7] = take
    listener.cutter.feed(_bytes((1, 7, b"a")) + _bytes((1, 7, b"b")))
    assert late == [b"a"]
    assert listener.passed == _bytes((1, 7, b"b"))


def test_a_frame_of_many_reads_is_put_together_once() -> None:
    listener = _Listener()
    payload = bytes(100_000)
    frame = struct.pack(">BHI", 3, 9, len(payload)) + payload + bytes([END])
    for at in range(0, len(frame), 1460):
        listener.cutter.feed(frame[at : at + 1460])
    assert listener.taken == [(3, 9, payload)]

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer import pipe
from consumer.pipe import (
    MAX_ORDER_BYTES,
    MAX_WORD_BYTES,
    Decoder,
    Finished,
    Garbled,
    Order,
    Progress,
    Record,
    decode,
    encode,
)

_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=50)
_count = st.integers(min_value=0, max_value=2**53)
_amount = st.floats(min_value=0, max_value=1e9)
_run = st.builds(pipe.Lost, run=_text)
records: st.SearchStrategy[Record] = st.one_of(
    _run,
    st.builds(
        Order,
        run=_text,
        ticket=_text,
        kind=_text,
        generation=_count,
        attempt=_count,
        content_type=_text,
        content_encoding=st.none() | _text,
        charset=st.none() | _text,
        examine=st.booleans(),
        memory_limit=_count,
        body=st.binary(max_size=300),
    ),
    st.builds(pipe.Ready, resets_peak=st.booleans()),
    st.builds(pipe.Measured, bytes=_count, charset=_text, tokens=_count, exact=st.booleans(), attachments=_count),
    st.builds(Progress, text=_text),
    st.builds(pipe.Spend, tokens=_count, usd=_amount),
    st.builds(
        Finished,
        run=_text,
        outcome=_text,
        message=_text,
        after=st.none() | _amount,
        dependency=st.none() | _text,
        violations=st.lists(st.dictionaries(_text, _text, max_size=2), max_size=2),
        last=st.booleans(),
    ),
    st.builds(pipe.Reaped, worker=_count, status=_count, peak_rss=_count),
)


@given(st.lists(records, max_size=6), st.data())
def test_any_split_of_the_stream_gives_the_same_records(sent: list[Record], data: st.DataObject) -> None:
    stream = b"".join(encode(record) for record in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder = Decoder(limit=MAX_ORDER_BYTES)
    received: list[Record] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decoder.feed(stream[start:end])
    assert received == sent


@given(st.binary(max_size=200))
def test_any_bytes_are_records_or_garbled_and_nothing_else(data: bytes) -> None:
    try:
        for record in Decoder(limit=MAX_WORD_BYTES).feed(data):
            assert encode(record)
    except Garbled:
        pass


@given(records, st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_is_garbled_or_still_a_record_that_can_be_sent(record: Record, at: int, value: int) -> None:
    stream = bytearray(encode(record))
    stream[at % len(stream)] = value
    try:
        for read in Decoder(limit=MAX_WORD_BYTES).feed(bytes(stream)):
            assert decode(encode(read)) == read
    except Garbled:
        pass


def test_record_longer_than_its_limit_is_refused_before_it_is_here() -> None:
    with pytest.raises(Garbled, match="record of 65537 bytes"):
        list(Decoder(limit=MAX_WORD_BYTES).feed(struct.pack("!IBI", 65537, 5, 10)))


def test_wrong_type_of_a_field_is_garbled() -> None:
    lie = encode(Progress(text="abc")).replace(b'"abc"', b"[1,2]")
    with pytest.raises(Garbled, match="text is a list"):
        list(Decoder(limit=MAX_WORD_BYTES).feed(lie))


def test_record_before_nonsense_is_still_heard() -> None:
    stream = Decoder(limit=MAX_WORD_BYTES).feed(encode(Progress(text="last words")) + b"\xff" * 16)
    assert next(stream) == Progress(text="last words")
    with pytest.raises(Garbled):
        next(stream)


def test_text_that_utf8_cannot_hold_is_replaced_not_refused() -> None:
    (read,) = Decoder(limit=MAX_WORD_BYTES).feed(encode(Progress(text="a\ud800b")))
    assert isinstance(read, Progress)
    assert read.text.startswith("a\ufffd")

import json
import struct
from typing import Any

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


def _nested(depth: int) -> Any:
    value: Any = 0
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


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
        cpu_seconds=_amount,
        open_files=_count,
        processes=_count,
        body=st.binary(max_size=300),
    ),
    st.builds(pipe.Ready, resets_peak=st.booleans()),
    st.builds(pipe.Measured, bytes=_count, charset=_text, tokens=_count, exact=st.booleans(), attachments=_count),
    st.builds(Progress, run=_text, text=_text),
    st.builds(pipe.Spend, run=_text, number=_count, tokens=_count, usd=_amount),
    st.builds(pipe.Noted, run=_text, number=_count),
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
_beyond = st.integers(max_value=-1) | st.integers(min_value=2**53 + 1) | st.floats(max_value=-1e-9) | st.floats(2.0**54)
_wide = st.builds(
    lambda size, leaf: [leaf] * size, st.integers(pipe.MAX_SAID_ITEMS + 1, 500), st.just(0) | st.lists(st.just(0))
)
_long = st.integers(pipe.MAX_SAID_CHARACTERS + 1, 20_000).map("x".__mul__)
_excesses = st.one_of(_beyond, _wide, _long, st.integers(pipe.MAX_SAID_DEPTH, 700).map(_nested))


def _frame(code: int, head: bytes) -> bytes:
    return struct.pack("!IBI", 5 + len(head), code, len(head)) + head


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


@given(_excesses, st.integers(0, 3))
def test_what_no_store_can_hold_is_garbled_wherever_a_worker_says_it(excess: Any, depth: int) -> None:
    for _ in range(depth):
        excess = {"x": excess}
    values = json.loads(encode(Finished(run="r", outcome="failed"))[struct.calcsize("!IBI") :])
    head = json.dumps({**values, "violations": [{"actual": excess}]}).encode()
    with pytest.raises(Garbled):
        decode(_frame(7, head))


@given(_beyond, st.sampled_from(["bytes", "tokens", "attachments"]))
def test_number_that_nothing_can_have_is_garbled(number: float, name: str) -> None:
    values: dict[str, Any] = {"bytes": 1, "charset": "utf-8", "tokens": 1, "exact": True, "attachments": 0}
    with pytest.raises(Garbled):
        decode(_frame(4, json.dumps({**values, name: number}).encode()))


@pytest.mark.parametrize("usd", [b"NaN", b"Infinity", b"1e400", b"-0.5", b"9007199254740994.0"])
def test_money_that_is_no_amount_is_garbled(usd: bytes) -> None:
    with pytest.raises(Garbled):
        decode(_frame(6, b'{"tokens":1,"usd":' + usd + b"}"))


def test_order_is_believed_whatever_numbers_and_texts_it_has() -> None:
    long = "x" * (pipe.MAX_SAID_CHARACTERS + 1)
    sent = Order(
        run="r",
        ticket=long,
        kind="k",
        generation=2**60,
        attempt=1,
        content_type="text/plain",
        content_encoding=None,
        charset=None,
        examine=False,
        memory_limit=2**60,
        cpu_seconds=0.0,
        open_files=0,
        processes=0,
        body=b"",
    )
    assert list(Decoder(limit=MAX_ORDER_BYTES).feed(encode(sent))) == [sent]


def test_record_longer_than_its_limit_is_refused_before_it_is_here() -> None:
    with pytest.raises(Garbled, match="record of 65537 bytes"):
        list(Decoder(limit=MAX_WORD_BYTES).feed(struct.pack("!IBI", 65537, 5, 10)))


def test_wrong_type_of_a_field_is_garbled() -> None:
    lie = encode(Progress(run="r", text="abc")).replace(b'"abc"', b"[1,2]")
    with pytest.raises(Garbled, match="text is a list"):
        list(Decoder(limit=MAX_WORD_BYTES).feed(lie))


def test_record_before_nonsense_is_still_heard() -> None:
    stream = Decoder(limit=MAX_WORD_BYTES).feed(encode(Progress(run="r", text="last words")) + b"\xff" * 16)
    assert next(stream) == Progress(run="r", text="last words")
    with pytest.raises(Garbled):
        next(stream)


def test_text_that_utf8_cannot_hold_is_replaced_not_refused() -> None:
    (read,) = Decoder(limit=MAX_WORD_BYTES).feed(encode(Progress(run="r", text="a\ud800b")))
    assert isinstance(read, Progress)
    assert read.text.startswith("a\ufffd")

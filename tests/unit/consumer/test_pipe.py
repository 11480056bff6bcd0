import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer import bounds, pipe
from consumer.pipe import (
    ANSWERS,
    MAX_WORD_BYTES,
    ORDERS,
    WISHES,
    WORDS,
    Decoder,
    Finished,
    Garbled,
    Order,
    Progress,
    Record,
    Speech,
    TracedOrder,
    decode,
    encode,
)
from consumer.usage import Usage


def _nested(depth: int) -> Any:
    value: Any = 0
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=50)
_count = st.integers(min_value=0, max_value=2**53)
_amount = st.floats(min_value=0, max_value=1e9)
_usages = st.builds(Usage, user=_amount, system=_amount, minor_faults=_count, major_faults=_count)
_facts = st.lists(st.dictionaries(_text, _text | _count | _amount | st.booleans(), max_size=2), max_size=2)
_orders: st.SearchStrategy[Record] = st.one_of(
    st.builds(pipe.Lost, run=_text),
    st.builds(pipe.Noted, run=_text, number=_count),
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
    st.builds(
        TracedOrder,
        run=_text,
        ticket=_text,
        kind=_text,
        generation=_count,
        attempt=_count,
        content_type=_text,
        content_encoding=st.none(),
        charset=st.none(),
        examine=st.booleans(),
        memory_limit=_count,
        cpu_seconds=_amount,
        open_files=_count,
        processes=_count,
        trace=st.dictionaries(_text, _text, max_size=2),
        body=st.binary(max_size=10),
    ),
)
_words: st.SearchStrategy[Record] = st.one_of(
    st.builds(pipe.Ready, resets_peak=st.booleans()),
    st.builds(pipe.Measured, bytes=_count, charset=_text, tokens=_count, exact=st.booleans(), attachments=_count),
    st.builds(Progress, run=_text, text=_text),
    st.builds(pipe.Spend, run=_text, number=_count, tokens=_count, usd=_amount),
    st.builds(
        Finished,
        run=_text,
        outcome=_text,
        message=_text,
        after=st.none() | _amount,
        dependency=st.none() | _text,
        violations=_facts,
        last=st.booleans(),
        usage=_usages,
    ),
    st.builds(pipe.Grown, runs=_count, traced=_count, sites=_facts),
)
_answers: st.SearchStrategy[Record] = st.one_of(
    st.builds(pipe.Loaded, build=_text, threads=_count),
    st.builds(pipe.Reaped, worker=_count, status=_count, peak_rss=_count, usage=_usages),
)
_wishes: st.SearchStrategy[Record] = st.one_of(
    st.builds(pipe.Fork, worker=_count, hunt=_count),
    st.builds(
        pipe.Preload,
        handler=_text,
        supervisor=_count,
        encoding=_text,
        limits=st.dictionaries(_text, _text | _count),
        warm=st.booleans(),
    ),
)
_spoken = st.sampled_from([(_orders, ORDERS), (_words, WORDS), (_answers, ANSWERS), (_wishes, WISHES)])
_beyond = (
    st.integers(-(2**63), -1) | st.integers(2**53 + 1, 2**64 - 1) | st.floats(max_value=-1e-9) | st.floats(2.0**54)
)
_wide = st.builds(
    lambda size, leaf: [leaf] * size, st.integers(bounds.MAX_ITEMS + 1, 500), st.just(0) | st.lists(st.just(0))
)
_long = st.integers(bounds.MAX_CHARACTERS + 1, 20_000).map("x".__mul__)
_excesses = st.one_of(_beyond, _wide, _long, st.integers(1, 700).map(_nested))


def _frame(content: bytes) -> bytes:
    return struct.pack("!I", len(content)) + content


def _changed(record: Record, name: str, value: Any) -> bytes:
    """Return the bytes of a record that has `value` in one field, whatever that may hold."""
    tag, *fields = msgspec.msgpack.decode(encode(record)[4:])
    fields[record.__struct_fields__.index(name)] = value
    return _frame(msgspec.msgpack.encode([tag, *fields]))


@given(_spoken, st.data())
def test_any_split_of_the_stream_gives_the_same_records(
    spoken: tuple[st.SearchStrategy[Record], Speech], data: st.DataObject
) -> None:
    records, speech = spoken
    sent = data.draw(st.lists(records, max_size=6))
    stream = b"".join(encode(record) for record in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder = Decoder(speech)
    received: list[Record] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decoder.feed(stream[start:end])
    assert received == sent


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_records_or_garbled_and_nothing_else(data: bytes, content: bytes) -> None:
    for stream in (data, _frame(content)):
        try:
            for record in Decoder(WORDS).feed(stream):
                assert encode(record)
        except Garbled:
            pass


@given(_words, st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_is_garbled_or_still_a_record_that_can_be_sent(record: Record, at: int, value: int) -> None:
    stream = encode(record)
    stream[at % len(stream)] = value
    try:
        for read in Decoder(WORDS).feed(bytes(stream)):
            assert decode(encode(read), WORDS) == read
    except Garbled:
        pass


@given(_orders | _wishes | _answers)
def test_what_is_not_a_workers_to_say_is_garbled(record: Record) -> None:
    with pytest.raises(Garbled):
        decode(encode(record), WORDS)


@given(_excesses, st.integers(0, 3))
def test_what_no_store_can_hold_is_garbled_wherever_a_worker_says_it(excess: Any, depth: int) -> None:
    for _ in range(depth):
        excess = {"x": excess}
    with pytest.raises(Garbled):
        decode(_changed(Finished(run="r", outcome="failed"), "violations", [{"actual": excess}]), WORDS)


@pytest.mark.parametrize("head", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"], ids=["list", "map"])
def test_claim_to_hold_four_billion_things_makes_no_room_for_them(head: bytes) -> None:
    tag, *fields = msgspec.msgpack.decode(encode(Finished(run="r", outcome="failed"))[4:])
    at = Finished.__struct_fields__.index("violations")
    before = msgspec.msgpack.encode([tag, *fields[:at]])
    with pytest.raises(Garbled):
        decode(_frame(bytes([0x90 | len(fields) + 1]) + before[1:] + head), WORDS)


@given(_beyond, st.sampled_from(["bytes", "tokens", "attachments"]))
def test_number_that_nothing_can_have_is_garbled(number: float, name: str) -> None:
    honest = pipe.Measured(bytes=1, charset="utf-8", tokens=1, exact=True, attachments=0)
    with pytest.raises(Garbled):
        decode(_changed(honest, name, number), WORDS)


@pytest.mark.parametrize("usd", [float("nan"), float("inf"), -float("inf"), -0.5, 9007199254740994.0])
def test_money_that_is_no_amount_is_garbled(usd: float) -> None:
    with pytest.raises(Garbled):
        decode(_changed(pipe.Spend(run="r", number=1, tokens=1, usd=0.0), "usd", usd), WORDS)


def test_order_is_believed_whatever_numbers_and_texts_it_has() -> None:
    long = "x" * (bounds.MAX_CHARACTERS + 1)
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
    assert list(Decoder(ORDERS).feed(encode(sent))) == [sent]


def test_order_that_is_shown_does_not_show_what_its_ticket_says() -> None:
    fields = dict.fromkeys(Order.__struct_fields__, "x")
    assert "hush" not in repr(Order(**{**fields, "body": b"hush"}))  # type: ignore[arg-type]


def test_record_longer_than_its_limit_is_refused_before_it_is_here() -> None:
    with pytest.raises(Garbled, match="record of 65537 bytes"):
        list(Decoder(WORDS).feed(struct.pack("!I", MAX_WORD_BYTES + 1)))


def test_wrong_type_of_a_field_is_garbled() -> None:
    with pytest.raises(Garbled, match="Expected `str`, got `array`"):
        decode(_changed(Progress(run="r", text="abc"), "text", [1, 2]), WORDS)


@pytest.mark.parametrize("fields", [["r"], ["r", "text", "more"]], ids=["too few", "too many"])
def test_wrong_number_of_fields_is_garbled(fields: list[str]) -> None:
    tag = msgspec.msgpack.decode(encode(Progress(run="r", text="abc"))[4:])[0]
    with pytest.raises(Garbled):
        decode(_frame(msgspec.msgpack.encode([tag, *fields])), WORDS)


def test_record_before_nonsense_is_still_heard() -> None:
    stream = Decoder(WORDS).feed(encode(Progress(run="r", text="last words")) + b"\xff" * 16)
    assert next(stream) == Progress(run="r", text="last words")
    with pytest.raises(Garbled):
        next(stream)


def test_text_that_utf8_cannot_hold_is_replaced_not_refused() -> None:
    said = Finished(run="r", outcome="failed", message="a\ud800b", violations=[{"c\udfff": "d\ud800"}])
    read = decode(encode(said), WORDS)
    assert isinstance(read, Finished)
    assert read.message.startswith("a\ufffd")
    assert list(read.violations[0]) == ["c\ufffd\ufffd\ufffd"]

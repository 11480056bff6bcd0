"""The envelope's two directions, its bounds, and its refusal to guess."""

from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.frames import content_header
from gateway.contract.envelope import (
    MAX_SPENT,
    Admission,
    Envelope,
    Loss,
    Malformed,
    Spent,
    decode,
    encode,
    encode_malformed,
    supersede,
)
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.outcomes import Outcome
from gateway.contract.rules import SOFT
from gateway.contract.wire import MAX_HEADER_BYTES, Wire, headers_size

counts = st.integers(0, 2**31 - 1)
text = st.text(max_size=80).map(lambda s: s.replace("\x00", ""))
records = st.builds(
    RunRecord,
    attempt=st.integers(1, 1000),
    outcome=st.sampled_from(Outcome),
    node=st.text("abc-:é", max_size=40),
    worker=st.integers(0, 1 << 22),
    started=st.integers(0, 2**33).map(float),
    seconds=st.integers(0, 10_000).map(float),
    code=st.text("abc:19", max_size=20),
    times=st.integers(1, 2**31 - 1),
)
admissions = st.builds(
    Admission,
    bytes=counts,
    charset=st.sampled_from(["utf-8", "cp1252", "us-ascii"]),
    tokens=counts,
    exact=st.booleans(),
    attachments=st.integers(0, 10),
    client=st.text("abc", max_size=20),
    admitted_at=st.integers(0, 2**33).map(float),
    marked=st.lists(st.sampled_from([rule.value for rule in sorted(SOFT)]), unique=True).map(tuple),
    granted=st.sampled_from(["", "01a22c94-a7b7-7df1-8f8e-aede4bb05f97"]),
    stored=st.sampled_from(["", "t" * 128 + "~" + "0" * 32]),
    contents=st.sampled_from(["", "0" * 64]),
)
envelopes = st.builds(
    Envelope,
    ticket=st.from_regex(r"[A-Za-z0-9._:~-]{1,128}", fullmatch=True).map(TicketId),
    kind=st.from_regex(r"[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True),
    body=st.binary(max_size=100),
    content_type=st.just("text/plain"),
    submitted_at=st.integers(1, 2**33).map(float),
    attempt=st.integers(1, 2**31 - 1),
    crashes=counts,
    interruptions=counts,
    generation=counts,
    spent=st.builds(Spent, tokens=counts, usd=st.integers(0, 1000).map(float)),
    admission=st.none() | admissions,
    history=st.lists(records, max_size=8).map(lambda rows: History(tuple(rows))),
    suspect=st.none() | st.sampled_from(["crashed", "memory"]),
)


@given(envelopes)
def test_what_is_encoded_is_what_is_decoded(envelope: Envelope) -> None:
    assert decode(encode(envelope)) == envelope


@given(envelopes, st.text(max_size=3000), st.lists(records, max_size=60), st.dictionaries(text, text, max_size=50))
def test_headers_never_exceed_their_bound_and_a_cut_is_marked(
    envelope: Envelope, long: str, rows: list[RunRecord], foreign: dict[str, str]
) -> None:
    wire = encode(
        supersede(envelope, reason=long, detail=long, history=History(tuple(rows)), tracestate=long, foreign=foreign)
    )
    assert headers_size(wire.headers) <= MAX_HEADER_BYTES
    if len(long.encode("utf-8", "surrogatepass")) > 1024:
        assert "lz-detail" in wire.headers["lz-truncated"]
        assert wire.headers["lz-detail"].endswith("…[cut]")


def test_everything_at_its_bound_at_once_still_fits() -> None:
    long = "x" * 10_000
    whole = 2**31 - 1
    record = RunRecord(
        attempt=whole,
        outcome=Outcome.DEPENDENCY,
        node=long,
        worker=whole,
        started=1e11,
        seconds=1e11,
        code=long,
        times=9,
    )
    everything = Envelope(
        ticket=TicketId("t" * 128),
        kind="k" * 64,
        body=b"",
        content_type="t" * 255,
        submitted_at=1e10,
        attempt=whole,
        crashes=whole,
        interruptions=whole,
        waits=whole,
        waiting_since=1e10,
        generation=whole,
        loss=Loss(holder=long, beat=1e10, at=1e10),
        spent=Spent(tokens=MAX_SPENT, usd=MAX_SPENT / 3),
        admission=Admission(
            bytes=2**53,
            charset=long,
            tokens=2**53,
            exact=True,
            attachments=2**53,
            client=long,
            admitted_at=1e10,
            marked=tuple(rule.value for rule in sorted(SOFT)),
            granted=long,
            stored=long,
        ),
        history=History((record,) * 16),
        suspect=long,
        reason=long,
        detail=long,
        traceparent=long,
        tracestate=long,
        foreign={f"h{number}": "x" * 100 for number in range(20)},
    )
    wire = encode(everything)
    assert headers_size(wire.headers) <= MAX_HEADER_BYTES
    again = decode(wire)
    assert isinstance(again, Envelope)
    assert again.admission is not None
    assert again.admission.marked == tuple(sorted(SOFT))


def test_every_publish_has_its_own_message_id() -> None:
    envelope = Envelope(ticket=TicketId("9417"), kind="support.ticket", body=b"", content_type="text/plain")
    assert encode(envelope).message_id != encode(envelope).message_id


def wire(**headers: Any) -> Wire:
    full = {"lz-schema": 1, "lz-attempt": 1, "lz-crashes": 0, "lz-interruptions": 0, "lz-generation": 0}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Wire(
        body=b"body", headers={**full, **named}, correlation_id="9417", type="support.ticket", content_type="text/plain"
    )


@pytest.mark.parametrize(
    "broken",
    [
        wire(lz_schema=2),
        wire(lz_schema=True),
        wire(lz_schema="1"),
        wire(lz_attempt=0),
        wire(lz_attempt=-1),
        wire(lz_attempt="1"),
        wire(lz_attempt=True),
        wire(lz_attempt=2**40),
        wire(lz_crashes=None),
        wire(lz_history="not json"),
        wire(lz_history="[1,[1]]"),
        wire(lz_history=b"\xff"),
        wire(lz_admission={"bytes": 1}),
        wire(lz_admission="none"),
        wire(lz_spent={"tokens": "many", "usd": 0}),
        wire(lz_suspect=7),
        Wire(body=b"", headers=wire().headers, correlation_id="no spaces", type="a"),
        Wire(body=b"", headers=wire().headers, correlation_id="9417", type="Not A Kind"),
        Wire(body=b"", headers={"lz-anything": 1}),
    ],
)
def test_what_cannot_be_understood_is_malformed_and_never_guessed_at(broken: Wire) -> None:
    assert isinstance(decode(broken), Malformed)


@pytest.mark.parametrize("contents", ["\x00", "0" * 65], ids=["nul", "too-long"])
def test_what_no_store_takes_as_a_digest_is_malformed_or_it_would_fail_what_shares_its_transaction(
    contents: str,
) -> None:
    facts = {"bytes": 1, "charset": "utf-8", "tokens": 1, "exact": True, "attachments": 0, "client": "c"}
    admission = {**facts, "admitted-at": 0}
    assert isinstance(decode(wire(lz_admission={**admission, "contents": "0" * 64})), Envelope)
    assert isinstance(decode(wire(lz_admission={**admission, "contents": contents})), Malformed)


@given(
    st.dictionaries(
        st.sampled_from(["lz-schema", "lz-attempt", "lz-history", "lz-admission", "lz-spent", "x-death", "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
    ),
    st.none() | st.text(),
    st.none() | st.text(),
)
def test_no_headers_can_make_decoding_raise(headers: dict[str, Any], name: str | None, kind: str | None) -> None:
    item = decode(Wire(body=b"x", headers=headers, correlation_id=name, type=kind))
    if isinstance(item, Malformed):
        raw = encode_malformed(item, reason="malformed")
        assert raw.body == b"x"
        assert headers_size(raw.headers) <= MAX_HEADER_BYTES


def test_a_message_without_our_headers_is_adopted_as_run_one_under_the_producers_id() -> None:
    item = decode(Wire(body=b"abc", headers={"x-death": [{"count": 9}], "tenant": "acme"}, correlation_id="c1"))
    assert isinstance(item, Envelope)
    assert (item.ticket, item.attempt, item.generation, item.kind) == ("c1~ba7816bf", 1, 0, "unknown")
    assert item.foreign == {"tenant": "acme"}


def test_an_adopted_item_with_an_unfit_id_is_named_by_its_digest() -> None:
    item = decode(Wire(body=b"abc", headers={}, correlation_id="spaces are unfit"))
    assert isinstance(item, Envelope)
    assert item.ticket == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_broker_headers_are_never_copied_on() -> None:
    item = decode(wire(x_death=[{"count": 3}], x_delivery_count=7))
    assert isinstance(item, Envelope)
    assert not [name for name in encode(item).headers if name.startswith("x-")]


def test_the_bytes_of_the_wire_contract_are_pinned() -> None:
    envelope = Envelope(
        ticket=TicketId("9417"),
        kind="support.ticket",
        body=b"hello",
        content_type="text/plain; charset=utf-8",
        submitted_at=1_793_000_000.0,
        attempt=2,
        crashes=1,
        admission=Admission(
            bytes=5, charset="utf-8", tokens=1, exact=True, attachments=0, client="anonymous", admitted_at=1.5
        ),
        history=History().add(
            RunRecord(
                attempt=1, outcome=Outcome.CRASHED, node="n1", worker=7, started=1.25, seconds=0.5, code="signal:9"
            )
        ),
        suspect="crashed",
    )
    assert dict(encode(envelope).headers) == {
        "lz-schema": 1,
        "lz-attempt": 2,
        "lz-crashes": 1,
        "lz-interruptions": 0,
        "lz-generation": 0,
        "lz-admission": {
            "bytes": 5,
            "charset": "utf-8",
            "tokens": 1,
            "exact": True,
            "attachments": 0,
            "client": "anonymous",
            "admitted-at": 1500,
        },
        "lz-history": '[0,[1,"crashed","n1",7,1.25,0.5,"signal:9"]]',
        "lz-suspect": "crashed",
    }


foreign_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.datetimes(timezones=st.just(UTC))
    | st.decimals(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
lz_values = (
    foreign_values
    | st.fixed_dictionaries({"tokens": foreign_values, "usd": foreign_values})
    | st.fixed_dictionaries(
        dict.fromkeys(["bytes", "charset", "tokens", "exact", "attachments", "client", "admitted-at"], foreign_values)
    )
    | st.sampled_from(['[0,[1,"lost","n",1,1e300,1.0,""]]', "[1e400]", "[0]"])
)


@given(
    headers=st.fixed_dictionaries(
        {"lz-schema": st.just(1), "lz-attempt": st.just(1), "lz-crashes": st.just(0)}
        | {"lz-interruptions": st.just(0), "lz-generation": st.just(0)},
        optional={"lz-history": lz_values, "lz-admission": lz_values, "lz-spent": lz_values, "other": foreign_values},
    )
    | st.dictionaries(st.text(min_size=1, max_size=8), foreign_values, max_size=4),
    short=st.none() | st.text(max_size=400),
)
def test_whatever_can_be_read_can_be_written_again(headers: dict[str, Any], short: str | None) -> None:
    wire = Wire(body=b"x", headers=headers, correlation_id="9417", type="k", content_type=short, content_encoding=short)
    item = decode(wire)
    again = encode_malformed(item, reason="malformed") if isinstance(item, Malformed) else encode(item)
    content_header(again, "message")

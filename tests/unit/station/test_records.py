"""A review can be signed, the signature is for what was known, and what comes later shows as later."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.station import decisions, groups, record, reviewing, sign_offs
from gateway.station.decided import Decision, Unknown
from gateway.station.record import Entry, Record, SignOff
from gateway.station.reviewing import Clash
from gateway.station.selection import Filter
from gateway.station.sign_offs import Signed
from tests.unit.station.patients import arrive, end_badly, fall_ill, opened

_ANA = Decision(by="ana", reason="the parser is fixed; the client was told")
_BEN = Decision(by="ben", reason="seen")
_TEXT = st.text(max_size=8)
_ENTRIES = st.lists(
    st.builds(
        Entry,
        at=st.none() | st.floats(0, 1e9),
        what=st.sampled_from(["run", "note", "hold"]),
        by=st.none() | _TEXT.filter(lambda text: text.isprintable()),
        sentence=st.sampled_from(["a", "b"]),
        data=st.dictionaries(st.sampled_from("xy"), st.integers(0, 3)),
    ),
    max_size=8,
)


def _signed(entries: list[Entry]) -> Record:
    unsigned = Record(ticket="t", entries=entries, sign_offs=())
    keys = frozenset(entry.key for entry in entries)
    one = SignOff(at=1.0, by="ana", words="w", digest=unsigned.digest, entries=keys)
    return Record(ticket="t", entries=entries, sign_offs=(one,))


@given(_ENTRIES, st.permutations(range(8)))
def test_the_digest_is_of_what_is_said_and_not_of_the_order(entries: list[Entry], order: list[int]) -> None:
    shuffled = [entries[at] for at in order if at < len(entries)]
    assert Record(ticket="t", entries=shuffled, sign_offs=()).digest == _signed(entries).digest
    assert Record(ticket="u", entries=entries, sign_offs=()).digest != _signed(entries).digest


@given(_ENTRIES, _ENTRIES)
def test_exactly_what_was_not_there_is_after_the_signature(entries: list[Entry], more: list[Entry]) -> None:
    signed = _signed(entries)
    later = Record(ticket="t", entries=[*entries, *more], sign_offs=signed.sign_offs)
    known = {entry.key for entry in entries}
    assert [later.is_after_sign_off(entry) for entry in later.entries] == [
        entry.key not in known for entry in later.entries
    ]
    assert signed.is_signed
    assert later.is_signed == (not more)
    assert later.gone == 0


async def test_a_record_tells_everything_in_order_and_is_signed_once(store_url: str) -> None:
    async with opened(store_url) as store:
        await fall_ill(store, "t1", at=10.0)
        await reviewing.note(store, "t1", "asked the client", by="ana")
        await reviewing.hold(store, "t1", _ANA)
        await reviewing.release(store, "t1", _ANA)
        found = await sign_offs.find(store, "t1")
        assert found is not None
        assert [entry.what for entry in found.entries] == ["run", "arrived", "note", "hold", "hold ended"]
        assert not found.is_signed
        signed = await sign_offs.sign(store, "t1", _ANA, seen=found.digest)
        assert isinstance(signed, Signed)
        assert signed.record.is_signed
        again = await sign_offs.sign(store, "t1", _BEN)
        assert isinstance(again, Clash)
        assert "signed by ana and nothing has changed" in again.sentence
        assert await sign_offs.sign(store, "none", _BEN) == Unknown(ticket="none")


async def test_what_comes_after_a_signature_shows_as_that_and_can_be_signed_again(store_url: str) -> None:
    async with opened(store_url) as store:
        await fall_ill(store, "t1", at=10.0)
        await sign_offs.sign(store, "t1", _ANA)
        (group,) = await groups.find(store, Filter())
        await decisions.discard(store, "t1", _BEN)
        await reviewing.note_group(store, group.id, "all the same", by="ben")
        found = await sign_offs.find(store, "t1")
        assert found is not None
        later = [entry.what for entry in found.entries if found.is_after_sign_off(entry)]
        assert (later, found.gone, found.is_signed) == (["discard", "note"], 0, False)
        second = await sign_offs.sign(store, "t1", _BEN)
        assert isinstance(second, Signed)
        document: dict[str, Any] = record.document(second.record)
        assert document["signed"]
        assert [(one["by"], one["words"], one["entries"]) for one in document["sign_offs"]] == [
            ("ana", _ANA.reason, 2),
            ("ben", "seen", 4),
        ]
        assert not any(entry["after_sign_off"] for entry in document["entries"])


async def test_evidence_that_comes_later_is_a_change_of_what_was_signed(store_url: str) -> None:
    async with opened(store_url) as store:
        await arrive(store, "t1")
        before = await sign_offs.find(store, "t1")
        assert before is not None
        await sign_offs.sign(store, "t1", _ANA)
        await end_badly(store, "t1", error_type="acme.Broken", message="no")
        found = await sign_offs.find(store, "t1")
        assert found is not None
        changed = {entry.what for entry in found.entries if found.is_after_sign_off(entry)}
        assert (changed, found.gone) == ({"run", "arrived"}, 2)
        refused = await sign_offs.sign(store, "t1", _BEN, seen=before.digest)
        assert isinstance(refused, Clash)
        assert found.digest in refused.sentence


async def test_two_readings_of_one_record_have_one_digest(store_url: str) -> None:
    async with opened(store_url) as store:
        await fall_ill(store, "t1", evidence={"message": "\ud83d\x00", "traceback": "x" * 30_000})
        found = [await sign_offs.find(store, "t1") for _ in range(3)]
        assert len({one.digest for one in found if one is not None}) == 1
        assert all(one is not None for one in found)
        keys = [entry.key for entry in itertools.chain.from_iterable(one.entries for one in found if one is not None)]
        assert len(set(keys)) == 2

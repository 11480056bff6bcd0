"""What a message says about a content that lies elsewhere, and names that cannot lead anywhere else (G13, D45)."""

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract import references
from gateway.contract.ids import TICKET_ID_PATTERN, TicketId
from gateway.contract.references import Reference, digest_of, folder_of, owner_of

TICKETS = st.from_regex(TICKET_ID_PATTERN, fullmatch=True)
FOLDER = folder_of(TicketId("9417"), b"body")


def _reference(**changes: Any) -> Reference:
    return Reference(**{"folder": FOLDER, "sha256": digest_of(b"x"), "bytes": 1, **changes})


@given(ticket=TICKETS, body=st.binary(max_size=40))
def test_a_folder_is_one_step_down_and_names_its_ticket(ticket: str, body: bytes) -> None:
    folder = folder_of(TicketId(ticket), body)
    assert owner_of(folder) == ticket
    assert PurePosixPath(folder).parts == (folder,)
    assert folder not in {".", ".."}
    assert len(folder.encode()) <= 161


@given(tickets=st.tuples(TICKETS, TICKETS), bodies=st.tuples(st.binary(max_size=9), st.binary(max_size=9)))
def test_another_ticket_or_another_body_has_another_folder(
    tickets: tuple[str, str], bodies: tuple[bytes, bytes]
) -> None:
    one, other = (folder_of(TicketId(ticket), body) for ticket, body in zip(tickets, bodies, strict=True))
    assert (one == other) == (tickets[0] == tickets[1] and bodies[0] == bodies[1])


@pytest.mark.parametrize(
    "name", ["", ".", "..", "lazaretto-depot", "a/b~" + "0" * 32, "t~" + "0" * 31, "t~" + "G" * 32]
)
def test_nothing_else_is_a_folders_name(name: str) -> None:
    assert owner_of(name) is None


@pytest.mark.parametrize(
    "reference",
    [_reference(), _reference(charset="utf-8"), _reference(sniffed="image/png"), _reference(sniffed="", bytes=0)],
    ids=["plain", "text", "disguised", "unknown"],
)
def test_what_was_written_is_read(reference: Reference) -> None:
    assert references.read(reference.document(), folder=FOLDER) == reference


@pytest.mark.parametrize(
    "wrong",
    [
        {"reference": f"{FOLDER}/../{digest_of(b'x')}"},
        {"reference": digest_of(b"x")},
        {"sha256": "../" * 21 + "x"},
        {"sha256": digest_of(b"y")},
        {"bytes": -1},
        {"bytes": True},
        {"bytes": "1"},
        {"bytes": 2**60},
    ],
    ids=["path", "no folder", "no digest", "another digest", "negative", "truth", "text", "vast"],
)
def test_what_only_looks_like_a_reference_is_none(wrong: dict[str, Any]) -> None:
    assert references.read({**_reference().document(), **wrong}, folder=FOLDER) is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_no_document_is_too_strange_to_be_looked_at(document: Any) -> None:
    assert references.read(document, folder=FOLDER) is None

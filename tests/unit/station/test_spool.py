"""The spool keeps raw messages, each once."""

from pathlib import Path
from typing import Any

import pytest

from gateway.contract.wire import Wire
from gateway.station.spool import Spool
from gateway.station.storable import parsed


def test_a_message_is_kept_with_its_bytes_and_what_is_known_of_it(tmp_path: Path) -> None:
    wire = Wire(body=b"\x00\xff", headers={"h": b"\xff"}, message_id="m", correlation_id="lone \ud83d")
    path = Spool(tmp_path / "spool").keep(wire, source="q", error="why")
    assert path.read_bytes() == b"\x00\xff"
    about = parsed(path.with_suffix(".json").read_text())
    assert (about["source"], about["error"], about["message_id"]) == ("q", "why", "m")
    assert not list(tmp_path.glob("spool/*.partial"))


def test_the_same_message_is_kept_once_and_another_one_beside_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for number in (1, 1, 2):
        spool.keep(Wire(body=b"same", message_id=str(number)), source="q", error="why")
    assert len(list(spool.folder.glob("*.body"))) == 2


def _nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"d": inner}
    return inner


@pytest.mark.parametrize("levels", [60, 255, 900, 100_000])
def test_headers_nested_however_deep_do_not_keep_the_body_from_the_disk(tmp_path: Path, levels: int) -> None:
    path = Spool(tmp_path / "spool").keep(Wire(body=b"body", headers=_nested(levels)), source="q", error="why")
    assert path.read_bytes() == b"body"
    assert parsed(path.with_suffix(".json").read_text())["error"] == "why"


def test_a_header_that_cannot_even_be_described_does_not_keep_the_body_from_the_disk(tmp_path: Path) -> None:
    class Unspeakable:
        def __repr__(self) -> str:
            raise ValueError("no words")

    path = Spool(tmp_path / "spool").keep(Wire(body=b"body", headers={"h": Unspeakable()}), source="q", error="why")
    assert path.read_bytes() == b"body"
    assert parsed(path.with_suffix(".json").read_text())["headers"] == "could not be written down"

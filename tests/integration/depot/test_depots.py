"""Both places for attachments pass one exam: whole or not there, found again, and never mistaken for another place."""

import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.contract.ids import TicketId
from gateway.contract.references import Reference, digest_of, folder_of
from gateway.depot import MARK, ContentLost, Depot, DepotDown, fetch, open_depot
from gateway.depot.directory import Directory
from gateway.embedded import free_port
from tests.support.object_store import ObjectStore

FOLDER = folder_of(TicketId("9417"), b"one")
OTHER = folder_of(TicketId(".."), b"other")
CONTENT = bytes(range(256)) * 300
MUCH_LATER = 2e10


def _reference(content: bytes = CONTENT, folder: str = FOLDER) -> Reference:
    return Reference(folder=folder, sha256=digest_of(content), bytes=len(content))


def _put(depot: Depot, *contents: bytes, folder: str = FOLDER) -> None:
    depot.put(folder, {digest_of(content): content for content in contents})


@pytest.fixture(params=["directory", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return str(tmp_path / "depot")
    server: ObjectStore = request.getfixturevalue("object_store")
    return server.depot(f"a/{uuid4().hex}")


@pytest.fixture
def depot(place: str) -> Depot:
    return open_depot(place)


def test_what_was_put_is_fetched_by_whoever_opens_the_place(place: str, depot: Depot) -> None:
    _put(depot, CONTENT, b"x")
    _put(depot, CONTENT, folder=OTHER)
    assert fetch(open_depot(place), _reference()) == CONTENT
    assert fetch(open_depot(place), _reference(b"x")) == b"x"
    assert fetch(open_depot(place), _reference(folder=OTHER)) == CONTENT


def test_the_same_put_again_is_one_content(depot: Depot) -> None:
    for _ in range(3):
        _put(depot, CONTENT)
    (folder,) = depot.folders()
    assert (folder.name, folder.bytes) == (FOLDER, len(CONTENT))


def test_where_nothing_was_ever_put_nothing_is_missing(depot: Depot) -> None:
    with pytest.raises(DepotDown):
        depot.get(_reference())
    assert list(depot.folders()) == []


def test_what_is_not_there_is_lost_where_others_are(depot: Depot) -> None:
    _put(depot, CONTENT)
    with pytest.raises(ContentLost, match="is not there"):
        depot.get(_reference(b"never put"))


def test_what_is_not_what_was_put_is_lost(depot: Depot) -> None:
    altered = CONTENT[:-1] + b"!"
    depot.put(FOLDER, {digest_of(CONTENT): altered, digest_of(b"short"): b"shorter"})
    with pytest.raises(ContentLost, match="digest"):
        fetch(depot, _reference())
    with pytest.raises(ContentLost, match="7 bytes and was stored with 5"):
        fetch(depot, _reference(b"short"))


def test_a_folder_goes_with_all_that_is_in_it_and_no_other(depot: Depot) -> None:
    _put(depot, CONTENT, b"x")
    _put(depot, CONTENT, folder=OTHER)
    assert depot.remove(FOLDER, before=MUCH_LATER)
    assert [folder.name for folder in depot.folders()] == [OTHER]
    with pytest.raises(ContentLost):
        depot.get(_reference())
    assert not depot.remove(FOLDER, before=MUCH_LATER)


def test_a_folder_that_was_written_since_stays(depot: Depot) -> None:
    _put(depot, CONTENT)
    (folder,) = depot.folders()
    assert not depot.remove(FOLDER, before=folder.newest)
    assert fetch(depot, _reference()) == CONTENT


@pytest.mark.parametrize("broken", ["file", "nobody listens", "no bucket"])
def test_a_place_that_cannot_be_used_is_down_and_nothing_else(
    broken: str, tmp_path: Path, object_store: ObjectStore
) -> None:
    (tmp_path / "file").touch()
    places = {
        "file": str(tmp_path / "file"),
        "nobody listens": object_store.depot("a", port=free_port()),
        "no bucket": object_store.depot("a").replace("s3://tickets", "s3://another"),
    }
    depot = open_depot(places[broken], patience=2)
    with pytest.raises(DepotDown):
        _put(depot, CONTENT)
    with pytest.raises(DepotDown):
        depot.get(_reference())
    with pytest.raises(DepotDown):
        list(depot.folders())


def test_a_full_disk_takes_nothing_by_halves_and_gives_back_what_it_has(tmp_path: Path) -> None:
    depot, before = Directory(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    _put(depot, CONTENT)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(DepotDown):
            _put(depot, os.urandom(2 << 20), folder=OTHER)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert fetch(depot, _reference()) == CONTENT
    assert list((tmp_path / OTHER).iterdir()) == []


def test_a_removal_that_was_killed_halfway_is_taken_back(tmp_path: Path) -> None:
    depot = Directory(tmp_path)
    _put(depot, CONTENT, b"x")
    (tmp_path / FOLDER).rename(tmp_path / f"{FOLDER}+leaving")
    _put(depot, b"x", b"new")
    assert [folder.name for folder in depot.folders()] == [FOLDER]
    assert {path.name for path in tmp_path.iterdir()} == {FOLDER, MARK}
    for content in (CONTENT, b"x", b"new"):
        assert fetch(depot, _reference(content)) == content


def test_whoever_writes_while_it_is_removed_finds_it_stored_or_is_told(tmp_path: Path) -> None:
    depot, over = Directory(tmp_path), threading.Event()
    _put(depot, CONTENT)

    def remove() -> None:
        while not over.is_set():
            depot.remove(FOLDER, before=MUCH_LATER if os.urandom(1) < b"\x20" else 0.0)

    remover = threading.Thread(target=remove)
    remover.start()
    stored = 0
    try:
        while stored < 50:
            stored += _stored(lambda: _put(depot, CONTENT, b"x"))
    finally:
        over.set()
        remover.join()
    _put(depot, CONTENT)
    assert fetch(depot, _reference()) == CONTENT
    assert not [path for path in (tmp_path / FOLDER).iterdir() if path.name.startswith(".")]


def _stored(put: Callable[[], None]) -> bool:
    try:
        put()
    except DepotDown:
        return False
    return True

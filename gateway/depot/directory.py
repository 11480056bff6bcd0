"""A depot in a folder of a file system, local or shared.

Owns the files. A content is there whole or not at all, and before `put` returns it is on the disk: its bytes, its name,
and the name of its folder.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

from gateway.contract.references import Reference, owner_of
from gateway.depot import MARK, ContentLost, DepotDown, Folder

_ASIDE: Final = "+leaving"
"""Ends the name of a folder that is being removed; a plus is in no folder's name."""


class Directory:
    """The depot under `root`, which `put` makes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._marked = False

    def put(self, folder: str, contents: Mapping[str, bytes]) -> None:
        """See `Depot`."""
        inside = self._root / folder
        try:
            self._mark()
            inside.mkdir(exist_ok=True)
            for name, content in contents.items():
                _write(inside, name, content)
            _sync(inside)
            _sync(self._root)
        except OSError as error:
            raise DepotDown(f"{self._root}: {error.strerror or error}") from error

    def get(self, reference: Reference) -> bytes:
        """See `Depot`."""
        try:
            with (self._root / reference.path).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != reference.bytes:
                    raise ContentLost(f"{reference.path} has {size} bytes and was stored with {reference.bytes}")
                return file.read(reference.bytes)
        except FileNotFoundError as error:
            if (self._root / MARK).exists():
                raise ContentLost(f"{reference.path} is not there") from error
            raise DepotDown(f"{self._root} is no depot: nothing was ever stored there, or it is not mounted") from error
        except OSError as error:
            raise DepotDown(f"{self._root}: {error.strerror or error}") from error

    def folders(self) -> Iterator[Folder]:
        """See `Depot`."""
        try:
            names = [entry.name for entry in os.scandir(self._root) if entry.is_dir()]
            for name in names:
                if name.endswith(_ASIDE):  # whoever was removing it was killed; nobody may say any more that it was old
                    _bring_back(self._root / name, self._root / name.removesuffix(_ASIDE))
        except FileNotFoundError:
            return  # nothing was ever stored
        except OSError as error:
            raise DepotDown(f"{self._root}: {error.strerror or error}") from error
        for name in sorted({name.removesuffix(_ASIDE) for name in names}):
            if owner_of(name) is None:
                continue
            try:
                yield _folder(self._root / name)
            except FileNotFoundError:
                continue  # somebody else has just removed it
            except OSError as error:
                raise DepotDown(f"{self._root}: {error.strerror or error}") from error

    def remove(self, folder: str, *, before: float) -> bool:
        """See `Depot`.

        It is put aside first: from then on nobody can write into it, so what is old now stays so, and a door that
        comes in between finds that its name is gone, or makes a folder of its own.
        """
        inside, aside = self._root / folder, self._root / f"{folder}{_ASIDE}"
        try:
            if _folder(inside).newest >= before:
                return False
            inside.rename(aside)
            if _folder(aside).newest >= before:
                _bring_back(aside, inside)
                return False
            for path in list(aside.iterdir()):
                path.unlink()
            try:
                aside.rmdir()
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                # A door had found the folder just before it was put aside, and has only now written there.
                _bring_back(aside, inside)
                return False
        except FileNotFoundError:
            return False
        except OSError as error:
            raise DepotDown(f"{inside}: {error.strerror or error}") from error
        return True

    def _mark(self) -> None:
        if not self._marked:
            self._root.mkdir(parents=True, exist_ok=True)
            if not (self._root / MARK).exists():
                _write(self._root, MARK, b"Attachments of tickets. Only the station's sweep removes what is here.\n")
            self._marked = True


def _folder(inside: Path) -> Folder:
    found = [status for path in list(inside.iterdir()) if (status := _status(path)) is not None]
    newest = max((one.st_mtime for one in found), default=None)
    return Folder(
        name=inside.name,
        newest=inside.stat().st_mtime if newest is None else newest,
        bytes=sum(one.st_size for one in found),
    )


def _status(path: Path) -> os.stat_result | None:
    """None for what a door has just given its name, or given up."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _bring_back(aside: Path, inside: Path) -> None:
    inside.mkdir(exist_ok=True)
    for path in list(aside.iterdir()):
        if not (inside / path.name).exists():  # what a door has written since is the same, and younger
            path.replace(inside / path.name)
        else:
            path.unlink()
    aside.rmdir()
    _sync(inside)


def _write(inside: Path, name: str, content: bytes) -> None:
    """Write a whole file under a name of its own first: a crash in between leaves nothing that looks like a content."""
    unfinished = inside / f".{uuid4().hex}"
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(inside / name)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    """Have the names in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The depot: where attachments lie that do not travel in their message (claim check).

Owns what door, station and workers share about it: the seam, its two places, and the check of what comes back. The door
adds, workers and the desk read, only the station's sweep removes. Blocks, so that a worker needs no event loop for it;
whoever has one calls from a thread.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from gateway.contract.references import Reference, digest_of

MARK: Final = "lazaretto-depot"
"""A file that every depot has: where it is missing, nothing can be said to be missing, for this is another place (an
empty mount point, a wrong prefix)."""
SCHEMES: Final = ("s3", "gs", "az")
OPTIONS: Final = frozenset({"endpoint", "region", "allow_http", "virtual_hosted_style_request", "account_name"})
"""What may follow in the URL of an object store. Secrets may not: a URL is shown and logged."""


class DepotDown(Exception):
    """It cannot be reached or takes no more: says nothing about what lies there. The text says why."""


class DepotUnusable(DepotDown):
    """It cannot even be spoken to, for what its URL or this machine lacks; the text says what."""


class ContentLost(Exception):
    """The depot is there, and the content is not, or is not what it was. The text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What one submission has left in the depot."""

    name: str
    newest: float
    """When the last of it was written (Unix seconds), on the clock of the depot."""
    bytes: int


class Depot(Protocol):
    """Two places implement it. Everything raises DepotDown while it cannot be done."""

    def put(self, folder: str, contents: Mapping[str, bytes]) -> None:
        """Write contents by their digest; when this returns they are there for good. Again is the same."""

    def get(self, reference: Reference) -> bytes:
        """Read one content, unchecked but for its size; raises ContentLost."""

    def folders(self) -> Iterator[Folder]:
        """Every folder there is; a name that is no folder's is passed over."""

    def remove(self, folder: str, *, before: float) -> bool:
        """Remove a folder, unless something in it was written at `before` (Unix seconds) or later; say whether."""


def problem(place: str) -> str | None:
    """Return what is wrong with a setting that names a depot, None when it can be used."""
    if "://" not in place:
        return None
    parts = urlsplit(place)
    if parts.scheme not in SCHEMES or not parts.netloc:
        return "write a folder, or s3://bucket/prefix?endpoint=...&region=... (gs:// and az:// alike)"
    if "@" in parts.netloc:
        return "leave credentials out: they come from the environment (AWS_ACCESS_KEY_ID, ...) or the machine's role"
    strange = {option.partition("=")[0] for option in parts.query.split("&") if option} - OPTIONS
    return f"only {', '.join(sorted(OPTIONS))} may follow the question mark" if strange else None


def place_of(setting: str, data: Path) -> str:
    """Return the place that a setting names, an absolute path or a URL; empty is a folder of the data folder."""
    if "://" in setting:
        return setting
    return str((Path(setting) if setting else data / "attachments").absolute())


def open_depot(place: str, *, patience: float = 10.0) -> Depot:
    """Return the depot at a place; touches nothing yet. `patience` is for how many seconds an object store is tried.

    Raises DepotUnusable.
    """
    if "://" in place:
        from gateway.depot.objects import Objects  # noqa: PLC0415 - only those who use one load the library

        return Objects(place, patience=patience)
    from gateway.depot.directory import Directory  # noqa: PLC0415 - beside its only alternative

    return Directory(Path(place))


def fetch(depot: Depot, reference: Reference) -> bytes:
    """Read a content and prove that it is the one that was stored; raises DepotDown, ContentLost."""
    content = depot.get(reference)
    if digest_of(content) != reference.sha256:
        raise ContentLost(f"{reference.path} is not what was stored: its digest is another one")
    return content

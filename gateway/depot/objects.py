"""A depot in an object store: S3 and what speaks like it, Google's, Azure's.

Owns the calls of the library, whose import takes a tenth of a second and which nobody loads who does not come here.
Credentials come from the environment or the machine's role, in the names that these stores' own tools use.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import groupby
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import from_url

from gateway.contract.references import Reference, owner_of
from gateway.depot import MARK, ContentLost, DepotDown, DepotUnusable, Folder

_CONNECT: Final = timedelta(seconds=3)
_RETRIES: Final = 3
_OF_THE_CLIENT: Final = frozenset({"allow_http"})
_NO_CERTIFICATES: Final = "No CA certificates"
"""What the library's HTTP client says in the middle of a dump of its values."""
_MISSING: Final = (NotFoundError, FileNotFoundError)
"""Which of them it raises depends on its version."""


class Objects:
    """The depot under a prefix of a bucket."""

    def __init__(self, url: str, *, patience: float) -> None:
        """`patience` is for how many seconds one call may take, tries together; raises DepotUnusable."""
        options = dict(parse_qsl(urlsplit(url).query))
        self._name = url.partition("?")[0]
        self._marked = False
        waits = timedelta(seconds=patience)
        client: dict[str, Any] = {"timeout": waits, "connect_timeout": min(_CONNECT, waits)}
        client |= {name: options.pop(name) for name in _OF_THE_CLIENT & options.keys()}
        settings: dict[str, Any] = {
            "config": options,
            "client_options": client,
            "retry_config": {"max_retries": _RETRIES, "retry_timeout": waits},
        }
        try:
            self._store: Any = from_url(self._name, **settings)
        except (BaseError, ValueError) as error:
            raise DepotUnusable(_why_unusable(self._name, str(error))) from error

    def put(self, folder: str, contents: Mapping[str, bytes]) -> None:
        """See `Depot`."""
        if not self._marked:
            self._put(MARK, b"Attachments of tickets. Only the station's sweep removes what is here.\n")
            self._marked = True
        for name, content in contents.items():
            self._put(f"{folder}/{name}", content)

    def get(self, reference: Reference) -> bytes:
        """See `Depot`."""
        try:
            found = obstore.get(self._store, reference.path)
            size = found.meta["size"]
            if size != reference.bytes:
                raise ContentLost(f"{reference.path} has {size} bytes and was stored with {reference.bytes}")
            return bytes(found.bytes())
        except _MISSING as error:
            if self._has_mark():
                raise ContentLost(f"{reference.path} is not there") from error
            raise DepotDown(f"{self._name} is no depot: nothing was ever stored there") from error
        except (BaseError, OSError) as error:
            raise self._down(error) from error

    def folders(self) -> Iterator[Folder]:
        """See `Depot`. Objects come in the order of their names, so one folder's follow each other."""
        try:
            listed = (found for page in obstore.list(self._store) for found in page)
            for name, found in groupby(listed, key=lambda one: one["path"].rpartition("/")[0]):
                if owner_of(name) is not None:
                    yield _folder(name, list(found))
        except (BaseError, OSError) as error:
            raise self._down(error) from error

    def remove(self, folder: str, *, before: float) -> bool:
        """See `Depot`. An object store has no lock: what a door writes again in this very moment may go, too."""
        try:
            found = [one for page in obstore.list(self._store, prefix=folder) for one in page]
            if not found or _folder(folder, found).newest >= before:
                return False
            obstore.delete(self._store, [one["path"] for one in found])
        except (BaseError, OSError) as error:
            raise self._down(error) from error
        return True

    def _put(self, path: str, content: bytes) -> None:
        try:
            obstore.put(self._store, path, content, use_multipart=False)
        except (BaseError, OSError) as error:
            raise self._down(error) from error

    def _has_mark(self) -> bool:
        try:
            obstore.head(self._store, MARK)
        except _MISSING:
            return False
        except (BaseError, OSError) as error:
            raise self._down(error) from error
        return True

    def _down(self, error: Exception) -> DepotDown:
        # What the library adds in further lines is a dump of its own values.
        return DepotDown(f"{self._name}: {str(error).partition(chr(10))[0]}")


def _why_unusable(name: str, error: str) -> str:
    if _NO_CERTIFICATES in error:
        return f"{name}: this machine trusts no certificate authority: install ca-certificates, or set SSL_CERT_FILE"
    return f"{name}: {error.partition(chr(10))[0]}"


def _folder(name: str, found: list[Any]) -> Folder:
    return Folder(
        name=name,
        newest=max(one["last_modified"].timestamp() for one in found),
        bytes=sum(one["size"] for one in found),
    )

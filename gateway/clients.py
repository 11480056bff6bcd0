"""Who may come in, and how much of it: the keys in force and what each client has left.

Owns the reading of the key file and one allowance for each client in it, so that memory is bounded by the file. Knows
no HTTP. Without a file everybody is the client `anonymous`, who may do all.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from gateway import api_key, key_file, key_ring
from gateway.body import Hold
from gateway.key_lines import BadKeyFile
from gateway.key_ring import ANONYMOUS, Key, KeyRing
from gateway.quota import Allowance, Exceeded, Rate

_SCHEME: Final = "bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whom a request is from."""

    client: str
    key: Key | None = None
    """None where nobody needs one."""
    allowance: Allowance | None = None

    def may_submit(self, kind: str) -> bool:
        """Tell whether this caller's key is for tickets of that kind."""
        return self.key is None or self.key.allows(kind)

    def submitted(self, client: str | None) -> bool:
        """Tell whether a ticket of `client` is this caller's; where nobody needs a key, all are everybody's."""
        return self.key is None or client == self.client


class Stranger(StrEnum):
    """Why a request is from nobody we know."""

    NO_KEY = "no_key"
    UNKNOWN = "unknown"
    EXPIRED = "expired"


class Clients:
    """The clients of one door."""

    def __init__(self, path: Path | None, *, max_body_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody is known before `reload`. A quota of bytes holds at least one ticket of `max_body_bytes`."""
        self._path = path
        self._max_body_bytes = max_body_bytes
        self._clock = clock
        self._ring = KeyRing(())
        self._allowances: dict[str, Allowance] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that this was read from."""
        return () if self._path is None else (self._path,)

    @property
    def needed(self) -> bool:
        """Tell whether callers need a key."""
        return self._path is not None

    @property
    def summary(self) -> str:
        """How many keys and clients there are, for people."""
        return f"{len(self._ring)} keys of {len(self._ring.clients)} clients"

    def reload(self) -> None:
        """Read the key file, all of it; raises BadKeyFile and leaves everything as it was when it has a mistake."""
        if self._path is None:
            return
        ring, now = read_file(self._path), self._clock()
        allowances = {}
        for client, key in ring.clients.items():
            known = self._allowances.get(client)
            size = None if key.bytes is None else key.bytes.holding(self._max_body_bytes)
            allowances[client] = _allowance(known, requests=key.requests, size=size, now=now)
        self._ring, self._allowances = ring, allowances

    def identify(self, authorization: Sequence[str]) -> Caller | Stranger:
        """Return who presents these `Authorization` values."""
        if self._path is None:
            return Caller(client=ANONYMOUS)
        if len(authorization) != 1 or authorization[0][: len(_SCHEME)].lower() != _SCHEME:
            return Stranger.NO_KEY
        presented = api_key.read(authorization[0][len(_SCHEME) :].strip())
        key = None if presented is None else self._ring.opens(presented)
        if key is None:
            return Stranger.UNKNOWN
        if key.expired(time.time()):
            return Stranger.EXPIRED
        return Caller(client=key.client, key=key, allowance=self._allowances[key.client])


class Meter:
    """Charges a body to its client while it arrives, and asks for room for it: a `gateway.body.Hold`."""

    def __init__(self, hold: Hold, allowance: Allowance | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._hold = hold
        self._allowance = allowance
        self._clock = clock
        self._charged = 0
        self.exceeded: Exceeded | None = None
        """Set when the client's quota, and not the room, made the answer False."""

    def __call__(self, size: int, /, *, whole: bool) -> bool:
        """Charge what is new of `size` bytes; False when it is too much for the client or for the door."""
        more, self._charged = size - self._charged, size
        if self._allowance is not None and more > 0:
            self.exceeded = self._allowance.arrived(more, size, self._clock())
        return self.exceeded is None and self._hold(size, whole=whole)


def _allowance(known: Allowance | None, *, requests: Rate | None, size: Rate | None, now: float) -> Allowance:
    if known is None:
        return Allowance(requests=requests, size=size, now=now)
    return known.refitted(requests=requests, size=size, now=now)


def read_file(path: Path) -> KeyRing:
    """Return the keys in a file; raises BadKeyFile."""
    text, exposed = key_file.read_text(path)
    try:
        ring = key_ring.read(text)
        if ring.callbacks and exposed:
            raise BadKeyFile(["everybody may read it, and it holds the secrets of callbacks"])
        return ring
    except BadKeyFile as error:
        raise BadKeyFile([f"key file {path}: {problem}" for problem in error.problems]) from None

"""Tells who asks: by a key, a session that began with one, a trusted proxy's word, or because it is this machine.

Owns the order in which these count and the reading of the key file, again when it changes. Knows no HTTP but header
values; decides nothing about what anybody may do.
"""

import ipaddress
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from gateway import api_key, key_file
from gateway.client_address import networks
from gateway.contract.logs import event
from gateway.key_lines import BadKeyFile
from gateway.settings import StationSettings
from gateway.station import reviewer_keys
from gateway.station.desk.sessions import FormTokens, Sessions
from gateway.station.identity import Identity, Role, Via
from gateway.station.reviewer_keys import ReviewerKey, ReviewerRing

GROUPS: Final = {f"lazaretto-{role}": role for role in Role}
"""What a proxy calls the roles: a company's own group `admin` means something else."""
FORWARDED: Final = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP")
_SCHEME: Final = "bearer "
_LOOK_EVERY: Final = 1.0

logger: Final = logging.getLogger("lazaretto.desk")


class Stranger(StrEnum):
    """Why a request is from nobody we know."""

    NO_KEY = "no_key"
    UNKNOWN = "unknown"
    """The key is none of ours, or its time is over."""
    NO_GROUP = "no_group"
    """The proxy knows the person, and none of the person's groups is one of ours."""
    NOT_THROUGH_PROXY = "not_through_proxy"
    THROUGH_PROXY = "through_proxy"
    """It came through a proxy to a desk that asks nobody who he is, because only this machine should reach it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What of a request tells who sent it."""

    peer: str | None
    """Address of the other end of the connection."""
    headers: Mapping[str, str]
    authorization: Sequence[str] = ()
    session: str | None = field(default=None, repr=False)


class Doorkeeper:
    """Knows the people of one desk."""

    def __init__(self, settings: StationSettings) -> None:
        """Read the key file; raises BadKeyFile."""
        self.sessions = Sessions(lifetime=settings.desk_session)
        self.forms = FormTokens()
        self.proxied = bool(settings.desk_user_header)
        self._settings = settings
        self._proxies = networks(settings.desk_proxies)
        self._path = settings.desk_keys
        self._ring = ReviewerRing(())
        self._seen: object = None
        self._looked = 0.0
        if self._path is not None:
            self._seen = _state(self._path)
            self._ring = _read(self._path)

    @property
    def asks(self) -> bool:
        """Tell whether anybody has to say who he is."""
        return self.keyed or self.proxied

    @property
    def keyed(self) -> bool:
        """Tell whether people sign in with a key."""
        return self._path is not None

    def identify(self, asked: Asked) -> Identity | Stranger:
        """Return who sent this."""
        self._look()
        if asked.authorization:
            return self._by_key(asked.authorization)
        if asked.session is not None and (found := self._by_session(asked.session)) is not None:
            return found
        if self.proxied and self._is_proxy(asked.peer):
            return self._by_proxy(asked.headers)
        if self.keyed:
            return Stranger.NO_KEY
        if self.proxied:
            return Stranger.NOT_THROUGH_PROXY
        if any(name in asked.headers for name in FORWARDED):
            return Stranger.THROUGH_PROXY
        return Identity(name=self._settings.desk_user or None, role=Role.ADMIN, via=Via.LOOPBACK)

    def sign_in(self, text: str) -> str | None:
        """Return the token of a new session for whoever has this key; None for a key that opens nothing."""
        self._look()
        key = self._opened(text)
        return None if key is None else self.sessions.open(key.id)

    def who_may(self, role: Role) -> list[str]:
        """Say who may do what takes `role`: people with keys, then the proxy's groups."""
        now = time.time()
        people = [key.name for key in self._ring if key.role.includes(role) and not key.expired(now)]
        groups = [f"group {name}" for name, given in GROUPS.items() if given.includes(role)] if self.proxied else []
        return [*dict.fromkeys(people), *groups]

    def _by_key(self, authorization: Sequence[str]) -> Identity | Stranger:
        if len(authorization) != 1 or authorization[0][: len(_SCHEME)].lower() != _SCHEME:
            return Stranger.NO_KEY
        key = self._opened(authorization[0][len(_SCHEME) :])
        return Stranger.UNKNOWN if key is None else _identity(key, Via.KEY)

    def _by_session(self, token: str) -> Identity | None:
        session = self.sessions.find(token)
        key = None if session is None else self._ring.named(session.key)
        return None if key is None or key.expired(time.time()) else _identity(key, Via.SESSION)

    def _by_proxy(self, headers: Mapping[str, str]) -> Identity | Stranger:
        try:
            name = reviewer_keys.person(headers.get(self._settings.desk_user_header, ""))
        except ValueError:
            return Stranger.NOT_THROUGH_PROXY
        told = headers.get(self._settings.desk_groups_header, "").split(",")
        roles = [GROUPS[group] for group in map(str.strip, told) if group in GROUPS]
        if not roles:
            return Stranger.NO_GROUP
        greatest = next(role for role in reversed(Role) if role in roles)
        return Identity(name=name, role=greatest, via=Via.PROXY)

    def _opened(self, text: str) -> ReviewerKey | None:
        presented = api_key.read(text.strip())
        key = None if presented is None else self._ring.opens(presented)
        return None if key is None or key.expired(time.time()) else key

    def _is_proxy(self, peer: str | None) -> bool:
        try:
            address = ipaddress.ip_address((peer or "").partition("%")[0])
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return any((mapped or address) in network for network in self._proxies)

    def _look(self) -> None:
        """Read the file again if it changed; what is wrong with it is said once, and the keys in force stay so."""
        now = time.monotonic()
        if self._path is None or now - self._looked < _LOOK_EVERY:
            return
        self._looked, state = now, _state(self._path)
        if state == self._seen:
            return
        self._seen = state
        try:
            self._ring = _read(self._path)
        except BadKeyFile as error:
            event(logger, "desk.keys_refused", logging.ERROR, error=error)
        else:
            event(logger, "desk.keys_read", keys=len(self._ring))


def _identity(key: ReviewerKey, via: Via) -> Identity:
    return Identity(name=key.name, role=key.role, via=via, key=key.id)


def _read(path: Path) -> ReviewerRing:
    text, _ = key_file.read_text(path)
    try:
        return reviewer_keys.read(text)
    except BadKeyFile as error:
        raise BadKeyFile([f"key file {path}: {problem}" for problem in error.problems]) from None


def _state(path: Path) -> tuple[int, int, int] | str:
    """What changes when the file is written or replaced; taken before it is read, so that no change goes unseen."""
    try:
        status = path.stat()
    except OSError as error:
        return str(error)
    return status.st_mtime_ns, status.st_size, status.st_ino

"""Who has signed in: random tokens in memory, each for one key and for a set time.

Owns sessions and the tokens of forms. Nothing of it outlives the process: after a restart people sign in again, and no
store has to be written before anybody can read. Never keeps a token's text.
"""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_SESSIONS: Final = 10_000
"""The oldest gives way."""
_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One browser that presented a key."""

    key: str
    """Id of the key; whether it still opens anything is asked at every request."""
    until: float
    """Seconds on the clock of the sessions."""


class Sessions:
    """All sessions of one desk."""

    def __init__(self, *, lifetime: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`lifetime` is in seconds, from signing in."""
        self.lifetime = lifetime
        self._clock = clock
        self._open: OrderedDict[str, Session] = OrderedDict()

    def open(self, key: str) -> str:
        """Begin a session and return its token, 256 random bits as text."""
        now, token = self._clock(), secrets.token_urlsafe(_BYTES)
        while self._open and (len(self._open) >= MAX_SESSIONS or next(iter(self._open.values())).until <= now):
            self._open.popitem(last=False)
        self._open[_digest(token)] = Session(key=key, until=now + self.lifetime)
        return token

    def find(self, token: str) -> Session | None:
        """Return the session of this token if its time is not over."""
        found = self._open.get(_digest(token))
        return found if found is not None and found.until > self._clock() else None

    def close(self, token: str) -> None:
        """End the session of this token, if there is one."""
        self._open.pop(_digest(token), None)


class FormTokens:
    """Proofs that a form came from a page of this desk, for whoever it was shown to.

    Bound to the session, or to the name where there is none, under a secret of this process.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(_BYTES)

    def issue(self, holder: str) -> str:
        """Return the token for the forms on `holder`'s pages."""
        return hmac.new(self._secret, holder.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def fits(self, holder: str, token: str) -> bool:
        """Tell whether `token` was issued for `holder`; in constant time."""
        return hmac.compare_digest(self.issue(holder).encode(), token.encode("utf-8", "surrogatepass"))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()

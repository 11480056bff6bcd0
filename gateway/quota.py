"""What a client may send: token buckets, and how they are told of (G10).

Owns the arithmetic and the two header fields. Pure: every question brings its moment along, in seconds of a clock that
does not go back.
"""

import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

from gateway.contract import knobs

_RATE: Final = re.compile(r"\s*([^/]+?)\s*/\s*(\d*)\s*([smhd])\s*")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOST: Final = 999_999_999_999_999
"""The greatest integer of a structured field (RFC 9651, 3.3.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """`amount` in every `seconds`; a bucket that was left alone for so long holds `amount`, and never more."""

    amount: int
    seconds: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `50/s`, `5MiB/s`, `1000/10m`; raises ValueError."""
        match = _RATE.fullmatch(text)
        if match is None:
            raise ValueError("write an amount and a time, such as 50/s, 1000/10m or 5MiB/s")
        amount, seconds = knobs.size(match[1]), int(match[2] or 1) * _SECONDS[match[3]]
        if not (0 < amount <= MOST and 0 < seconds <= MOST):
            raise ValueError("a quota of nothing lets nobody in, and one without an end is none: leave it out")
        return cls(amount=amount, seconds=seconds)

    def __str__(self) -> str:
        for unit in ("d", "h", "m"):
            count, rest = divmod(self.seconds, _SECONDS[unit])
            if not rest:
                return f"{self.amount}/{count if count > 1 else ''}{unit}"
        return f"{self.amount}/{self.seconds if self.seconds > 1 else ''}s"

    def holding(self, amount: int) -> Self:
        """Return the same rate over a longer time if need be, so that `amount` at once is not beyond it for ever."""
        if self.amount >= amount:
            return self
        return replace(self, amount=amount, seconds=math.ceil(amount * self.seconds / self.amount))


class Bucket:
    """A bucket that `rate` fills; full at first."""

    def __init__(self, rate: Rate, *, now: float) -> None:
        self.rate = rate
        self._left = float(rate.amount)
        self._at = now

    def left(self, now: float) -> float:
        """Return what can be taken at this moment."""
        gained = max(0.0, now - self._at) * self.rate.amount / self.rate.seconds
        return min(float(self.rate.amount), self._left + gained)

    def take(self, amount: int, now: float) -> bool:
        """Take `amount` if it is there, else nothing; tell whether it was."""
        left = self.left(now)
        if left < amount:
            return False
        self._left, self._at = left - amount, max(now, self._at)
        return True

    def drain(self, amount: int, now: float) -> bool:
        """Take `amount`, or all there is: what has come has come; tell whether it was enough."""
        if self.take(amount, now):
            return True
        self._left, self._at = 0.0, max(now, self._at)
        return False

    def wait(self, amount: int, now: float) -> float:
        """Return the seconds after which `amount`, or a full bucket where that is less, can be taken."""
        missing = min(amount, self.rate.amount) - self.left(now)
        return max(0.0, missing * self.rate.seconds / self.rate.amount)

    def refitted(self, rate: Rate, now: float) -> "Bucket":
        """Return a bucket of another rate that holds no more than this one: a new key file is no new allowance."""
        if rate == self.rate:
            return self  # to the fraction: a file that changes often would take the slow ones all they gain
        bucket = Bucket(rate, now=now)
        bucket.drain(max(0, rate.amount - int(self.left(now))), now)
        return bucket


class Policy(StrEnum):
    """The quotas a client can have, by the names that its answers use."""

    REQUESTS = "requests"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """A quota that is used up, and after how many seconds it is not."""

    policy: Policy
    wait: int


class Allowance:
    """What one client has left, at one door."""

    def __init__(self, *, requests: Rate | None, size: Rate | None, now: float) -> None:
        """`size` is of bytes; None is no limit."""
        rates = {Policy.REQUESTS: requests, Policy.BYTES: size}
        self._buckets = {policy: Bucket(rate, now=now) for policy, rate in rates.items() if rate is not None}

    def request(self, now: float) -> Exceeded | None:
        """Take one request."""
        bucket = self._buckets.get(Policy.REQUESTS)
        return None if bucket is None or bucket.take(1, now) else _exceeded(Policy.REQUESTS, bucket, 1, now)

    def covers(self, size: int, now: float) -> Exceeded | None:
        """Tell whether a body of `size` bytes could come in now; takes nothing."""
        bucket = self._buckets.get(Policy.BYTES)
        return None if bucket is None or bucket.left(now) >= size else _exceeded(Policy.BYTES, bucket, size, now)

    def arrived(self, more: int, of: int, now: float) -> Exceeded | None:
        """Take `more` bytes of a body that has `of` by now; they have come, so what is there of them is taken."""
        bucket = self._buckets.get(Policy.BYTES)
        return None if bucket is None or bucket.drain(more, now) else _exceeded(Policy.BYTES, bucket, of, now)

    def refitted(self, *, requests: Rate | None, size: Rate | None, now: float) -> "Allowance":
        """Return the allowance under other rates, without anything gained by the change."""
        fresh = Allowance(requests=requests, size=size, now=now)
        for policy, bucket in fresh._buckets.items():
            if policy in self._buckets:
                fresh._buckets[policy] = self._buckets[policy].refitted(bucket.rate, now)
        return fresh

    def fields(self, now: float) -> dict[str, str]:
        """Return the header fields as draft-ietf-httpapi-ratelimit-headers-10 has them; none without a quota.

        `r` is what is left, `t` the seconds until all of it is there again.
        """
        if not self._buckets:
            return {}
        policies, limits = [], []
        for policy, bucket in self._buckets.items():
            unit = ';qu="content-bytes"' if policy is Policy.BYTES else ""
            policies.append(f'"{policy}";q={bucket.rate.amount}{unit};w={bucket.rate.seconds}')
            full = math.ceil(bucket.wait(bucket.rate.amount, now))
            limits.append(f'"{policy}";r={int(bucket.left(now))};t={full}')
        return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(limits)}


def _exceeded(policy: Policy, bucket: Bucket, amount: int, now: float) -> Exceeded:
    return Exceeded(policy=policy, wait=max(1, math.ceil(bucket.wait(amount, now))))

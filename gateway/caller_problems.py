"""What the door answers to a caller that it does not know, or that may not do this, or not so often (G10).

Owns these problems' words, and never repeats what was presented.

    Problem
    ├── 401 key-required        no API key came along, in a form that can be one
    ├── 401 key-refused         it is unknown, revoked or expired; the answer does not say which
    ├── 403 kind-forbidden      the key is for other kinds; named
    ├── 403 metrics-forbidden   the key is not for /metrics
    └── 429 quota-exceeded      RateLimit and RateLimit-Policy tell the quota, Retry-After when to come again
"""

from typing import Final

from gateway.problem_document import Problem
from gateway.quota import Exceeded

_CHALLENGE: Final = 'Bearer realm="lazaretto"'


def key_required() -> Problem:
    """401: nobody knows who this is."""
    return Problem(
        code="key-required",
        status=401,
        title="An API key is required",
        detail="Send your API key as `Authorization: Bearer lz_...`, once.",
        headers={"WWW-Authenticate": _CHALLENGE},
    )


def key_refused() -> Problem:
    """401: the key opens nothing."""
    return Problem(
        code="key-refused",
        status=401,
        title="This API key opens nothing",
        detail="The API key is unknown, revoked or expired.",
        headers={"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"'},
    )


def kind_forbidden(kind: str) -> Problem:
    """403: the key is for other kinds of tickets."""
    return Problem(
        code="kind-forbidden",
        status=403,
        title="Not with this API key",
        detail=f"This API key may not submit tickets of the kind {kind}.",
        members={"kind": kind},
    )


def metrics_forbidden() -> Problem:
    """403: the figures are for keys made with `--metrics`."""
    return Problem(
        code="metrics-forbidden", status=403, title="Not with this API key", detail="This API key may not read metrics."
    )


def quota_exceeded(exceeded: Exceeded) -> Problem:
    """429: the client has used up a quota."""
    return Problem(
        code="quota-exceeded",
        status=429,
        title="Quota exceeded",
        detail=f"Your quota of {exceeded.policy} is used up; it is there again in {exceeded.wait} s.",
        retryable=True,
        retry_after=exceeded.wait,
        reason=str(exceeded.policy),
        members={"violated-policies": [str(exceeded.policy)]},
    )

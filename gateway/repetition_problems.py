"""What the door answers to a submission whose name is not new (G8).

Problem
├── 409 id-taken            the client's own id stands for another ticket, its own or somebody else's
├── 409 in-flight           the same is being submitted at this moment, at this door or another
├── 422 key-reused          the Idempotency-Key came with other contents before
└── 503 store-unavailable   whether it came before cannot be told now
"""

import math
from typing import Final

from gateway.errors import NOT_ACCEPTED
from gateway.problem_document import Problem

_LONGEST_WAIT: Final = 5


def id_taken() -> Problem:
    """409: the id names another ticket already."""
    return Problem(
        code="id-taken",
        status=409,
        title="This id is taken",
        detail="A ticket of this id was submitted with other contents, or by another client. Choose another id.",
    )


def in_flight(seconds: float) -> Problem:
    """409: somebody is at it, for `seconds` at the most."""
    return Problem(
        code="in-flight",
        status=409,
        title="Already under way",
        detail="The same ticket is being submitted at this moment. Ask again: the answer will be the same for both.",
        retryable=True,
        retry_after=max(1, min(_LONGEST_WAIT, math.ceil(seconds))),
    )


def key_reused() -> Problem:
    """422: the idempotency key came with another ticket before."""
    return Problem(
        code="key-reused",
        status=422,
        title="This Idempotency-Key is used",
        detail="The key came with a ticket of other contents before. Send this one under a key of its own.",
    )


def store_unavailable() -> Problem:
    """503: without the store a key means nothing."""
    return Problem(
        code="store-unavailable",
        status=503,
        title="Idempotency-Key cannot be honoured now",
        detail=NOT_ACCEPTED,
        retryable=True,
        retry_after=5,
        reason="store",
    )

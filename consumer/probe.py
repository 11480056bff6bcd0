"""A ticket that is known to be good, run to see whether a stopped handler works again.

Owns the reading of its file. What it runs was never accepted: it is on no queue, in no count, and nobody settles it.
"""

from dataclasses import dataclass
from pathlib import Path

import orjson

from consumer.execution import RunOrder
from consumer.policy import Policies
from gateway.contract.ids import uuid7

TICKET = "storm-probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The document that a client would submit, `{"kind", "body", ...}`, as it would be admitted."""

    kind: str
    body: bytes

    def order(self, policies: Policies) -> RunOrder:
        """Return an order for one run of it, under its kind's limits."""
        policy = policies.of(self.kind)
        return RunOrder(
            run=uuid7(),
            ticket=TICKET,
            kind=self.kind,
            generation=0,
            attempt=1,
            interruptions=0,
            content_type="application/json",
            content_encoding=None,
            body=self.body,
            examine=False,
            deadline=policy.run_deadline,
            memory_limit=policy.memory_limit,
        )


def read(path: Path) -> Probe:
    """Read a probe's file; raises ValueError naming file and mistake."""
    try:
        body = path.read_bytes()
        document = orjson.loads(body)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{path}: is no JSON document: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str) or "body" not in document:
        raise ValueError(f'{path}: write what a client submits, such as {{"kind": "support.ticket", "body": "hello"}}')
    return Probe(kind=document["kind"], body=body)

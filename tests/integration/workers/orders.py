"""Orders for these tests: the text is the accident, the rest is as ordinary as can be."""

from itertools import count
from typing import Any

from consumer.execution import RunOrder

MIB = 1 << 20
_numbers = count(1)


def order(text: str = "fine", **other: Any) -> RunOrder:
    number = next(_numbers)
    values: dict[str, Any] = {
        "run": f"run-{number}",
        "ticket": f"ticket-{number}",
        "kind": "support.ticket",
        "generation": 0,
        "attempt": 1,
        "interruptions": 0,
        "content_type": "text/plain; charset=utf-8",
        "content_encoding": None,
        "body": text.encode(),
        "examine": False,
        "deadline": 20.0,
        "memory_limit": 512 * MIB,
    }
    return RunOrder(**{**values, **other})

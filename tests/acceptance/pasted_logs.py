"""The two logs of the story, written anew each time from one seed: the same bytes in every run, and no big file kept.

Owns what a log of the invoice service looks like. Knows nothing of limits: those who use the logs check their size.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

_LINES = (
    "INFO  api-gateway route={route} client=10.4.{a}.{b} status=200 in {ms} ms",
    "INFO  invoice-worker invoice {n} rendered for customer {c}, {ms} ms",
    "WARN  invoice-worker retrying customer {c}: connection to ledger-db is slow, waited {ms} ms",
    "DEBUG ledger-db pool={a}/64 waiting={b} oldest transaction {ms} ms",
    "ERROR invoice-worker invoice {n} failed: LedgerTimeout after {ms} ms, customer {c}",
    "INFO  mail-service message to customer {c} queued behind {a} others",
    "WARN  ledger-db lock wait on invoices, holder invoice {n}, {ms} ms",
)
_ROUTES = ("/v2/invoices", "/v2/invoices/preview", "/v2/customers", "/v2/ledger/entries", "/health")


def incident_log(characters: int) -> str:
    """Return so many characters of that night, to the end of a line, with what the customer wrote on top."""
    text = ["Hello, since the update of last night our invoices fail. Here is the whole log, I hope it helps.", ""]
    size = sum(map(len, text))
    for line in _lines():
        if size >= characters:
            return "\n".join(text) + "\n"
        text.append(line)
        size += len(line) + 1
    raise AssertionError("the night has no end")


def _lines() -> Iterator[str]:
    chance = random.Random(9417)
    moment = datetime(2025, 3, 14, 1, 59, tzinfo=UTC)
    while True:
        moment += timedelta(milliseconds=chance.randrange(5, 900))
        words = chance.choice(_LINES).format(
            route=chance.choice(_ROUTES),
            a=chance.randrange(64),
            b=chance.randrange(256),
            c=chance.randrange(100, 999),
            n=chance.randrange(10_000, 99_999),
            ms=chance.randrange(1, 9_999),
        )
        yield f"{moment:%H:%M:%S} {words}"


def excerpt(lines: int) -> str:
    """Return the first lines of the night, as a customer with manners sends them."""
    return "\n".join(islice(_lines(), lines))

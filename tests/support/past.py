"""A quarantine with a past, for pages to be looked at: items of several kinds and days, refusals, what nodes said.

Written through the station's own intake and journal, so that nothing on a page is something a station could not hold.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Admission, Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Outcome, Stamp
from gateway.station import arrival as arrivals
from gateway.station import fleet, holding, ledger
from gateway.station.store import Store
from gateway.station.tables.items import items as items_table
from gateway.station.tables.tickets import tickets

HOUR = 3600.0
KINDS = ("support.ticket", "billing.question", "telemetry.sample", "abuse.report")
CLIENTS = ("acme", "globex", "initech")
LOG = """2026-11-30 08:14:07 WARN  disk: /var at 91 %
2026-11-30 08:14:09 ERROR import: unexpected end of stream after 3 917 402 bytes
Grüße aus Zürich, 東京 から, и из Казани \U0001f41f
"""


def item(ticket: str, now: float, **changes: Any) -> Envelope:
    """Return an item that killed three workers."""
    history = [
        RunRecord(
            attempt=attempt,
            outcome=Outcome.MEMORY,
            node=f"node-{attempt}",
            worker=40 + attempt,
            started=now - HOUR * (4 - attempt),
            seconds=11.5 + attempt,
            code="signal:9",
        )
        for attempt in (1, 2, 3)
    ]
    known: dict[str, Any] = {
        "ticket": TicketId(ticket),
        "kind": "support.ticket",
        "body": LOG.encode() * 20,
        "content_type": "text/plain; charset=utf-8",
        "attempt": 3,
        "crashes": 3,
        "history": History(tuple(history)),
        "suspect": "memory",
        "reason": "crashes_exhausted",
        "detail": "three workers died of it: memory",
        "submitted_at": now - 4 * HOUR,
        "admission": Admission(
            bytes=3_900,
            charset="utf-8",
            tokens=1_182,
            exact=True,
            attachments=0,
            client="acme",
            admitted_at=now - 4 * HOUR,
        ),
    }
    return Envelope(**{**known, **changes})


def ended(ticket: str, at: float, attempt: int, interruptions: int = 0, **evidence: Any) -> Event:
    """Return the journal's word on one run of `item(ticket)`."""
    outcome = evidence.pop("outcome", "memory")
    verdict = evidence.pop("verdict", "retry")
    return Event(
        event=EventName.FINISHED,
        at=at,
        ticket=ticket,
        kind="support.ticket",
        node=f"node-{attempt}",
        stamp=Stamp(generation=0, attempt=attempt, interruptions=interruptions),
        data={
            "outcome": outcome,
            "verdict": verdict,
            "lane": "work" if attempt == 1 else "suspects",
            "worker": 40 + attempt,
            "seconds": 11.5 + attempt,
            "started_at": at - 12,
            "evidence": evidence,
        },
    )


async def take_in(store: Store, arrived: Sequence[tuple[Envelope, float]]) -> None:
    """Take items in as the keeper does, each at its time, alerts for the log."""
    async with store.writing() as transaction:
        for envelope, at in arrived:
            arrival = arrivals.read(envelopes.encode(envelope))
            await holding.take_in(transaction, arrival, channels=["log"], now=at)


async def fill(store: Store, now: float, *, items: int) -> None:
    """Fill a store with `items` items over two weeks, and with what else there is to see."""
    arrived = []
    for number in range(items):
        kind, client = KINDS[number % 4 if number % 3 else 0], CLIENTS[number % 3]
        hopeless = number % 5 == 1
        admission = Admission(
            bytes=400, charset="utf-8", tokens=90, exact=True, attachments=0, client=client, admitted_at=now
        )
        changes: dict[str, Any] = {"kind": kind, "admission": admission, "body": b"Hello, it does not print."}
        if hopeless:
            changes |= {
                "reason": "rejected",
                "detail": "ValueError: no such product",
                "crashes": 0,
                "attempt": 1,
                "history": History(),
                "suspect": None,
            }
        at = now - HOUR * 24 * 13 * (1 - (number + 1) / items) ** 1.5
        arrived.append((item(f"T-{20_000 + number}", at, **changes), at))
    for begin in range(0, len(arrived), 1000):
        await take_in(store, arrived[begin : begin + 1000])


async def multiply(store: Store, times: int) -> None:
    """Have each item of a SQLite store `times` more often, a second apart: by one statement, since there are many."""
    copied = {
        "tickets": [column.name for column in tickets.c],
        "items": [column.name for column in items_table.c],
    }
    async with store.writing() as transaction:
        for table, names in copied.items():
            changed = {"ticket": "ticket || '-' || copy.number", "arrived_at": "arrived_at + copy.number"}
            columns = ", ".join(names)
            values = ", ".join(changed.get(name, name) for name in names)
            counting = f"WITH RECURSIVE copy(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM copy LIMIT {times})"
            await transaction.execute(
                sa.text(f"INSERT INTO {table} ({columns}) {counting} SELECT {values} FROM {table}, copy")
            )


async def ticket_9417(store: Store, now: float) -> None:
    """Take in the ticket of the story: lost, isolated, convicted; with its journal."""
    tail = "\n".join(f"08:14:{second:02} reading chunk {second * 4}" for second in range(5, 20))
    died = {"signal": 9, "peak_rss": 541_065_216, "limit": 536_870_912, "build": "triage-2026.11.3", "log_tail": tail}
    events = [
        ended(
            "9417",
            now - 900,
            1,
            build="triage-2026.11.3",
            outcome="released",
            verdict="release",
            detail="the node was drained",
        ),
        ended("9417", now - 780, 1, 1, **died, progress="prompt built", alongside=["support.ticket 9416"]),
        ended("9417", now - 420, 2, 1, **died, progress="prompt built"),
        ended("9417", now - 90, 3, 1, **died, progress="prompt built", verdict="quarantine"),
    ]
    async with store.writing() as transaction:
        await ledger.post(transaction, events)
    body = (LOG * 400).encode("utf-16")
    admission = Admission(
        bytes=len(body),
        charset="utf-16",
        tokens=41_204,
        exact=True,
        attachments=0,
        client="acme",
        admitted_at=now - 1000,
    )
    await take_in(
        store,
        [(item("9417", now, body=body, admission=admission, interruptions=1, content_type="text/plain"), now - 60)],
    )


async def refuse(store: Store, now: float, *, number: int, sample: str = "Liebe Hotline,") -> None:
    """Record refusals by several rules over the last day."""
    rules = ("too_many_tokens", "body_too_large", "lossy_text")
    events = [
        Event(
            event=EventName.REFUSED,
            at=now - HOUR * 23 * (index / number) ** 2,
            ticket=f"request-{index}",
            kind=KINDS[index % 2],
            node="door-1",
            data={
                "violations": [
                    {
                        "rule": rules[index % 3],
                        "message": f"{rules[index % 3].replace('_', ' ')}: 212,804 where 128,000 is the limit",
                    }
                ],
                "client": CLIENTS[index % 3],
                "bytes": 300_000 + index,
                "digest": f"{index:064x}",
                "sample": sample,
                "facts": {"fingerprint": f"{index:064x}", "limits": {}, "whole": True},
            },
        )
        for index in range(number)
    ]
    async with store.writing() as transaction:
        await ledger.post(transaction, events)


async def speak(store: Store, now: float, **changes: str) -> None:
    """Have nodes say something of themselves."""
    said = [
        (
            EventName.BREAKER,
            "node-1",
            {
                "dependency": "openai",
                "state": "open",
                "why": "3 items within 40 s said that it is down",
                "lane": "work",
            },
        ),
        (EventName.BREAKER, "node-2", {"dependency": "openai", "state": "closed", "why": "", "lane": "work"}),
        (
            EventName.STORM,
            "node-2",
            {
                "state": "tripped",
                "build": "triage-2026.11.4",
                "why": "5 of 6 first runs died",
                "lane": "work",
            },
        ),
    ]
    events = [
        Event(event=name, at=now - 30.0 * number, ticket="", kind="", node=node, data={**data, **changes})
        for number, (name, node, data) in enumerate(said)
    ]
    words = [
        (0.0, _word("node-1", now, build="triage-2026.11.3", recycled=14, waiting=1204)),
        (
            0.0,
            _word("node-2", now, build="triage-2026.11.4", state="hindered", obstacles=["storm"], died=5, waiting=1204),
        ),
        (0.0, _word("node-3", now, lane="suspects", slots=1, workers=1)),
        (600.0, _word("node-4", now - 600, growth=181_000.0)),
        (900.0, _word("node-5", now - 900, state="ended")),
    ]
    async with store.writing() as transaction:
        await ledger.post(transaction, events)
        for ago, word in words:
            await fleet.post(transaction, [word], now - ago)


def _word(
    node: str,
    at: float,
    *,
    lane: str = "work",
    state: str = "ready",
    obstacles: Sequence[str] = (),
    build: str = "triage-2026.11.3",
    slots: int = 4,
    workers: int = 4,
    recycled: int = 3,
    died: int = 0,
    growth: float | None = None,
    waiting: int | None = 0,
) -> Event:
    sizes = [(61 + 7 * number) << 20 for number in range(workers)]
    data = {
        "lane": lane,
        "state": state,
        "obstacles": list(obstacles),
        "every": 30.0,
        "build": build,
        "host": f"{node}.example",
        "started_at": at - 9 * HOUR,
        "waiting": waiting,
        "slots": {"busy": workers // 2, "free": workers - workers // 2, "away": slots - workers},
        "memory": {"mold": 48 << 20, "workers": sum(sizes), "largest_worker": max(sizes)},
        "limits": {"memory": 512 << 20, "recycle_rss": 256 << 20, "recycle_runs": 500},
        "workers": [
            {"pid": 4712 + number, "phase": "busy" if number < workers // 2 else "idle", "runs": 17, "resident": size}
            for number, size in enumerate(sizes)
        ],
        "recycling": {
            "recycled": recycled,
            "died": died,
            "in_progress": 0,
            "growth": growth,
            "suggested_runs": None if growth is None else 900,
            "shrunk": False,
        },
    }
    return Event(event=EventName.NODE, at=at, ticket="", kind="", node=node, data=data)

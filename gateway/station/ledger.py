"""Journal events into rows: runs, refusals, and where tickets stand.

Owns the tables `runs`, `refusals`, `refusal_facts` and `refusal_counts`. Storing an event twice changes nothing, and
order of arrival never matters.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.history import RunRecord
from gateway.contract.journal import Event, EventName, Verdict
from gateway.contract.outcomes import CHARGED, Outcome, Stamp
from gateway.contract.rules import Rule
from gateway.station import fleet, grouping, passes, standings
from gateway.station.standings import Report, insert
from gateway.station.storable import document, parsed, storable
from gateway.station.tables.refusals import refusal_counts, refusal_facts, refusals
from gateway.station.tables.tickets import runs


class Trust(IntEnum):
    """Whose word counts when two reports tell of the end of the same start."""

    HISTORY = 1
    """What travelled on the item: true, but without details."""
    CLAIMED = 2
    """Inferred by whoever got the redelivery."""
    WITNESSED = 3
    """The node that ran it saw it end."""


async def post(transaction: AsyncConnection, events: Iterable[Event]) -> None:
    """Store a batch of events; raises ValueError or KeyError when one of them is not what the journal promises."""
    reports, ended, refused, facts, of_nodes = [], [], [], [], []
    quarantined: list[tuple[str, int]] = []
    admitted_anyway: dict[str, str] = {}
    for event in events:
        match event.event:
            case EventName.FINISHED | EventName.CLAIMED | EventName.RELEASED:
                ended.append(_run(event))
                if event.data.get("verdict") == Verdict.QUARANTINE:
                    quarantined.append((str(storable(event.ticket)), event.stamp.generation))
            case EventName.REFUSED:
                refused.append(_refusal(event))
                if event.data.get("facts"):
                    facts.append({"refusal": storable(event.id), "facts": document(event.data["facts"])})
            case EventName.ACCEPTED if event.data.get("pass"):
                admitted_anyway[str(event.data["pass"])] = event.ticket
            case EventName.BREAKER | EventName.STORM | EventName.LEAK | EventName.NODE:
                of_nodes.append(event)
            case _:
                pass
        report = _report(event)
        if report is not None:
            reports.append(report)
    await standings.merge(transaction, reports)
    await _record(transaction, ended)
    await grouping.group(transaction, quarantined)
    await fleet.post(transaction, of_nodes, time.time())
    await _refuse(transaction, refused)
    if facts:
        statement = insert(transaction.dialect.name, refusal_facts).on_conflict_do_nothing()
        await transaction.execute(statement, facts)
    if admitted_anyway:
        await passes.use(transaction, admitted_anyway, time.time())


async def _refuse(transaction: AsyncConnection, rows: Sequence[dict[str, Any]]) -> None:
    """Store refusals and count them by rule, each once."""
    rows = list({row["id"]: row for row in rows}.values())
    if not rows:
        return
    asked = sa.select(refusals.c.id).where(refusals.c.id.in_([row["id"] for row in rows]))
    known = set((await transaction.scalars(asked)).all())
    new = [row for row in rows if row["id"] not in known]
    if not new:
        return
    await transaction.execute(sa.insert(refusals), new)
    counted = Counter((rule, int(row["at"] // 60) * 60) for row in new for rule in _rules(row["violations"]))
    statement = insert(transaction.dialect.name, refusal_counts)
    raised = {"number": refusal_counts.c.number + statement.excluded.number}
    statement = statement.on_conflict_do_update(index_elements=["rule", "minute"], set_=raised)
    numbers = [{"rule": rule, "minute": minute, "number": number} for (rule, minute), number in counted.items()]
    if numbers:
        await transaction.execute(statement, numbers)


def _rules(violations: str) -> set[str]:
    """Return the rules that a refusal names, as far as this version knows them: names make rows and labels."""
    named = {str(one.get("rule")) for one in parsed(violations) if isinstance(one, dict)}
    return named & set(Rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """The runs that an item brought along."""

    ticket: str
    kind: str
    runs: Mapping[Stamp, RunRecord]


async def post_history(transaction: AsyncConnection, brought: Iterable[Brought], at: float) -> None:
    """Store the runs that items brought along, for those whose journal never arrived."""
    rows = [
        {
            **_key(item.ticket, stamp),
            "trust": Trust.HISTORY,
            "kind": storable(item.kind),
            "outcome": record.outcome.value,
            "verdict": None,
            "node": storable(record.node),
            "worker": record.worker or None,
            "lane": None,
            "started_at": record.started or None,
            "seconds": record.seconds,
            "delay": None,
            "evidence": document({"code": record.code} if record.code else {}),
            "event_id": None,
            "reported_at": at,
        }
        for item in brought
        for stamp, record in item.runs.items()
    ]
    await _record(transaction, rows)


async def _record(transaction: AsyncConnection, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    rows = sorted(rows, key=lambda row: tuple(row[name] for name in _KEY))  # in one order, or two batches may deadlock
    await transaction.execute(_recording(transaction.dialect.name), rows)


@cache
def _recording(dialect: str) -> sa.Executable:
    statement = insert(dialect, runs)
    new = statement.excluded
    taken = {column.name: new[column.name] for column in runs.c if column.name not in _KEY}
    # Two reports may be trusted alike, such as those of two nodes that closed the same redelivery: order of arrival
    # must not decide between them.
    ours = sa.tuple_(runs.c.trust, runs.c.reported_at, sa.func.coalesce(runs.c.event_id, ""))
    theirs = sa.tuple_(new.trust, new.reported_at, sa.func.coalesce(new.event_id, ""))
    recording: sa.Executable = statement.on_conflict_do_update(
        index_elements=list(_KEY), set_=taken, where=ours < theirs
    )
    return recording


_KEY = ("ticket", "generation", "attempt", "interruptions")


def _key(ticket: str, stamp: Stamp) -> dict[str, Any]:
    return {
        "ticket": storable(ticket),
        "generation": stamp.generation,
        "attempt": stamp.attempt,
        "interruptions": stamp.interruptions,
    }


def _run(event: Event) -> dict[str, Any]:
    data = event.data
    evidence = data.get("evidence")
    shown = dict(evidence) if isinstance(evidence, Mapping) else {}
    for name in ("code", "detail", "suspicion"):
        if data.get(name):
            shown.setdefault(name, data[name])
    return {
        **_key(event.ticket, event.stamp),
        "trust": Trust.CLAIMED if event.event is EventName.CLAIMED else Trust.WITNESSED,
        "kind": storable(event.kind),
        "outcome": Outcome(data["outcome"]).value,
        "verdict": _text(data.get("verdict")),
        "node": storable(str(data.get("holder") or event.node)),  # of a reclaimed start: whoever held it
        "worker": _whole(data.get("worker")),
        "lane": _text(data.get("lane")),
        "started_at": _number(data.get("started_at")),
        "seconds": _number(data.get("seconds")),
        "delay": _number(data.get("delay")),
        "evidence": document(shown),
        "event_id": storable(event.id),
        "reported_at": event.at,
    }


def _refusal(event: Event) -> dict[str, Any]:
    data = event.data
    return {
        "id": storable(event.id),
        "at": event.at,
        "ticket": storable(event.ticket),
        "kind": storable(event.kind),
        "node": storable(event.node),
        "client": _text(data.get("client")),
        "bytes": _whole(data.get("bytes")),
        "digest": _text(data.get("digest")),
        "violations": document(data.get("violations", [])),
        "sample": _text(data.get("sample")),
    }


def _report(event: Event) -> Report | None:
    standing = event.standing
    if standing is None:
        return None
    reason = event.data.get("reason")
    return Report(
        ticket=event.ticket,
        kind=event.kind,
        standing=standing,
        attempts=_attempts(event),
        excusable=event.event is EventName.STARTED,
        at=event.at,
        client=_text(event.data.get("client")),
        detail=_text(reason),
        bytes=_whole(event.data.get("bytes")) if event.event is EventName.ACCEPTED else None,
        charset=_text(event.data.get("charset")) if event.event is EventName.ACCEPTED else None,
    )


def _attempts(event: Event) -> int:
    """Count the charged starts up to this event; a running one counts, since it will be charged unless excused.

    One that is examined first counts once it has ended: its handler may never start.
    """
    match event.event:
        case EventName.STARTED:
            counts = event.data.get("examine") is not True
        case EventName.FINISHED | EventName.CLAIMED | EventName.RELEASED:
            outcome = Outcome(event.data["outcome"])
            counts = outcome in CHARGED or outcome is Outcome.SUCCEEDED
        case _:
            counts = False
    return event.stamp.attempt - (0 if counts else 1)


def _text(value: object) -> str | None:
    return None if value is None else storable(str(value))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

"""What door and nodes refused: listed, grouped, and judged under other limits; questions only.

Owns the queries over `refusals`. Reads page by page, so that a flood of refusals is no flood of memory.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gateway.station import what_if
from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.tables.refusals import refusal_facts, refusals
from gateway.station.what_if import Fate, Supposition

MAX_LISTED: Final = 500
GROUPINGS: Final = ("rule", "client", "kind", "node")
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which refusals are meant; None is any. Times in Unix seconds."""

    kind: str | None = None
    client: str | None = None
    rule: str | None = None
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One request that door or consumer said no to."""

    at: float
    ticket: str
    """The request's id where the door refused it; the ticket's where a node did."""
    kind: str
    node: str
    client: str | None
    bytes: int | None
    digest: str | None
    violations: list[Any]
    sample: str | None
    facts: dict[str, Any] | None

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules it broke, each once."""
        named = (str(one.get("rule", "?")) if isinstance(one, dict) else str(one) for one in self.violations)
        return tuple(dict.fromkeys(named))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Refusals that have something in common."""

    by: dict[str, str | None]
    refusals: int
    """A refusal with several rules is in several groups of rules, and once in each."""
    first_at: float
    last_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """How many of the refusals of a kind and a client would have passed."""

    kind: str
    client: str | None
    passes: int
    refused: int
    unknown: int
    missing: dict[str, int]
    """Of the unknown ones: the fact that is not on record, and how many lack it."""


async def find(store: Store, selection: Selection) -> tuple[list[Refusal], int]:
    """Return the newest `MAX_LISTED` refusals, and how many there are."""
    counting = sa.select(sa.func.count()).select_from(refusals).where(*_where(selection))
    async with store.reading() as transaction:
        number = await transaction.scalar(counting)
        rows = (await transaction.execute(_query(selection).limit(MAX_LISTED))).all()
    return [_refusal(row) for row in rows], number or 0


async def group(store: Store, selection: Selection, by: Sequence[str]) -> list[Group]:
    """Return the refusals in groups of `by` (some of GROUPINGS), the largest first."""
    found: dict[tuple[str | None, ...], list[float]] = {}
    async for refusal in each(store, selection):
        for rule in refusal.rules if "rule" in by else ("",):
            if selection.rule is None or "rule" not in by or rule == selection.rule:
                key = tuple(rule if name == "rule" else getattr(refusal, name) for name in by)
                moments = found.setdefault(key, [0, refusal.at, refusal.at])
                moments[:] = [moments[0] + 1, min(moments[1], refusal.at), max(moments[2], refusal.at)]
    groups = [
        Group(by=dict(zip(by, key, strict=True)), refusals=int(number), first_at=first, last_at=last)
        for key, (number, first, last) in found.items()
    ]
    return sorted(groups, key=lambda one: (-one.refusals, [str(value) for value in one.by.values()]))


async def outlook(store: Store, selection: Selection, supposition: Supposition) -> list[Outlook]:
    """Say by kind and client how many would have passed, most refusals first."""
    fates: dict[tuple[str, str | None], Counter[Fate]] = {}
    missing: dict[tuple[str, str | None], Counter[str]] = {}
    async for refusal in each(store, selection):
        found = what_if.judge(refusal.violations, refusal.bytes, refusal.facts, supposition)
        key = (refusal.kind, refusal.client)
        fates.setdefault(key, Counter())[found.fate] += 1
        if found.missing is not None:
            missing.setdefault(key, Counter())[found.missing] += 1
    return [
        Outlook(
            kind=kind,
            client=client,
            passes=counted[Fate.PASSES],
            refused=counted[Fate.REFUSED],
            unknown=counted[Fate.UNKNOWN],
            missing=dict(missing.get((kind, client), {})),
        )
        for (kind, client), counted in sorted(fates.items(), key=lambda one: (-one[1].total(), str(one[0])))
    ]


async def each(store: Store, selection: Selection) -> AsyncIterator[Refusal]:
    """Yield every refusal that is meant, newest first."""
    last: Any = None
    while True:
        query = _query(selection).limit(_PAGE)
        if last is not None:
            query = query.where(sa.tuple_(refusals.c.at, refusals.c.id) < sa.tuple_(last.at, last.id))
        async with store.reading() as transaction:
            rows = (await transaction.execute(query)).all()
        for row in rows:
            yield _refusal(row)
        if len(rows) < _PAGE:
            return
        last = rows[-1]


def _query(selection: Selection) -> sa.Select[Any]:
    joined = refusals.outerjoin(refusal_facts, refusal_facts.c.refusal == refusals.c.id)
    query = sa.select(refusals, refusal_facts.c.facts).select_from(joined).where(*_where(selection))
    return query.order_by(refusals.c.at.desc(), refusals.c.id.desc())


def _where(selection: Selection) -> list[sa.ColumnElement[bool]]:
    found = [getattr(refusals.c, name) == value for name in ("kind", "client") if (value := getattr(selection, name))]
    if selection.since is not None:
        found.append(refusals.c.at >= selection.since)
    if selection.until is not None:
        found.append(refusals.c.at <= selection.until)
    if selection.rule is not None:
        # As `storable.document` writes it; within a text of that document its quotes would be escaped.
        found.append(refusals.c.violations.contains(f'"rule":"{selection.rule}"', autoescape=True))
    return found


def _refusal(row: Any) -> Refusal:
    return Refusal(
        at=row.at,
        ticket=row.ticket,
        kind=row.kind,
        node=row.node,
        client=row.client,
        bytes=row.bytes,
        digest=row.digest,
        violations=parsed(row.violations),
        sample=row.sample,
        facts=parsed(row.facts),
    )

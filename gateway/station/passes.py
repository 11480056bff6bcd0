"""Passes: a reviewer's word that one refused body comes in anyway, once, with who and why (G5).

Owns the table `passes`. A pass is for one body of one client and kind, and for a day; the door finds it, the journal
tells that it was used.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.ids import uuid7
from gateway.contract.rules import SOFT
from gateway.station import acts
from gateway.station.acts import Act
from gateway.station.storable import parsed, storable
from gateway.station.store import Store
from gateway.station.tables.refusals import passes, refusal_facts, refusals

LIFETIME: Final = 24 * 3600.0
"""Seconds."""
MAX_LIVE: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One that has not expired."""

    id: str
    """Also the id of the ticket that comes in with it, unless its client has chosen one."""
    fingerprint: str
    client: str
    kind: str
    by: str
    reason: str
    expires_at: float
    used_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The body may come in now."""

    granted: Pass


@dataclass(frozen=True, slots=True, kw_only=True)
class NotGiven:
    """It may not; `sentence` says why, and what would help."""

    sentence: str


async def give(store: Store, request: str, *, by: str, reason: str, now: float | None = None) -> Given | NotGiven:
    """Let the body that was refused as `request` come in when its client sends it again; audited."""
    now = time.time() if now is None else now
    async with store.writing() as transaction:
        found = await _refusal(transaction, request)
        if found is None:
            return NotGiven(sentence=f"no refusal of a request {request!r} is on record")
        facts = parsed(found.facts) or {}
        why_not = _impossible(found, facts)
        if why_not is not None:
            return NotGiven(sentence=why_not)
        granted = Pass(
            id=uuid7(),
            fingerprint=str(facts["fingerprint"]),
            client=found.client,
            kind=found.kind,
            by=str(storable(by)),
            reason=str(storable(reason)),
            expires_at=now + LIFETIME,
        )
        other = await _live(
            transaction, now, passes.c.fingerprint == granted.fingerprint, passes.c.client == granted.client
        )
        if other:
            return NotGiven(sentence=f"it has a pass already, given by {other[0].by}, because: {other[0].reason}")
        row = {name: getattr(granted, name) for name in ("id", "fingerprint", "client", "kind", "by", "reason")}
        await transaction.execute(
            sa.insert(passes).values(**row, refusal=found.id, given_at=now, expires_at=granted.expires_at)
        )
        await acts.note(transaction, ticket=found.ticket, by=by, act=Act.PASS_GIVEN, reason=reason, at=now)
        return Given(granted=granted)


async def live(store: Store, now: float) -> list[Pass]:
    """Return the passes that have not expired at `now` (Unix seconds): also used ones, which a client may not know."""
    async with store.reading() as transaction:
        return await _live(transaction, now)


async def use(transaction: AsyncConnection, used: Mapping[str, str], now: float) -> None:
    """Take down which passes (by id) let a ticket in, and tell so in the ticket's history; once, however often told."""
    for name, ticket in used.items():
        unused = sa.update(passes).where(passes.c.id == name, passes.c.used_at.is_(None))
        if (await transaction.execute(unused.values(used_at=now, ticket=storable(ticket)))).rowcount:
            row = (await transaction.execute(sa.select(passes).filter_by(id=name))).one()
            act = Act.PASS_USED
            await acts.note(transaction, ticket=ticket, by=row.by, act=act, reason=row.reason, at=row.given_at)


def _impossible(found: Any, facts: Mapping[str, Any]) -> str | None:
    rules = [str(violation.get("rule")) for violation in parsed(found.violations) if isinstance(violation, dict)]
    hard = sorted(set(rules) - {rule.value for rule in SOFT})
    if found.client is None:
        return f"ticket {found.ticket} was refused by a node and is in quarantine: decide there"
    if not rules or hard:
        named = ", ".join(hard) or "an unknown rule"
        return f"it breaks {named}, which is always enforced: no ticket could be read of it, or none that is safe"
    if not facts.get("fingerprint"):
        return "nothing is on record by which its body could be known again"
    return None


async def _refusal(transaction: AsyncConnection, request: str) -> Any:
    joined = refusals.outerjoin(refusal_facts, refusal_facts.c.refusal == refusals.c.id)
    query = sa.select(refusals, refusal_facts.c.facts).select_from(joined).where(refusals.c.ticket == request)
    # Locked, so that of two who let it in at once the second one sees the first one's pass.
    query = query.order_by(refusals.c.at.desc()).limit(1).with_for_update(of=refusals)
    return (await transaction.execute(query)).one_or_none()


async def _live(transaction: AsyncConnection, now: float, *which: sa.ColumnElement[bool]) -> list[Pass]:
    query = sa.select(passes).where(passes.c.expires_at > now, *which).order_by(passes.c.given_at.desc())
    rows: Sequence[Any] = (await transaction.execute(query.limit(MAX_LIVE))).all()
    return [
        Pass(
            id=row.id,
            fingerprint=row.fingerprint,
            client=row.client,
            kind=row.kind,
            by=row.by,
            reason=row.reason,
            expires_at=row.expires_at,
            used_at=row.used_at,
        )
        for row in rows
    ]

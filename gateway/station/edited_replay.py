"""An edit and replay from its first look to the publish: what is held, what is changed, what the door would say.

Owns the order: the edit is applied to the item that the reviewer saw, the door's checks are run over it, and only what
passes them is begun as a replay. The item keeps its own body.
"""

from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gateway.contract.topology import Lane
from gateway.preflight.ticket import Submission
from gateway.station import item_rows
from gateway.station.checks import Checks, Fails, plain
from gateway.station.decided import Bar, Barred, Taken, Unknown
from gateway.station.edits import Edit, NotEditable, apply, difference
from gateway.station.holding import ItemState
from gateway.station.replays import Plan
from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.successor import Change
from gateway.station.tables.items import items


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The door would not let the edited body in; every reason that the first failing stage has."""

    generation: int
    fails: Fails
    difference: str


async def prepare(
    store: Store,
    checks: Checks,
    ticket: str,
    edit: Edit,
    *,
    lane: Lane,
    generation: int | None,
    limit: int,
) -> Plan | Refused | Barred | Taken | Unknown:
    """Return the plan of a replay with an edit in it; changes nothing. Raises VocabularyError."""
    query = sa.select(items).filter_by(ticket=ticket).order_by(items.c.generation.desc()).limit(1)
    async with store.reading() as transaction:
        row = (await transaction.execute(query)).one_or_none()
        if row is None:
            return Unknown(ticket=ticket)
        if row.state != ItemState.HELD or generation not in (None, row.generation):
            return await item_rows.gone(transaction, row, generation)
    before = plain(bytes(row.body), row.content_encoding)
    if before is None and edit.body is None:
        return Barred(bar=Bar.NOT_EDITABLE, why="its content encoding cannot be undone: give a whole body")
    try:
        edited = apply(before or b"", row.content_type, edit)
    except NotEditable as error:
        return Barred(bar=Bar.NOT_EDITABLE, why=str(error))
    measured = _measured(row)
    changed = difference(before or b"", edited, was=row.content_type, charset=measured.get("charset") or None)
    # What lies in the depot is still referred to: the edit leaves the references where they are.
    folder = str(measured.get("stored") or "")
    submission = Submission(body=edited.body, content_type=edited.content_type, kind=row.kind, folder=folder)
    found = await checks.check(submission, client=str(measured.get("client") or ""))
    if isinstance(found, Fails):
        return Refused(generation=row.generation, fails=found, difference=changed)
    # To the fence it stays the ticket that it was: a late copy of an earlier generation is a copy, not another ticket.
    found = replace(found, contents=str(measured.get("contents") or row.digest))
    change = Change(body=edited.body, content_type=edited.content_type, admission=found, difference=changed)
    return Plan(lane=lane, change=change, generation=row.generation, limit=limit)


def _measured(row: Any) -> dict[str, Any]:
    found: dict[str, Any] = parsed(row.admission) or {}
    return found

"""A row that is owed as the alert that goes out: worded when it is sent, with the evidence that is known by then.

Owns what is told of each event, and the key by which others recognize what it is about. Sends nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import cases, escalations, wording
from gateway.station.cases import Case
from gateway.station.channels import Notice
from gateway.station.escalations import ESCALATION
from gateway.station.holding import AlertEvent, ItemState
from gateway.station.owed import Owed, is_undone
from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.surge import LASTS_FOR
from gateway.station.tables.items import items

_DAY: Final = 86_400.0
_SURGE: Final = 300.0
"""Of a row from before surges said how long their window is."""
_WAITING: Final = frozenset({ItemState.HELD, ItemState.REPLAYING})


def item_key(ticket: str, generation: int) -> str:
    """Return what stands for one item everywhere."""
    return f"lazaretto:{ticket}:{generation}"


def storm_key(build: str, since: float) -> str:
    """Return what stands for one storm, from its beginning (Unix seconds) to its end."""
    return f"lazaretto:storm:{build}:{since:.3f}"


async def worded(store: Store, owed: Sequence[Owed], channel: str, desk: str) -> list[Notice | str | Exception]:
    """Return of each its alert for a channel, or why there is nothing to be told any more, or why it has no words."""
    keys = {(one.row.ticket, one.row.generation) for one in owed if one.is_of_an_item}
    async with store.reading() as transaction:
        known = await cases.find(transaction, keys)
        needless = {
            one.id: await _needless(transaction, one, channel, case.item.state)
            for one in owed
            if one.is_of_an_item and one.is_known and (case := known.get((one.row.ticket, one.row.generation)))
        }
        opening = [one for one in owed if channel == ESCALATION and one.row.event == AlertEvent.QUARANTINED.value]
        reopens = {
            one.id for one in opening if await escalations.was_closed(transaction, one.row.ticket, one.row.generation)
        }
    return [needless.get(one.id) or _worded(one, known, desk, reopens=one.id in reopens) for one in owed]


def _worded(owed: Owed, known: Mapping[tuple[str, int], Case], desk: str, *, reopens: bool) -> Notice | Exception:
    row = owed.row
    try:
        if not owed.is_of_an_item:
            return of_no_item(row, desk)
        case = known.get((row.ticket, row.generation))
        if case is None:
            raise LookupError(f"an alert about {row.ticket}, generation {row.generation}, which is not held")
        return of_item(case, owed.event, desk, reopened_at=row.created_at if reopens else None)
    except Exception as error:  # noqa: BLE001 - whatever makes one alert go wrong, the others are told
        return error


async def is_needless(transaction: AsyncConnection, owed: Owed, channel: str) -> bool:
    """Tell whether there is still nothing to be told; nobody decides about the item until the transaction ends."""
    state = sa.select(items.c.state).filter_by(ticket=owed.row.ticket, generation=owed.row.generation)
    found = (await transaction.execute(state.with_for_update())).scalar_one()
    return await _needless(transaction, owed, channel, ItemState(found)) is not None


async def _needless(transaction: AsyncConnection, owed: Owed, channel: str, state: ItemState) -> str | None:
    is_waiting = state in _WAITING
    if is_undone(owed.event, state):
        return "not told: it waits for a decision again"
    if channel == ESCALATION and not is_waiting:
        # Nobody outside is asked to look at what is decided, nor told of the end of what he never heard of.
        known = await escalations.is_with_them(transaction, owed.row.ticket, owed.row.generation)
        if owed.event is AlertEvent.QUARANTINED or not known:
            return "not told: it was decided before"
    return None


def of_item(case: Case, about: AlertEvent, desk: str, *, reopened_at: float | None = None) -> Notice:
    """Word an alert about an item; `reopened_at` is when one was held again of which the end had been told."""
    item, last = case.item, case.last
    link = f"{desk}/items/{item.ticket}"
    key = item_key(item.ticket, item.generation)
    fields: dict[str, Any] = {
        "ticket": item.ticket,
        "kind": item.kind,
        "generation": item.generation,
        "attempts": item.attempts,
        "reason": item.reason,
    }
    if about is AlertEvent.QUARANTINED:
        fields["evidence"] = "never started" if last is None else wording.sentence(last)
        text = wording.quarantined(item, last, link)
        if reopened_at is not None:
            fields["reopened_at"] = reopened_at
            text = f"It is open again. {text}"
    else:
        fields |= {"decision": item.state.value, "by": item.decided_by, "because": item.decision_reason}
        text = wording.resolved(item, link)
    return Notice(
        event=about,
        key=key,
        title=wording.title(item),
        text=text,
        fields={**fields, "client": case.client, "dedup_key": key, "link": link},
        began_at=item.arrived_at,
        over_at=None if item.state in _WAITING else item.decided_at,
    )


def of_waiting(row: Any, desk: str) -> Notice:
    """Return again what was told of an item that waits, from its row and the `text` of its alert."""
    key = item_key(row.ticket, row.generation)
    fields = {name: getattr(row, name) for name in ("ticket", "kind", "generation", "attempts", "reason")}
    return Notice(
        event=AlertEvent.QUARANTINED,
        key=key,
        title=wording.quarantine_title(row.ticket, row.attempts),
        text=row.text or "",
        fields={**fields, "dedup_key": key, "link": f"{desk}/items/{row.ticket}"},
        began_at=row.arrived_at,
    )


def of_no_item(row: Any, desk: str) -> Notice:
    """Word an alert that is about no item in quarantine; raises ValueError for an event of a later version."""
    about = AlertEvent(row.event)
    fields = parsed(row.fields)
    over_at: float | None = None
    link = f"{desk}/"
    match about:
        case AlertEvent.SUSPECT:
            key, link = f"lazaretto:suspect:{row.subject}:{row.window:.0f}", f"{desk}/items/{row.subject}"
        case AlertEvent.REVIEW_OVERDUE:
            key, link = f"lazaretto:overdue:{row.subject}:{row.window:.0f}", str(fields["link"])
        case AlertEvent.STORM | AlertEvent.STORM_LIFTED:
            key = storm_key(row.subject, row.window)
            over_at = row.created_at if about is AlertEvent.STORM_LIFTED else None
        case _:
            key = f"lazaretto:{about.value}:{row.subject}:{row.window:.0f}"
            # A mismatch is told of once a day, and lasts until it is not.
            span = float(fields.get("span", _SURGE)) * LASTS_FOR if about is AlertEvent.REFUSALS_SURGED else _DAY
            over_at = row.window + span
    return Notice(
        event=about,
        key=key,
        title=row.title,
        text=row.text if row.text.endswith(link) else f"{row.text} {link}",
        fields={**fields, "dedup_key": key, "link": link},
        began_at=min(row.window, row.created_at) if about is not AlertEvent.SUSPECT else row.created_at,
        over_at=over_at,
    )

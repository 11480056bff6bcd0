"""What people should know before anything is in quarantine: a ticket's second dead worker, a build that kills them all.

Owns the rows of `notices` about suspects and storms, written in the transaction that stores the journal's events. What
is told of is told once, in whatever order and however often it is reported.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.journal import Event, EventName, Verdict
from gateway.contract.outcomes import CRASHES, Outcome
from gateway.station import wording
from gateway.station.channels import ExchangeChannel
from gateway.station.dossier import Run
from gateway.station.escalations import ESCALATION
from gateway.station.holding import AlertEvent
from gateway.station.standings import insert
from gateway.station.storable import document, storable
from gateway.station.tables.alerts import notices

_ENDED: Final = frozenset({EventName.FINISHED, EventName.CLAIMED, EventName.RELEASED})
_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """One thing to be told."""

    event: AlertEvent
    subject: str
    window: float
    title: str
    text: str
    fields: Mapping[str, Any]


def warnings(events: Iterable[Event]) -> list[Warned]:
    """Return what these events give cause to tell; pure. Raises nothing that depends on what they hold."""
    readers: dict[EventName, Callable[[Event], Warned | None]] = dict.fromkeys(_ENDED, _suspect)
    readers[EventName.STORM] = _storm
    found = [readers[event.event](event) for event in events if event.event in readers]
    return [warned for warned in found if warned is not None]


async def owe(transaction: AsyncConnection, events: Iterable[Event], channels: Sequence[str], now: float) -> None:
    """Put into the outbox what these events give cause to tell, for each of these channels."""
    rows = [
        {
            "event": warned.event.value,
            "subject": storable(warned.subject),
            "window": warned.window,
            "channel": channel,
            "title": storable(warned.title),
            "text": storable(warned.text),
            "fields": document(dict(warned.fields)),
            "created_at": now,
            "due_at": now,
            "tries": 0,
        }
        for warned in warnings(events)
        for channel in channels
        if channel not in _apart(warned.event)
    ]
    if rows:
        statement = insert(transaction.dialect.name, notices).on_conflict_do_nothing()
        await transaction.execute(statement, rows)


def _apart(about: AlertEvent) -> frozenset[str]:
    """Return the channels that do not get it: people outside have no build to mend, and nodes tell the exchange."""
    return frozenset({ESCALATION} if about is AlertEvent.SUSPECT else {ESCALATION, ExchangeChannel.name})


def _suspect(event: Event) -> Warned | None:
    data = event.data
    # `crashes` are those before this run. Of one that ends here, the alert about its quarantine tells.
    is_death = data.get("outcome") in CRASHES and data.get("verdict") == Verdict.RETRY
    if not is_death or event.crashes < 1:
        return None
    deaths = event.crashes + 1
    last = wording.sentence(_run(event))
    ticket, kind = wording.one_line(event.ticket), wording.one_line(event.kind)
    return Warned(
        event=AlertEvent.SUSPECT,
        subject=event.ticket,
        window=float(event.stamp.generation),
        title=f"Suspect: ticket {ticket} after {deaths} dead workers",
        text=f"Ticket {ticket} ({kind}) has killed {deaths} workers and will be tried again, alone. Last run: {last}.",
        fields={
            "ticket": event.ticket,
            "kind": event.kind,
            "generation": event.stamp.generation,
            "attempts": event.stamp.attempt,
            "deaths": deaths,
            "evidence": last,
        },
    )


def _run(event: Event) -> Run:
    data, stamp = event.data, event.stamp
    evidence = data.get("evidence")
    shown = dict(evidence) if isinstance(evidence, Mapping) else {}
    shown |= {name: data[name] for name in ("code", "detail") if data.get(name) and not shown.get(name)}
    seconds = data.get("seconds")
    return Run(
        generation=stamp.generation,
        attempt=stamp.attempt,
        interruptions=stamp.interruptions,
        outcome=Outcome(data["outcome"]).value,
        node=str(data.get("holder") or event.node),
        worker=None,
        lane=None,
        started_at=None,
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        evidence=shown,
    )


def _storm(event: Event) -> Warned | None:
    data = event.data
    since = data.get("since")
    if not isinstance(since, int | float):
        return None
    build, host = wording.one_line(str(data.get("build", ""))), wording.one_line(str(data.get("host", "")))
    given = data.get("items")
    items = [wording.one_line(str(item)) for item in given[:_MOST_NAMED]] if isinstance(given, list) else []
    why, named = wording.one_line(str(data.get("why", ""))), ", ".join(items)
    fields = {"build": build, "host": host, "items": items, "why": why, "state": str(data.get("state")), "since": since}
    match data.get("state"):
        case "tripped":
            last = f" Last death: {wording.one_line(str(data['evidence']))}." if data.get("evidence") else ""
            return Warned(
                event=AlertEvent.STORM,
                subject=build,
                window=float(since),
                title=f"Storm: the handler build {build} kills its workers",
                text=(
                    f"The handler build {build}, seen on {host}, kills its workers: {why}. Nothing of it is started or"
                    f" charged any more. Items: {named}.{last}"
                ),
                fields=fields,
            )
        case "lifted":
            return Warned(
                event=AlertEvent.STORM_LIFTED,
                subject=build,
                window=float(since),
                title=f"Storm over: the handler build {build}",
                text=f"The handler build {build} may run again ({why}). The items were: {named}.",
                fields=fields,
            )
        case _:
            return None

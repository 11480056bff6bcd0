"""Values for the templates: words, ages and badges; pure.

Owns how facts are put for a reader. Marks nothing as safe HTML: the templates escape everything.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.admission import AttachmentFacts
from gateway.preflight.attachments import Attachment
from gateway.station import roll_call, wording
from gateway.station.caseload import Load
from gateway.station.catalogue import Counted, Entry, Page
from gateway.station.desk.address import Address
from gateway.station.dossier import Dossier
from gateway.station.fleet import NodeState
from gateway.station.holding import ItemState
from gateway.station.rejections import Outlook, Refusal
from gateway.station.roll_call import Presence

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"))
_LATE: Final = 86400.0
"""Seconds after which what waits is shown as late."""
_MOST_HEADERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of the first page."""

    value: str
    label: str
    tone: str
    """`good`, `warn` or `bad`."""
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One page of a list, and the ways on from it."""

    entries: Sequence[Entry]
    count: str
    number: int
    newer: str | None
    """Query of the page before; None on the first."""
    older: str | None
    """Query of the page after; None on the last."""
    other_order: str
    everything: bool
    """Nothing but the state narrows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalView:
    """One refusal, with its violations as sentences."""

    refusal: Refusal
    rules: Sequence[str]
    told: Sequence[str]


def figures(
    counted: Counted, oldest: Entry | None, states: Sequence[NodeState], loads: Sequence[Load], now: float
) -> list[Figure]:
    """Return the first page's numbers, the most pressing first."""
    waited = 0.0 if oldest is None else now - oldest.mark.at
    overdue = sum(load.overdue for load in loads)
    asking = roll_call.pressing(states, now)
    storms = sum(state.event == "storm" for state in asking)
    breakers = {state.subject for state in asking if state.event == "breaker"}
    silent = sum(node.presence is Presence.SILENT for node in roll_call.nodes(states, now))
    return [
        Figure(
            value="none" if oldest is None else age(oldest.mark.at),
            label="oldest undecided",
            tone="good" if oldest is None else "bad" if waited > _LATE else "warn",
            link="/items",
        ),
        Figure(
            value=counted_words(counted),
            label="item waits" if counted.number == 1 else "items wait",
            tone="warn" if counted.number else "good",
            link="/items",
        ),
        Figure(
            value=number(overdue),
            label="past its deadline" if overdue == 1 else "past their deadline",
            tone="bad" if overdue else "good",
            link="/items?review=overdue",
        ),
        Figure(
            value=str(storms),
            label="storm guard tripped" if storms == 1 else "storm guards tripped",
            tone="bad" if storms else "good",
            link="/fleet",
        ),
        Figure(
            value=str(len(breakers)),
            label="dependency down" if len(breakers) == 1 else "dependencies down",
            tone="bad" if breakers else "good",
            link="/fleet",
        ),
        Figure(
            value=str(silent),
            label="node silent" if silent == 1 else "nodes silent",
            tone="bad" if silent else "good",
            link="/fleet",
        ),
    ]


def listing(found: Page, counted: Counted, asked: Address) -> Listing:
    """Return a page of a list."""
    entries = found.entries
    return Listing(
        entries=entries,
        count=counted_words(counted),
        number=counted.number,
        newer=asked.at(before=entries[0].mark) if found.before and entries else None,
        older=asked.at(after=entries[-1].mark) if found.after and entries else None,
        other_order=asked.ordered(newest_first=not asked.newest_first).query(),
        everything=not asked.narrowed,
    )


def counted_words(counted: Counted) -> str:
    """Write how many there are, as far as they were counted."""
    return number(counted.number) if counted.exact else f"more than {number(counted.number)}"


def refusal(one: Refusal) -> RefusalView:
    """Return one refusal for a list."""
    told = [str(violation.get("message") or "") for violation in one.violations if isinstance(violation, Mapping)]
    return RefusalView(refusal=one, rules=[words(rule) for rule in one.rules], told=[text for text in told if text])


def outlook(found: Sequence[Outlook]) -> dict[str, Any]:
    """Return what would have become of refusals, with the sums."""
    names = ("passes", "refused", "unknown")
    return {"rows": found, **{name: sum(getattr(one, name) for one in found) for name in names}}


def restorable(found: Dossier, window: float, now: float) -> float | None:
    """Return until when a reviewer may hold again what was discarded (Unix seconds); None when that cannot be."""
    newest = found.items[0] if found.items else None
    if newest is None or newest.state is not ItemState.DISCARDED or newest.removed_at is not None:
        return None
    until = (newest.decided_at or 0.0) + window
    return until if until > now else None


def headers(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return an item's headers in order, each as one text."""
    named = sorted(table.items())[:_MOST_HEADERS]
    return [(name, value if isinstance(value, str) else str(value)) for name, value in named]


def attached(attachments: Sequence[Attachment]) -> list[AttachmentFacts]:
    """What a page tells of attachments: names, types, sizes."""
    return [attachment.facts for attachment in attachments]


def age(moment: float | None) -> str:
    """Say how long ago `moment` (Unix seconds) was, in the largest fitting unit."""
    if moment is None or wording.clock(moment) == "unknown":
        return "unknown"
    seconds = max(0.0, time.time() - moment)
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """Write a number of bytes for people."""
    if count < 1 << 10:
        return "1 byte" if count == 1 else f"{count} bytes"
    return f"{count / (1 << 10):.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def number(count: int) -> str:
    """Write a count for people."""
    return f"{count:,}"


def words(code: str) -> str:
    """Write a reason or outcome code as words."""
    return code.replace("_", " ")

"""Many alerts as one message: how many, of what kinds, why, by name as far as there is room, where to look; pure.

Owns which alerts may be told together, and the words. Nothing is left out but names, and all of those are on the desk.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.contract.ids import uuid7
from gateway.station.channels import Notice
from gateway.station.holding import AlertEvent
from gateway.station.wording import one_line

ROLLED: Final = frozenset({AlertEvent.QUARANTINED, AlertEvent.RESOLVED, AlertEvent.SUSPECT, AlertEvent.REVIEW_OVERDUE})
"""Those of which there may be as many as there are tickets."""
MOST_NAMED: Final = 50
_MOST_CAUSES: Final = 10
_LONGEST_NAME: Final = 140
_HEADS: Final = {
    AlertEvent.QUARANTINED: "in quarantine",
    AlertEvent.REVIEW_OVERDUE: "overdue for review",
    AlertEvent.SUSPECT: "suspected, each has killed two workers",
    AlertEvent.RESOLVED: "out of quarantine",
}
"""In the order in which they are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """One alert among many."""

    event: AlertEvent
    ticket: str
    kind: str = ""
    reason: str = ""


def rolled_up(mentions: Sequence[Mention], desk: str, now: float) -> Notice:
    """Return one alert that tells of all of these; `desk` is the beginning of links, `now` in Unix seconds."""
    sentences, heads = [], []
    for about, head in _HEADS.items():
        concerned = [mention for mention in mentions if mention.event is about]
        if concerned:
            heads.append(f"{len(concerned)} {head}")
            sentences.append(f"{_tickets(len(concerned))} {head}: {_causes(concerned)}{_names(concerned)}.")
    counted = Counter(mention.event for mention in mentions)
    return Notice(
        event=next(about for about in _HEADS if about in counted),
        key=f"lazaretto:rollup:{uuid7()}",
        title=f"Many alerts at once: {', '.join(heads)}",
        text=" ".join([*sentences, f"All of them are on the desk: {desk}/"]),
        fields={
            "told": len(mentions),
            **{about.value: counted[about] for about in _HEADS if about in counted},
            "link": f"{desk}/",
        },
        began_at=now,
    )


def _tickets(number: int) -> str:
    return "1 ticket is" if number == 1 else f"{number} tickets are"


def _causes(mentions: Sequence[Mention]) -> str:
    counted = Counter((mention.kind, mention.reason) for mention in mentions if mention.reason)
    if not counted:
        return ""
    told = [f"{number} {one_line(kind)} ({one_line(reason)})" for (kind, reason), number in counted.most_common()]
    others = [f"{len(told) - _MOST_CAUSES} other causes"] if len(told) > _MOST_CAUSES else []
    return "; ".join([*told[:_MOST_CAUSES], *others]) + ": "


def _names(mentions: Sequence[Mention]) -> str:
    named = ", ".join(one_line(mention.ticket, _LONGEST_NAME) for mention in mentions[:MOST_NAMED])
    left = len(mentions) - MOST_NAMED
    return named + (f" and {left} more" if left > 0 else "")

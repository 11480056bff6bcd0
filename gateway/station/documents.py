"""Tickets and items as the JSON documents of the command line and the desk's API.

Owns the keys, which users rely on: add to them, do not rename. In the text of a document nothing acts on a terminal or
hides from its reader.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import orjson

from gateway.contract.journal import EventName
from gateway.station import roll_call
from gateway.station.dossier import Dossier, Item
from gateway.station.escalations import Escalation
from gateway.station.fleet import NodeState
from gateway.station.lineage import Descent
from gateway.station.operations import Operation
from gateway.station.pardons import Candidate
from gateway.station.progress import Line, Outcome
from gateway.station.tombstones import countdown

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def written(document: object, *, indent: bool = False) -> str:
    """Return JSON text; orjson leaves control characters beyond ASCII and marks of direction as they are."""
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2 if indent else 0).decode()
    return text if text.isascii() and "\x7f" not in text else "".join(map(_seen, text))


def _seen(character: str) -> str:
    if character == "\n" or unicodedata.category(character) not in _UNSEEN:
        return character  # a line's end stands between values only, in texts it is escaped already
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def shown(
    found: Dossier,
    link: str,
    keep: float,
    *,
    attached: Sequence[Mapping[str, Any]] = (),
    lineage: Sequence[Descent] = (),
) -> dict[str, Any]:
    """Return a ticket as `show --json` and the desk's API give it.

    `keep` is the retention in seconds, `attached` what its newest item brought along.
    """
    return {
        "ticket": found.ticket,
        "kind": found.kind,
        "state": found.state,
        "reason": found.reason,
        "generation": found.generation,
        "attempts": found.attempts,
        "client": found.client,
        "updated_at": found.updated_at,
        "link": link,
        "runs": [asdict(run) for run in found.runs],
        "alerts": [asdict(alert) for alert in found.alerts],
        "items": [{**asdict(item), "removal_at": countdown(found, item, keep)} for item in found.items],
        "attachments": [dict(one) for one in attached],
        "lineage": [asdict(descent) for descent in lineage],
        "audit": [asdict(act) for act in found.acts],
    }


def escalations_of(handed_over: Sequence[Escalation]) -> dict[str, Any]:
    """Return what was handed over to people outside, as a part of a ticket's document."""
    return {"escalations": [asdict(one) for one in handed_over]}


def listed(item: Item, link: str) -> dict[str, Any]:
    """Return an item as `list --json` and the desk's API give it."""
    return {**asdict(item), "link": link}


def of_operation(one: Operation, counted: Mapping[Outcome, int]) -> dict[str, Any]:
    """Return an operation as `operations --json` and the desk's API give it."""
    return {
        "id": one.id,
        "act": one.act.value,
        "state": one.state.value,
        "note": one.note,
        "lane": None if one.lane is None else one.lane.value,
        "code": one.code,
        "pace": one.pace,
        "canary": one.canary,
        "canary_passed_at": one.passed_at,
        "filter": one.chosen,
        "total": one.total,
        "counts": {outcome.value: number for outcome, number in counted.items()},
        "created_at": one.created_at,
        "created_by": one.created_by,
        "started_at": one.started_at,
        "started_by": one.started_by,
        "reason": one.reason,
        "ended_at": one.ended_at,
    }


def of_reset(
    found: Sequence[Candidate], marked: Sequence[Candidate] | None, failed: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what gets its attempts back as `reset --json` and the desk's API give it; `marked` None: only counted."""
    return {
        "found": len(found),
        "items": [asdict(candidate) for candidate in found],
        "reset": None if marked is None else [candidate.ticket for candidate in marked],
        "failed": list(failed),
    }


def of_fleet(states: Sequence[NodeState], now: float) -> dict[str, Any]:
    """Return what nodes said of themselves as `fleet --json` and the desk's API give it."""
    found = [{**asdict(node), "slots": node.slots} for node in roll_call.nodes(states, now)]
    said = [asdict(state) for state in states if state.event != EventName.NODE.value]
    return {"nodes": found, "states": said}


def of_line(line: Line) -> dict[str, Any]:
    """Return one item of an operation."""
    return asdict(line)

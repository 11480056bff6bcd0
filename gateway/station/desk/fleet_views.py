"""How nodes are put for a reader: one line for each, and one for each thing that they said; pure.

Owns these words and their tones. Marks nothing as safe HTML: the templates escape everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.contract.journal import Condition
from gateway.station import roll_call
from gateway.station.desk import views
from gateway.station.fleet import NodeState
from gateway.station.roll_call import Node, Presence

_ORDER: Final = ("storm", "breaker")
_CALM: Final = frozenset({"closed", "lifted", "watching"})
_OF_ITSELF: Final = "node"
_TONES: Final = {Condition.READY.value: "good", Condition.IDLE.value: "", Condition.DRAINING.value: "warn"}
_PRESENCES: Final = {Presence.SILENT: ("silent", "bad"), Presence.ENDED: ("ended", "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node."""

    node: Node
    badge: str
    tone: str
    why: str
    """What keeps it from taking anything; empty when nothing does, or nobody knows."""
    slots: Sequence[str]
    memory: Sequence[str]
    recycling: Sequence[str]
    """Each the most important first; nothing where it was not told, or is no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidView:
    """One line about what a node said of something."""

    state: NodeState
    subject: str
    tone: str
    why: str
    holds: bool
    """The node that said it is there still."""


def nodes(states: Sequence[NodeState], now: float) -> list[NodeView]:
    """Return the nodes, those that are missing first."""
    return [_view(node) for node in roll_call.nodes(states, now)]


def said(states: Sequence[NodeState], now: float) -> list[tuple[str, list[SaidView]]]:
    """Return what nodes said, by what it is about: storms, breakers, the rest; what is wrong first."""
    alive = roll_call.lives(states, now)
    grouped: dict[str, list[SaidView]] = {}
    for state in states:
        if state.event != _OF_ITSELF:
            grouped.setdefault(state.event, []).append(_said(state, roll_call.holds(state, alive)))
    named = [event for event in _ORDER if event in grouped] + sorted(set(grouped) - set(_ORDER))
    return [(event, sorted(grouped[event], key=lambda view: view.tone != "warn")) for event in named]


def _said(state: NodeState, holds: bool) -> SaidView:  # noqa: FBT001 - a row's column
    return SaidView(
        state=state,
        subject=state.subject or str(state.data.get("build") or state.event),
        tone="good" if state.state in _CALM else "warn" if holds else "",
        why=str(state.data.get("why") or ""),
        holds=holds,
    )


def _view(node: Node) -> NodeView:
    badge, tone = _PRESENCES.get(node.presence, (node.state, _TONES.get(node.state, "bad")))
    is_there = node.presence is Presence.PRESENT
    return NodeView(
        node=node,
        badge=badge,
        tone=tone,
        why=", ".join(views.words(one) for one in node.obstacles) if is_there else "",
        slots=_slots(node),
        memory=_memory(node),
        recycling=_recycling(node),
    )


def _slots(node: Node) -> list[str]:
    if node.slots is None or node.presence is Presence.ENDED:
        return []
    if node.slots == 0:
        return ["none"]
    away = [f"{node.away} without a worker"] if node.away else []
    return [f"{node.busy or 0} of {node.slots} busy", *away]


def _memory(node: Node) -> list[str]:
    if node.worker_bytes is None or node.presence is Presence.ENDED:
        return []
    limit = f" of {views.size(node.memory_limit)}" if node.memory_limit else ""
    mold = [f"mold {views.size(node.mold_bytes)}"] if node.mold_bytes else []
    largest = f"largest {views.size(node.largest_worker_bytes or 0)}{limit}"
    return [f"{views.size(node.worker_bytes)} in workers", largest, *mold]


def _recycling(node: Node) -> list[str]:
    if node.recycled is None:
        return []
    parts = [f"{views.number(node.recycled)} recycled, {views.number(node.died or 0)} died"]
    if node.recycling:
        parts.append(f"{node.recycling} changing now")
    if node.growth is not None and node.growth >= 1:
        parts.append(f"grows {views.size(round(node.growth))} a run")
    if node.suggested_runs:
        set_to = f", set to {views.number(node.recycle_runs)}" if node.recycle_runs else ""
        parts.append(f"suggested limit {views.number(node.suggested_runs)} runs{set_to}")
    if node.shrunk:
        parts.append("half as many runs as a day ago")
    return parts

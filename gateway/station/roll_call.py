"""Which nodes are there, and what of all that nodes said still holds; pure.

Owns when a node counts as silent: after three of the periods that it has promised, on the station's clock. What a node
said of itself is read here, and believed only in what it is: numbers and short texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gateway.contract.journal import Condition, EventName
from gateway.contract.text import clip
from gateway.station.fleet import FORGOTTEN_AFTER, NodeState

_PERIODS: Final = 3
_USUAL_PERIOD: Final = 30.0
_LONGEST_PERIOD: Final = 3600.0
ENDED_SHOWN: Final = 3600.0
"""Seconds for which a node that has said goodbye is still shown."""
_MOST_WORDS: Final = 200
_CALM: Final = frozenset({"closed", "lifted"})
_ASKING: Final = frozenset({EventName.STORM.value, EventName.BREAKER.value})


class Presence(StrEnum):
    """Whether a node is there."""

    PRESENT = "present"
    SILENT = "silent"
    """It has said nothing for three of its periods, and no goodbye."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker of a node."""

    pid: int | None
    phase: str
    runs: int | None
    resident: int | None
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What one node last said of itself in one lane; None for what it did not say."""

    node: str
    lane: str
    presence: Presence
    state: str
    """A `Condition`, as it said it itself."""
    obstacles: Sequence[str]
    heard_at: float
    """Unix seconds, on the station's clock."""
    said_at: float
    """The same word, on the node's clock."""
    started_at: float | None
    """On the node's clock."""
    build: str
    version: str
    host: str
    pid: int | None
    busy: int | None
    free: int | None
    away: int | None
    """Slots whose worker is not there."""
    waiting: int | None
    """Messages that are ready in its lane."""
    workers: Sequence[Worker]
    """A node names 64 at most."""
    mold_bytes: int | None
    worker_bytes: int | None
    """Of all its workers."""
    largest_worker_bytes: int | None
    memory_limit: int | None
    """Bytes of one worker."""
    recycled: int | None
    """Healthy workers that it has replaced since its start."""
    died: int | None
    """Workers that ended in the middle of something, since its start."""
    recycling: int | None
    """Workers beyond its slots, coming or leaving."""
    growth: float | None
    """Bytes of private memory per run."""
    suggested_runs: int | None
    recycle_runs: int | None
    """Runs after which it replaces a worker; 0: never."""
    shrunk: bool
    """It recycles after half as many runs as within the last day."""

    @property
    def slots(self) -> int | None:
        """How many runs it can have at once."""
        parts = (self.busy, self.free, self.away)
        return sum(part or 0 for part in parts) if any(part is not None for part in parts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSight:
    """What is known of one lane by its nodes."""

    lane: str
    nodes: int
    """Those that are there."""
    busy: int
    slots: int
    waiting: int | None
    """Messages that are ready in it, as the node says that was heard last; None where none has said."""
    looked_at: float | None
    """When that was (Unix seconds)."""


def nodes(states: Sequence[NodeState], now: float) -> list[Node]:
    """Return the nodes that are worth a look: those that are missing first, then by name and lane."""
    found = [_node(state, now) for state in states if state.event == EventName.NODE.value]
    shown = [node for node in found if now - node.heard_at <= _remembered(node.presence)]
    order = (Presence.SILENT, Presence.PRESENT, Presence.ENDED)
    return sorted(shown, key=lambda node: (order.index(node.presence), node.node, node.lane))


def lanes(found: Sequence[Node]) -> list[LaneSight]:
    """Return how each lane is served by the nodes that are there; a lane that had nodes and has none is told, too."""
    sights = []
    for lane in sorted({node.lane for node in found}, reverse=True):  # work first
        present = [node for node in found if node.lane == lane and node.presence is Presence.PRESENT]
        told = [(node.heard_at, node.waiting) for node in found if node.lane == lane and node.waiting is not None]
        sights.append(
            LaneSight(
                lane=lane,
                nodes=len(present),
                busy=sum(node.busy or 0 for node in present),
                slots=sum(node.slots or 0 for node in present),
                waiting=max(told)[1] if told else None,
                looked_at=max(told)[0] if told else None,
            )
        )
    return sights


def sentence(node: Node, now: float) -> str:
    """Say how a node is, in a line."""
    how = node.state if node.presence is Presence.PRESENT else node.presence.value
    why = f" ({', '.join(node.obstacles)})" if node.presence is Presence.PRESENT and node.obstacles else ""
    slots = f"{node.busy or 0} of {node.slots} slots busy" if node.slots is not None else "slots not told"
    memory = f", {node.worker_bytes >> 20} MiB in workers" if node.worker_bytes is not None else ""
    turnover = f", {node.recycled or 0} recycled, {node.died or 0} died" if node.recycled is not None else ""
    waiting = f", {node.waiting} waiting in its lane" if node.waiting is not None else ""
    heard = f", heard {now - node.heard_at:.0f} s ago"
    return f"{node.node}  {node.lane}  {how}{why}  {slots}{waiting}{memory}{turnover}{heard}"


def pressing(states: Sequence[NodeState], now: float) -> list[NodeState]:
    """Return what nodes said that asks for somebody: breakers that are not closed, storms that are not lifted.

    Not what was said in a life that is over (`lives`), nor a storm that another node has lifted.
    """
    alive = lives(states, now)
    lifted = {_storm(state) for state in states if state.state == "lifted"} - {None}
    asking = [state for state in states if state.event in _ASKING and state.state not in _CALM]
    return [state for state in asking if holds(state, alive) and _storm(state) not in lifted]


def lives(states: Sequence[NodeState], now: float) -> dict[str, float | None]:
    """Return since when each node that tells of itself has been there, on its own clock; None: it is gone.

    Of one that tells of two lanes: since when it has been there in any, since what it said names none of them.
    """
    found: dict[str, float | None] = {}
    for node in (_node(state, now) for state in states if state.event == EventName.NODE.value):
        found.setdefault(node.node, None)
        if node.presence is Presence.PRESENT:
            since, known = node.started_at or 0.0, found[node.node]
            found[node.node] = since if known is None else min(since, known)
    return found


def holds(state: NodeState, alive: Mapping[str, float | None]) -> bool:
    """Tell whether what a node said was said in a life that is not over; of nodes that tell no life, everything."""
    if state.node not in alive:
        return True
    since = alive[state.node]
    return since is not None and state.at >= since


def _storm(state: NodeState) -> tuple[str, str] | None:
    if state.event != EventName.STORM.value or "since" not in state.data:
        return None
    return str(state.data.get("build")), str(state.data["since"])


def _remembered(presence: Presence) -> float:
    return ENDED_SHOWN if presence is Presence.ENDED else FORGOTTEN_AFTER


def _presence(state: NodeState, heard_at: float, now: float) -> Presence:
    if state.state == Condition.ENDED.value:
        return Presence.ENDED
    every = min(max(_figure(state.data.get("every")) or _USUAL_PERIOD, 1.0), _LONGEST_PERIOD)
    return Presence.SILENT if now - heard_at > _PERIODS * every else Presence.PRESENT


def _node(state: NodeState, now: float) -> Node:
    data = state.data
    slots, memory, limits = (_table(data.get(name)) for name in ("slots", "memory", "limits"))
    recycling = _table(data.get("recycling"))
    heard_at = state.at if state.heard_at is None else state.heard_at
    given = data.get("workers")
    return Node(
        node=state.node,
        lane=state.subject,
        presence=_presence(state, heard_at, now),
        state=state.state,
        obstacles=[_text(one) for one in _list(data.get("obstacles"))],
        heard_at=heard_at,
        said_at=state.at,
        started_at=_figure(data.get("started_at")),
        build=_text(data.get("build")),
        version=_text(data.get("version")),
        host=_text(data.get("host")),
        pid=_count(data.get("pid")),
        busy=_count(slots.get("busy")),
        free=_count(slots.get("free")),
        away=_count(slots.get("away")),
        waiting=_count(data.get("waiting")),
        workers=[_worker(one) for one in _list(given) if isinstance(one, Mapping)],
        mold_bytes=_count(memory.get("mold")),
        worker_bytes=_count(memory.get("workers")),
        largest_worker_bytes=_count(memory.get("largest_worker")),
        memory_limit=_count(limits.get("memory")),
        recycled=_count(recycling.get("recycled")),
        died=_count(recycling.get("died")),
        recycling=_count(recycling.get("in_progress")),
        growth=_figure(recycling.get("growth")),
        suggested_runs=_count(recycling.get("suggested_runs")),
        recycle_runs=_count(limits.get("recycle_runs")),
        shrunk=recycling.get("shrunk") is True,
    )


def _worker(one: Mapping[str, Any]) -> Worker:
    return Worker(
        pid=_count(one.get("pid")),
        phase=_text(one.get("phase")),
        runs=_count(one.get("runs")),
        resident=_count(one.get("resident")),
    )


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _text(value: object) -> str:
    return "" if value is None else clip(str(value), _MOST_WORDS)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _figure(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

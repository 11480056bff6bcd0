"""Values for the templates: words, ages and badges; pure.

Owns how facts are put for a reader. Marks nothing as safe HTML: the templates escape everything.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.admission import AttachmentFacts
from gateway.contract.outcomes import CRASHES, Outcome
from gateway.preflight.attachments import Attachment
from gateway.station import wording
from gateway.station.dossier import Dossier, Run
from gateway.station.fleet import NodeState

_LONG: Final = ("log_tail", "stack", "traceback")
_CALM_STATES: Final = frozenset({"closed", "lifted", "watching"})
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run on the timeline."""

    run: Run
    tone: str
    sentence: str
    facts: Sequence[tuple[str, str]]
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One line about what a node last said of itself."""

    state: NodeState
    subject: str
    tone: str
    why: str


def node_view(state: NodeState) -> NodeView:
    """Return the line for one node and subject."""
    return NodeView(
        state=state,
        subject=f"{state.event} {state.subject}".strip(),
        tone="good" if state.state in _CALM_STATES else "warn",
        why=str(state.data.get("why") or ""),
    )


def run_views(found: Dossier, generation: int) -> list[RunView]:
    """Return the timeline of one generation."""
    return [_run_view(run) for run in found.runs if run.generation == generation]


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


def words(code: str) -> str:
    """Write a reason or outcome code as words."""
    return code.replace("_", " ")


def _run_view(run: Run) -> RunView:
    plain = {name: value for name, value in run.evidence.items() if name not in _LONG and value not in (None, "", [])}
    return RunView(
        run=run,
        tone=_tone(run.outcome),
        sentence=wording.sentence(run),
        facts=[(words(name), _plain(name, value)) for name, value in plain.items()],
        texts=[(words(name), str(run.evidence[name])) for name in _LONG if run.evidence.get(name)],
    )


def _plain(name: str, value: object) -> str:
    if name in {"peak_rss", "last_rss"} and isinstance(value, int):
        return size(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _tone(outcome: str) -> str:
    if outcome in CRASHES:
        return "bad"
    if outcome == Outcome.SUCCEEDED:
        return "good"
    return "calm" if outcome in {Outcome.RELEASED, Outcome.OUTAGE, Outcome.DEPENDENCY} else "warn"


def attached(attachments: Sequence[Attachment]) -> list[AttachmentFacts]:
    """What a page tells of attachments: names, types, sizes."""
    return [attachment.facts for attachment in attachments]

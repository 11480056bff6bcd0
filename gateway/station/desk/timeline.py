"""The life of a ticket as its page tells it: each generation, each run and interruption, charged or not and why; pure.

Owns these words. What was charged is read off the outcome, by the contract that the fleet itself obeys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.contract.outcomes import CHARGED, CRASHES, Outcome
from gateway.station import wording
from gateway.station.desk.views import size, words
from gateway.station.dossier import Dossier, Item, Run
from gateway.station.tombstones import countdown

_LONG: Final = ("log_tail", "stack", "traceback")
_NAMES: Final = {"log_tail": "last lines of its log", "stack": "where it was", "traceback": "traceback"}
_BYTES: Final = frozenset({"peak_rss", "last_rss"})
_WHY: Final[Mapping[str, str]] = {
    Outcome.SUCCEEDED: "it succeeded",
    Outcome.FAILED: "its handler raised",
    Outcome.REJECTED: "its handler said that it is hopeless",
    Outcome.CRASHED: "its worker died of this run",
    Outcome.MEMORY: "its worker was killed for memory during this run",
    Outcome.TIMED_OUT: "it had not ended by its deadline",
    Outcome.OVERSPENT: "it used up its budget",
    Outcome.LOST: "whoever held it vanished, and nothing shows that it was not the cause",
    Outcome.RELEASED: "it was given back before its end",
    Outcome.OUTAGE: "the broker's connection was lost, which is not its fault",
    Outcome.DEPENDENCY: "what it needs was down",
    Outcome.INADMISSIBLE: "it was never started",
    Outcome.MALFORMED: "it was never started",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run on the timeline."""

    run: Run
    title: str
    tone: str
    sentence: str
    charged: bool
    why: str
    """Why it was charged, or not."""
    facts: Sequence[tuple[str, str]]
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationView:
    """One generation: what ran, and how it ended here."""

    number: int
    item: Item | None
    runs: Sequence[RunView]
    charged: int
    uncharged: int
    kept: str | None
    """What has become of the item's contents, or when they go."""


def generations(found: Dossier, retention: float, now: float) -> list[GenerationView]:
    """Return a ticket's generations at `now` (Unix seconds), the newest first; `retention` is in seconds."""
    numbers = {run.generation for run in found.runs} | {item.generation for item in found.items} | {found.generation}
    views = []
    for number in sorted(numbers, reverse=True):
        told = [_run(run) for run in found.runs if run.generation == number]
        charged = sum(view.charged for view in told)
        item = next((item for item in found.items if item.generation == number), None)
        kept = None if item is None else wording.retained(item, countdown(found, item, retention), now)
        views.append(
            GenerationView(
                number=number,
                item=item,
                runs=told,
                charged=charged,
                uncharged=len(told) - charged,
                kept=kept,
            )
        )
    return views


def _run(run: Run) -> RunView:
    charged = run.outcome in CHARGED
    plain = {name: value for name, value in run.evidence.items() if name not in _LONG and value not in (None, "", [])}
    return RunView(
        run=run,
        title=f"Attempt {run.attempt}" if charged or run.outcome == Outcome.SUCCEEDED else "Interruption",
        tone=_tone(run.outcome),
        sentence=wording.sentence(run),
        charged=charged,
        why=_WHY.get(run.outcome, "its outcome is not known here"),
        facts=[(words(name), _plain(name, value)) for name, value in plain.items()],
        texts=[(_NAMES[name], str(run.evidence[name])) for name in _LONG if run.evidence.get(name)],
    )


def _plain(name: str, value: object) -> str:
    if name in _BYTES and isinstance(value, int):
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

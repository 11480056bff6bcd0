"""The fleet's handler in the story, one for every kind of ticket: the build of the first day, and the repaired one.

They do what `consumer.examples` does, and note each start and end in a file of their own, so that the story need not
take the system's word for how often it ran them.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from consumer.examples import prompt, prompt_fixed, triage
from consumer.handler import Run

RECORD = "DEMO_RECORD"
"""Environment variable: the file of starts and ends, one JSON line for each."""
ANSWER_SECONDS = 0.5
"""What the model takes to answer, for which a real handler would wait here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One start or end of a handler, as the handler itself saw it."""

    ticket: str
    kind: str
    generation: int
    attempt: int
    what: str
    """`start` or `end`; a run that died, or failed, has no end."""
    at: float


async def handle(run: Run) -> None:
    """Handle any ticket; logs go to the prompt builder as it was first written."""
    await _handle(run, prompt.handle)


async def handle_repaired(run: Run) -> None:
    """Do the same after the repair of the prompt builder."""
    await _handle(run, prompt_fixed.handle)


async def _handle(run: Run, build_prompt: Callable[[Run], None]) -> None:
    _note(run, "start")
    match run.ticket.kind:
        case "incident.log":
            build_prompt(run)
        case "billing.refund":
            _refund(run)
        case _:
            await triage.handle(run)
    await asyncio.sleep(ANSWER_SECONDS)
    _note(run, "end")


def _refund(run: Run) -> None:
    """Read the amount; whoever wrote this has never seen a comma in one, and such a ticket fails every time."""
    cents = round(float(run.ticket.attributes["amount"]) * 100)
    run.progress(f"refund of {cents} cents")


def _note(run: Run, what: str) -> None:
    note = Note(
        ticket=run.ticket.id,
        kind=run.ticket.kind,
        generation=run.generation,
        attempt=run.attempt,
        what=what,
        at=time.time(),
    )
    descriptor = os.open(os.environ[RECORD], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(asdict(note)).encode() + b"\n")
    finally:
        os.close(descriptor)


def read_notes(path: Path) -> list[Note]:
    """Return everything noted so far, oldest first."""
    return [Note(**json.loads(line)) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

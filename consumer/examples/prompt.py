"""Builds the prompt that a support model would get, in the way one writes it first: and that is the trouble with it.

A log says the same thing over and over, so the prompt should show each thing once, and how its repeats differ. To find
out which lines say the same, this compares every line with every other and keeps each pair as the model would see it.
On a ticket of thirty lines nobody notices. On a log of 280 KB, thousands of lines and millions of pairs, it asks for
gigabytes: the worker is killed, and so is the next one that gets the ticket. `prompt_fixed` is the same handler after
the repair.
"""

import logging
from typing import Final, NamedTuple

from consumer.handler import Reject, Run

log = logging.getLogger(__name__)

_ALIKE: Final = 0.8
_SHOWN: Final = 200
_EXAMPLES: Final = 20


def handle(run: Run) -> None:
    """Build the prompt for this ticket and say how long it came out."""
    lines = [line.strip() for line in run.ticket.text.splitlines() if line.strip()]
    if not lines:
        raise Reject("the ticket has no text")
    run.progress(f"comparing {len(lines)} lines with each other")
    prompt = build_prompt(run.ticket.subject or "(no subject)", lines)
    run.progress("prompt built")
    run.spend(tokens=len(prompt) // 4)
    log.info("prompt of %d characters from %d lines", len(prompt), len(lines))


def build_prompt(subject: str, lines: list[str]) -> str:
    """Return instructions, subject, the pairs of lines that are most alike, and the lines that are like no other."""
    pairs = compare(lines)
    alike = [pair for pair in pairs if pair.likeness >= _ALIKE]
    repeated = {pair.later for pair in alike}
    unique = [line for number, line in enumerate(lines) if number not in repeated]
    alike.sort(key=lambda pair: pair.likeness, reverse=True)
    examples = "\n\n".join(pair.text for pair in alike[:_EXAMPLES])
    body = "\n".join(unique[:_SHOWN])
    return (
        "Summarise this support ticket for an engineer and name the likely cause.\n\n"
        f"Subject: {subject}\n\n{body}\n\nLines that repeat, with what differs:\n\n{examples}\n"
    )


class Pair(NamedTuple):
    """Two lines, how much they say the same (0 to 1), and how they are shown to the model."""

    later: int
    likeness: float
    text: str


def compare(lines: list[str]) -> list[Pair]:
    """Compare every line with every earlier one."""
    words = [frozenset(line.split()) for line in lines]
    return [
        Pair(later, len(words[earlier] & words[later]) / len(words[later]), f"- {lines[earlier]}\n+ {lines[later]}")
        for later in range(len(lines))
        for earlier in range(later)
    ]

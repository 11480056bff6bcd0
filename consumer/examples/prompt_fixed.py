"""The prompt builder after the repair: what a line says is remembered once, so a log costs what its text costs.

The rule for a handler is that its memory grows with the ticket, never with its square, and that there is an end to
what it takes from one ticket. Lines are reduced to their shape (numbers and identifiers taken out); a shape that was
seen before is counted, not shown again.
"""

import logging
import re
from collections import Counter
from typing import Final

from consumer.handler import Reject, Run

log = logging.getLogger(__name__)

_MAX_LINE: Final = 500
_SHOWN: Final = 200
_VARIABLE: Final = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F-]{12,}\b|\d+")


def handle(run: Run) -> None:
    """Build the prompt for this ticket and say how long it came out."""
    if not run.ticket.text.strip():
        raise Reject("the ticket has no text")
    prompt = build_prompt(run.ticket.subject or "(no subject)", run.ticket.text)
    run.progress("prompt built")
    run.spend(tokens=len(prompt) // 4)
    log.info("prompt of %d characters from %d", len(prompt), len(run.ticket.text))


def build_prompt(subject: str, text: str) -> str:
    """Return instructions, subject and one line of each shape with how often it came, at most 200 of them."""
    first: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for line in text.splitlines():
        clean = line.strip()[:_MAX_LINE]
        if clean:
            shape = _VARIABLE.sub("#", clean)
            first.setdefault(shape, clean)
            seen[shape] += 1
    shown = [line if seen[shape] == 1 else f"{line}  (x{seen[shape]})" for shape, line in first.items()][:_SHOWN]
    rest = len(first) - len(shown)
    body = "\n".join(shown) + (f"\n... and {rest} other kinds of line" if rest > 0 else "")
    return f"Summarise this support ticket for an engineer and name the likely cause.\n\nSubject: {subject}\n\n{body}\n"

"""What an item died of, reduced to what other items may have died of, too; pure.

Owns the rule by which items are one group: the same kind, the same outcome, the same exception from the same place or
the same signal. What differs from item to item (numbers of lines, addresses, ids, folders of a release) is taken out
first. The rule is bounded in what it reads and in what it returns, whatever a worker wrote.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import orjson

from gateway.contract.outcomes import Outcome
from gateway.contract.text import clip, clip_tail, printable

MOST_FRAMES: Final = 5
_ID_BYTES: Final = 8
_MAX_WORDS: Final = 200
_MAX_FRAME: Final = 160
_MAX_READ: Final = 32 * 1024
"""Bytes of a stack, from its telling end: more than any node sends."""
_RULE: Final = 1
"""Part of every id: another rule makes other groups, and never mixes them with these."""

_IDS: Final = (
    (re.compile(r"0x[0-9a-fA-F]+"), "…"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "…"),
    # Of letters alone it may be a word; without a letter it is a number.
    (re.compile(r"\b(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{7,}\b"), "…"),
    (re.compile(r"\d+(?:\.\d+)*"), "#"),
)
# A traceback, and what faulthandler writes: `  File "a/b.py", line 7, in f` and `  File "a/b.py", line 7 in f`.
_FRAME: Final = re.compile(r'^\s*File "([^"\n]{0,1024})", line \d+,? in ([^\n]{0,512})$', re.MULTILINE)
_NEWEST_FIRST: Final = "most recent call first"
_RAISED: Final = "Traceback (most recent call last)"
_WANDERING: Final = frozenset({Outcome.TIMED_OUT.value, Outcome.MEMORY.value})
"""Where such a run happened to be says nothing: the next one of the same item ends somewhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What items of one group have in common."""

    kind: str
    outcome: str
    """How the last run ended; the reason of the item where it had none."""
    what: str
    """Type of the exception, the signal, or the words of a `Reject`, with everything of the single item taken out."""
    frames: tuple[str, ...] = ()
    """`file: function`, innermost first."""

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that stand for all of it."""
        whole = orjson.dumps([_RULE, self.kind, self.outcome, self.what, self.frames])
        return blake2b(whole, digest_size=_ID_BYTES).hexdigest()


def find(*, kind: str, reason: str, detail: str | None, outcome: str | None, evidence: Mapping[str, Any]) -> Cause:
    """Return the cause of an item; `outcome` and `evidence` are of its last run, None and empty where it had none."""
    if outcome is None:
        return Cause(kind=kind, outcome=reason, what=without_ids(detail or ""))
    frames = () if outcome in _WANDERING else _frames(evidence)
    return Cause(kind=kind, outcome=outcome, what=_what(outcome, evidence, has_place=bool(frames)), frames=frames)


def without_ids(text: str) -> str:
    """Return a text without what tells single items apart, on one line and of at most 200 bytes."""
    # Cut first, so that the patterns never see more than a little of what a worker wrote; and again, for they may
    # cut a number in two or make the text longer.
    shown = " ".join(clip(text, 4 * _MAX_WORDS).split())
    for pattern, instead in _IDS:
        shown = pattern.sub(instead, shown)
    return clip(shown, _MAX_WORDS)


def _what(outcome: str, evidence: Mapping[str, Any], *, has_place: bool) -> str:
    if evidence.get("error_type"):
        named = without_ids(str(evidence["error_type"]))
        # Without a place, what an exception says has to tell it from others of its type.
        said = "" if has_place or outcome in _WANDERING else without_ids(str(evidence.get("message") or ""))
        return clip(f"{named}: {said}" if said else named, _MAX_WORDS)
    if outcome == Outcome.INADMISSIBLE and (rules := _rules(evidence.get("violations"))):
        return clip(", ".join(rules), _MAX_WORDS)
    if evidence.get("signal") and not evidence.get("oom_kill"):
        return clip(f"signal {evidence['signal']}", _MAX_WORDS)
    if evidence.get("message"):  # of a handler's own words: `Reject`, `Retry`, `DependencyDown`
        return without_ids(str(evidence["message"]))
    # Codes name what happened by a number that means something: `exit:137` is not `exit:1`.
    return clip(printable(str(evidence.get("code") or evidence.get("cause") or "")), _MAX_WORDS)


def _rules(violations: object) -> list[str]:
    if not isinstance(violations, list):
        return []
    return sorted({without_ids(str(one["rule"])) for one in violations if isinstance(one, dict) and one.get("rule")})


def _frames(evidence: Mapping[str, Any]) -> tuple[str, ...]:
    trace, stack = evidence.get("traceback"), evidence.get("stack")
    if trace:
        # The last one: what was raised while another exception was handled comes after that.
        innermost_first = _read(clip_tail(str(trace), _MAX_READ).rpartition(_RAISED)[2])[::-1]
    else:
        found = clip(str(stack or ""), _MAX_READ)
        # Of all threads' stacks, the one that was running; without that mark, somebody asked a loop that waits.
        innermost_first = _read(_current(found)) if _NEWEST_FIRST in found else _read(found)[::-1]
    # A function that calls itself does so as often as its input is deep.
    return tuple(dict.fromkeys(innermost_first))[:MOST_FRAMES]


def _current(stack: str) -> str:
    """Return the part of a stack that is about the thread in which the process died."""
    _, mark, after = stack.partition("Current thread")
    part = after if mark else stack.partition(_NEWEST_FIRST)[2]
    ends = [at for at in (part.find("\n\n"), part.find("\nThread "), part.find("\nTask ")) if at > 0]
    return part[: min(ends)] if ends else part


def _read(text: str) -> list[str]:
    return [_place(path, function) for path, function in _FRAME.findall(text)]


def _place(path: str, function: str) -> str:
    # Whatever folder a release was unpacked into, a module keeps its name and its package.
    parts = [part for part in re.split(r"[/\\]", path) if part]
    shown = "/".join(parts[-2:])
    for pattern, instead in _IDS:
        shown = pattern.sub(instead, shown)
    return clip(f"{shown}: {' '.join(function.split())}", _MAX_FRAME)

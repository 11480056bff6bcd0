"""The compact run records that travel on the item, and their bound.

Owns `lz-history`. Long diagnostics (stacks, log tails) never go in here: they belong to the journal.
"""

from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, Final

import orjson

from gateway.contract.outcomes import Outcome
from gateway.contract.text import clip
from gateway.contract.values import value

MAX_RUNS: Final = 16
MAX_BYTES: Final = 4096
_MAX_NAME: Final = 64
_MAX_TIME: Final = 1e11
"""Seconds; a date long after everybody's, and still a date."""


@value(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run, or one uncharged return, as later readers of the item see it."""

    attempt: int
    outcome: Outcome
    node: str = ""
    worker: int = 0
    started: float = 0.0
    """Unix seconds; 0 when the run never started or nobody knows."""
    seconds: float = 0.0
    code: str = ""
    """Evidence in a word: `signal:9`, `exit:1`, `ValueError`."""
    times: int = 1
    """How many waits for a dependency, one after the other, this record stands for."""

    def packed(self) -> list[Any]:
        """Return the positional form that is kept on the wire; `times` only where there were several."""
        row = [
            self.attempt,
            self.outcome.value,
            clip(self.node, _MAX_NAME),
            self.worker,
            round(self.started, 3),
            round(self.seconds, 3),
            clip(self.code, _MAX_NAME),
        ]
        return row if self.times == 1 else [*row, self.times]

    @classmethod
    def unpacked(cls, row: Any) -> "RunRecord":
        """Read one positional record; raises ValueError or TypeError when it is not one."""
        attempt, outcome, node, worker, started, seconds, code, *times = row
        (repeated,) = times or (1,)
        if not (0 < int(attempt) < 2**31 and 0 <= int(worker) < 2**31 and 0 < int(repeated) < 2**31):
            raise ValueError("a count that is none")
        if not (0 <= float(started) <= _MAX_TIME and 0 <= float(seconds) <= _MAX_TIME):
            raise ValueError("a time that is none")
        return cls(
            attempt=int(attempt),
            outcome=Outcome(outcome),
            node=str(node),
            worker=int(worker),
            started=float(started),
            seconds=float(seconds),
            code=str(code),
            times=int(repeated),
        )


@value(frozen=True, slots=True)
class History:
    """The newest runs of an item over all its generations, oldest first."""

    runs: tuple[RunRecord, ...] = field(default=())
    left_out: int = 0

    def __iter__(self) -> Iterator[RunRecord]:
        return iter(self.runs)

    @property
    def newest(self) -> RunRecord | None:
        """The last record, or None before the first run ended."""
        return self.runs[-1] if self.runs else None

    def add(self, record: RunRecord) -> "History":
        """Return the history with one more record; the oldest give way and are counted."""
        runs = (*self.runs, record)
        return History(runs[-MAX_RUNS:], self.left_out + max(0, len(runs) - MAX_RUNS))

    def add_wait(self, record: RunRecord) -> "History":
        """Return the history with one more wait of a series that goes on.

        A series keeps its first record and one for all that followed: a day of waiting must not push the records of
        crashes out.
        """
        if [run.outcome for run in self.runs[-2:]] != [Outcome.DEPENDENCY] * 2:
            return self.add(record)
        earlier = self.runs[-1]
        whole = replace(
            record,
            started=earlier.started,
            seconds=max(0.0, record.started + record.seconds - earlier.started),
            times=earlier.times + record.times,
        )
        return History((*self.runs[:-1], whole), self.left_out)

    def encode(self) -> str:
        """Return the header's text, at most `MAX_BYTES` long: the oldest records give way."""
        runs, left_out = self.runs[-MAX_RUNS:], self.left_out + max(0, len(self.runs) - MAX_RUNS)
        while True:
            text = orjson.dumps([left_out, *(record.packed() for record in runs)])
            if len(text) <= MAX_BYTES:
                return text.decode()
            runs, left_out = runs[1:], left_out + 1

    @classmethod
    def decode(cls, text: str) -> "History":
        """Read the header; raises ValueError when it is not a history."""
        try:
            left_out, *rows = orjson.loads(text)
            return cls(tuple(RunRecord.unpacked(row) for row in rows), int(left_out))
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"not a run history: {error}") from error

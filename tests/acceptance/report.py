"""The story's report on the terminal: one finding after the other, each with what was seen.

Owns the typography and the sum. A finding holds only if its check returned; what it raised is printed in its place.
"""

import sys
import textwrap
import time
from collections.abc import Callable

_WIDTH = 110
_INDENT = 8
_LONGEST = 1000


class Report:
    """Prints as the story goes on."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.broken: list[str] = []

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def say(self, text: str = "") -> None:
        """Print a paragraph."""
        print(textwrap.fill(text, _WIDTH) if text else "", flush=True)

    def scene(self, text: str) -> None:
        """Print what happens now, with the time that has passed."""
        print(f"{self.seconds:5.1f} s  {text}", flush=True)

    def check(self, title: str, look: Callable[[], str]) -> None:
        """Print one finding: what `look` saw, or what it raised; an answer that cannot be read does not hold either."""
        try:
            self._finding("ok", title, look())
        except Exception as wrong:  # noqa: BLE001
            self.fail(title, wrong)

    def fail(self, title: str, why: BaseException) -> None:
        """Print something that did not hold."""
        self.broken.append(title)
        named = "" if isinstance(why, AssertionError) else f"{type(why).__name__}: "
        self._finding("NOT", title, textwrap.shorten(f"{named}{why}", _LONGEST))

    def _finding(self, mark: str, title: str, saw: str) -> None:
        print(f"  {mark:3}   {title}")
        indent = " " * _INDENT
        print(textwrap.fill(saw, _WIDTH, initial_indent=indent, subsequent_indent=indent), flush=True)

    def end(self) -> int:
        """Print the sum and return the exit code."""
        sys.stdout.flush()
        if self.broken:
            print(f"\nIt did not happen as it should ({self.seconds:.0f} s). What did not hold:")
            print("\n".join(f"  - {title}" for title in self.broken), flush=True)
            return 1
        print(f"\nAll of it happened, in {self.seconds:.0f} s.", flush=True)
        return 0

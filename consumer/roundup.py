"""One line in the log for all the runs that ended since the last one: what is ordinary has none of its own.

Owns the figures between two lines. Which runs have a line of their own besides is not its business.
"""

import asyncio
import logging
from collections import Counter
from typing import Final

from gateway.contract.logs import event
from gateway.contract.outcomes import Outcome

log = logging.getLogger("consumer.roundup")

_EVERY_SECONDS: Final = 60.0


class Roundup:
    """Counts settled runs and claims of one node by their outcome."""

    def __init__(self) -> None:
        self._ended: Counter[Outcome] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Count one that was settled."""
        self._ended[outcome] += 1

    def tell(self) -> None:
        """Write the line, if there is anything to tell, and begin anew."""
        ended, self._ended = self._ended, Counter()
        if ended:
            event(
                log, "runs.ended", total=ended.total(), **{outcome.value: ended[outcome] for outcome in sorted(ended)}
            )

    async def tell_on(self) -> None:
        """Write a line every minute, for ever."""
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            self.tell()

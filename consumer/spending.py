"""What a run reports as spent, made durable before its handler goes on.

Owns the order of that: one run's totals are kept one after the other, an acknowledgement follows what it vouches for,
and the run's report follows them all. Where totals are kept is its caller's business.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.contract.envelope import UNSPENT, Spent
from gateway.contract.logs import event

_log: Final = logging.getLogger("consumer.spending")

Keep = Callable[[Spent], Awaitable[None]]
"""Makes a run's total so far durable; raises when it cannot."""


class Spending:
    """The reports of one run; `acknowledge` gets the number of the last one that is durable."""

    def __init__(self, ticket: str, keep: Keep | None, acknowledge: Callable[[int], None]) -> None:
        self._ticket = ticket
        self._keep = keep
        self._acknowledge = acknowledge
        self._number = 0
        self._total = UNSPENT
        self._kept = 0
        self._keeping: asyncio.Task[None] | None = None

    @property
    def pending(self) -> bool:
        """Whether a report waits to become durable."""
        return self._keeping is not None and not self._keeping.done()

    def heard(self, number: int, total: Spent) -> None:
        """Take report `number`; `total` is what the run has spent with it."""
        self._number, self._total = number, total
        if self._keep is None:
            self._acknowledge(number)
        elif not self.pending:
            self._keeping = asyncio.get_running_loop().create_task(self._keep_all(self._keep), name="spending")

    async def settled(self) -> None:
        """Return when all that was heard is durable, or has failed to become so."""
        if self._keeping is not None:
            await asyncio.wait([self._keeping])

    async def _keep_all(self, keep: Keep) -> None:
        while self._kept < self._number:
            number = self._number
            try:
                await keep(self._total)
            except Exception as error:  # noqa: BLE001 - it is the handler that must not go on, not the node that ends
                event(_log, "spend.unnoted", logging.ERROR, ticket=self._ticket, error=error)
                return
            self._kept = number
            self._acknowledge(number)

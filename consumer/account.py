"""What one run spends, on record with its start before its handler goes on (C10).

With the fence off nothing is recorded: then what a run has spent is as durable as its supervisor.
"""

import asyncio

from consumer.fence import Fence
from consumer.link import Link
from consumer.settlement import Settlement
from gateway.contract.envelope import Envelope, Spent


class NotPaidFor(Exception):
    """The start is decided or overtaken: what it spends now is carried by nothing, so its handler must not go on."""


class Account:
    """The account of the start that one message licenses, or has licensed."""

    def __init__(self, settlement: Settlement, fence: Fence, link: Link, envelope: Envelope) -> None:
        self._settlement = settlement
        self._fence = fence
        self._link = link
        self._envelope = envelope
        self._closes_at = 0.0

    def open(self, seconds: float) -> None:
        """Have a store that is down waited for no longer than this from now on: the run's deadline."""
        self._closes_at = asyncio.get_running_loop().time() + seconds

    async def keep(self, spent: Spent) -> None:
        """Record all that the run has spent so far, also where its session is lost.

        Raises NotPaidFor; FenceUnavailable at the run's deadline or the node's end; SessionLost when the store does not
        answer and the claim is gone.
        """
        loop = asyncio.get_running_loop()
        kept = await self._settlement.ask_fence(
            self._link,
            lambda: self._fence.spend(self._envelope.ticket, self._envelope.stamp, spent),
            unless=lambda: loop.time() > self._closes_at or self._settlement.leaves,
            at_least_once=True,
        )
        if not kept:
            raise NotPaidFor(f"start {self._envelope.stamp} is decided or overtaken; {spent} is on no record")

    async def known(self) -> Spent:
        """Return what the start has spent as far as anybody knows; raises SessionLost."""
        return await self._settlement.ask_fence(
            self._link,
            lambda: self._fence.spent(self._envelope.ticket, self._envelope.stamp),
            unless=lambda: False,
        )

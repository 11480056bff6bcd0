"""A consumer without our runtime, as `consumer.examples.plain` shows it, that does what a ticket's kind says."""

import asyncio
import os

from consumer.examples.plain import main
from consumer.handler import Run, Ticket
from consumer.plain import Claims
from consumer.policy import Policies, Policy
from gateway.contract.envelope import Envelope
from gateway.contract.topology import Topology
from tests.support.handlers import handle


class _NoLine:
    """Words that nobody hears: there is no supervisor."""

    def spend(self, tokens: int, usd: float) -> None:
        pass

    def progress(self, text: str) -> None:
        pass

    def lost(self) -> bool:
        return False


async def work(item: Envelope) -> None:
    """Do what the kind says; the killer takes this whole process along."""
    ticket = Ticket(id=item.ticket, kind=item.kind, text=item.body.decode())
    handle(Run(ticket=ticket, generation=item.generation, attempt=item.attempt, line=_NoLine()))


if __name__ == "__main__":
    claims = Claims(
        topology=Topology(prefix=os.environ["LAZARETTO_PREFIX"], delay_unit=0.05),
        policies=Policies(default=Policy(backoff_base=0.1, backoff_cap=0.4)),
        reclaim_floor=1.0,
    )
    asyncio.run(main(os.environ["LAZARETTO_BROKER_URL"], claims, work))

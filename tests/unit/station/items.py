"""Items that are taken in without a broker, and what is decided about them."""

from collections.abc import Sequence

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Admission, Envelope
from gateway.contract.ids import TicketId
from gateway.station import arrival as arrivals
from gateway.station import decisions, holding
from gateway.station.decided import Decision, Done
from gateway.station.store import Store

FROM_ACME = Admission(bytes=1, charset="utf-8", tokens=1, exact=True, attachments=0, client="acme", admitted_at=900.0)


async def take_in(store: Store, channels: Sequence[str], *tickets: str, now: float = 1.0) -> None:
    """Hold these aside, as the keeper does."""
    async with store.writing() as transaction:
        for ticket in tickets:
            item = Envelope(
                ticket=TicketId(ticket),
                kind="support.ticket",
                body=b"",
                content_type="text/plain",
                reason="rejected",
                admission=FROM_ACME,
            )
            arrival = arrivals.read(envelopes.encode(item))
            await holding.take_in(transaction, arrival, channels=channels, now=now)


async def discard(store: Store, ticket: str) -> None:
    """Decide about one."""
    done = await decisions.discard(store, ticket, Decision(by="ana", reason="spam"))
    assert isinstance(done, Done)

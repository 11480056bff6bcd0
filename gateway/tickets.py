"""A ticket's way through the door: accepted once the broker has it, and its state asked for.

Owns the order "confirmed, then accepted" and the memory of what this door has just accepted. Knows no HTTP.
"""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from gateway.amqp.fate import Ended, Fate
from gateway.amqp.stencil import Message
from gateway.contract import envelope as envelopes
from gateway.contract import journal, logs
from gateway.contract.envelope import Envelope
from gateway.contract.journal import Event, EventName
from gateway.contract.topology import Lane, Topology
from gateway.fresh import FreshTicket
from gateway.publisher import Publisher, Purpose
from gateway.recent import Recent
from gateway.reporter import Reporter
from gateway.states import States
from gateway.station.store import TicketStatus

log = logging.getLogger("gateway.tickets")


class Tickets:
    """What the door does with tickets, once it has one."""

    def __init__(
        self,
        publisher: Publisher,
        reporter: Reporter,
        states: States,
        topology: Topology,
        *,
        recent: Recent,
        node: str,
        deadline: float,
    ) -> None:
        self._publisher = publisher
        self._reporter = reporter
        self._states = states
        self._routes = {lane: topology.to_lane(lane) for lane in Lane}
        self._node = node
        self._deadline = deadline
        self._recent = recent

    def accepted_as(self, ticket: str) -> str | None:
        """Return the digest of the contents that this door has lately accepted under an id, None if there are none."""
        known = self._recent.recall(ticket)
        return None if known is None else known[1]

    async def submit(self, envelope: Envelope, *, digest: str) -> Fate:
        """Publish an admitted ticket; only `CONFIRMED` means accepted. Answers within the publish deadline.

        `digest` is of the ticket's contents: what a repetition under the same id must agree with.

        A confirm that comes later is recorded all the same: the broker has the ticket, whatever the client was told.
        """
        return await self._publisher.publish(
            envelopes.encode(envelope),
            self._routes[Lane.SUSPECTS if envelope.suspect else Lane.WORK],
            purpose=Purpose.TICKETS,
            deadline=self._deadline,
            confirmed=partial(self._record, envelope, digest),
        )

    def send(self, envelope: Envelope, told: Ended) -> None:
        """Publish an admitted ticket with a new id, as `submit` does, and have its fate told."""
        self._send(envelopes.encode(envelope), told, partial(self._record, envelope, ""))

    def send_fresh(self, fresh: FreshTicket, told: Ended) -> None:
        """Do so with an ordinary one."""
        self._send(fresh.message, told, partial(self._record_fresh, fresh))

    def _send(self, message: Message, told: Ended, confirmed: Callable[[], None]) -> None:
        self._publisher.send(
            message,
            self._routes[Lane.WORK],
            told,
            purpose=Purpose.TICKETS,
            deadline=self._deadline,
            confirmed=confirmed,
        )

    async def status(self, ticket: str) -> TicketStatus | None:
        """Return where a ticket stands, or None when nobody has heard of it; raises StatusUnavailable."""
        return (await self.statuses([ticket])).get(ticket)

    async def statuses(self, tickets: Collection[str]) -> dict[str, TicketStatus]:
        """Return where tickets stand, all in one look; those that nobody has heard of are not there.

        Raises StatusUnavailable.
        """
        found = dict(await self._states.ask(tickets))
        for ticket in tickets:
            told = found.get(ticket)
            if told is not None and told.client is not None:
                continue  # the memory has nothing to add
            known = self._recent.recall(ticket)
            if known is None:
                continue
            status = found.setdefault(ticket, known[0])
            if status.client is None:  # the fleet's reports came before the door's
                found[ticket] = replace(status, client=known[0].client)
        return found

    def _record(self, envelope: Envelope, digest: str) -> None:
        now = time.time()
        facts = envelope.admission
        client = None if facts is None else facts.client
        self._recent.remember(envelope.ticket, envelope.kind, client, digest, at=now)
        self._reporter.report(
            Event(
                event=EventName.ACCEPTED,
                at=now,
                ticket=envelope.ticket,
                kind=envelope.kind,
                node=self._node,
                stamp=envelope.stamp,
                data={}
                if facts is None
                else {
                    "client": facts.client,
                    "bytes": facts.bytes,
                    "charset": facts.charset,
                    "tokens": facts.tokens,
                    "exact": facts.exact,
                    "attachments": facts.attachments,
                    **({"marked": list(facts.marked)} if facts.marked else {}),
                    **({"pass": facts.granted} if facts.granted else {}),
                },
            )
        )
        _log(envelope)

    def _record_fresh(self, fresh: FreshTicket) -> None:
        now = time.time()
        self._recent.remember(fresh.ticket, fresh.kind, fresh.client, "", at=now)
        data: dict[str, str | int | bool] = {
            "client": fresh.client,
            "bytes": len(fresh.body),
            "charset": fresh.charset,
            "tokens": fresh.tokens,
            "exact": fresh.exact,
            "attachments": 0,
        }
        row = journal.row_of_new(at=now, ticket=fresh.ticket, kind=fresh.kind, node=self._node, data=data)
        self._reporter.report_written(row)
        _log(fresh)


def _log(ticket: Envelope | FreshTicket) -> None:
    # The journal has it; a line for each would cost as much as reading the ticket.
    logs.event(log, "accepted", logging.DEBUG, ticket=ticket.ticket, kind=ticket.kind, bytes=len(ticket.body))

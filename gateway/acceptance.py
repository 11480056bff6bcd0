"""From an admitted ticket to the answer: once, however often it is sent, and never a false yes.

Owns the order claim, store, publish, confirm, record, answer (docs/decisions/0016, 0020), which lets a door die at any
point of it.
Knows no HTTP but the status that is recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.amqp.fate import Fate
from gateway.contract.envelope import Envelope
from gateway.deposits import Deposits
from gateway.metrics import Metrics
from gateway.repetitions import NoStore, Repetitions
from gateway.station.submissions import Claim, Claimed, Differs, InFlight, Recorded
from gateway.tickets import Tickets

ACCEPTED_STATUS: Final = 202


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The broker has the ticket."""

    answer: bytes
    """The document that tells so; the first one, if there was one before."""
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAccepted:
    """The broker did not say that it has it."""

    fate: Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDown:
    """Whether it was sent before cannot be told, and it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStored:
    """Its attachments could not be stored, so it was not published."""


Outcome = Accepted | NotAccepted | InFlight | Differs | StoreDown | NotStored


class Acceptance:
    """Accepts tickets of one door."""

    def __init__(self, tickets: Tickets, repetitions: Repetitions, deposits: Deposits, metrics: Metrics) -> None:
        self._tickets = tickets
        self._deposits = deposits
        self._repetitions = repetitions
        self._metrics = metrics

    async def accept(
        self,
        envelope: Envelope,
        answer: bytes,
        *,
        digest: str | None,
        strict: bool,
        contents: Mapping[str, bytes] = MappingProxyType({}),
    ) -> Outcome:
        """Publish a ticket unless it was before; `answer` is what its client is told once it is confirmed.

        `contents` are attachments to which its body refers: they are in the depot for good before it is published.
        `digest` is of client and contents, for tickets whose id is always the same; None for one with a new id.
        `strict`: without the store nothing is published; otherwise this door's memory and the fence do what they can.
        """
        if digest is None:
            return await self._publish(envelope, answer, "", contents)
        try:
            held, found = await self._repetitions.claim(envelope.ticket, digest)
        except NoStore:
            self._count("no_store")
            if strict:
                return StoreDown()
            known = self._tickets.accepted_as(envelope.ticket)
            if known not in (None, digest):
                return Differs()
            return await self._publish(envelope, answer, digest, contents)
        match found:
            case Recorded():
                self._count("replayed")
                return Accepted(answer=found.answer, again=True)
            case InFlight():
                self._count("in_flight")
                return found
            case Differs():
                self._count("differs")
                return found
            case Claimed():
                if found.taken_over:
                    self._count("taken_over")
                return await self._publish_held(envelope, answer, held, contents)

    async def _publish_held(
        self, envelope: Envelope, answer: bytes, held: Claim, contents: Mapping[str, bytes]
    ) -> Outcome:
        outcome = await self._publish(envelope, answer, held.digest, contents)
        if isinstance(outcome, NotAccepted | NotStored):
            self._repetitions.release(held)
            return outcome
        try:
            recorded = await self._repetitions.record(held, ACCEPTED_STATUS, answer)
        except NoStore:
            # The broker has it, so the answer is yes. The next try publishes a copy, which the fence drops.
            self._count("unrecorded")
            return outcome
        return Accepted(answer=recorded.answer, again=recorded.answer != answer)

    async def _publish(
        self, envelope: Envelope, answer: bytes, digest: str, contents: Mapping[str, bytes]
    ) -> Accepted | NotAccepted | NotStored:
        if contents and envelope.admission is not None:
            stored = await self._deposits.put(envelope.admission.stored, contents)
            if not stored:
                return NotStored()
        fate = await self._tickets.submit(envelope, digest=digest)
        return Accepted(answer=answer, again=False) if fate is Fate.CONFIRMED else NotAccepted(fate=fate)

    def _count(self, result: str) -> None:
        self._metrics.repetitions.labels(result=result).inc()

"""The claim step by itself, for a consumer that is built on aio-pika and nothing else of ours (C17).

Turns a delivery into what it licenses, and an ending into what has to be published. Publishes and acknowledges nothing:
the order "published and confirmed, then acknowledged" (P2) is the caller's to keep, for which `Step` has all that is
needed. Without the fence a copy may run (P9), and without worker processes nobody survives a handler that dies; the
limits hold all the same, because every number is durable before the run that it licenses.

`consumer/examples/plain.py` is a whole consumer in some forty lines.
"""

import os
import random
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, assert_never

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from consumer import records
from consumer.claim import Discard, Quarantine, Reclaim, Run, claim
from consumer.endings import vanished
from consumer.policy import Policies
from consumer.verdict import Decision, Ending, decide, end_at_claim, next_message
from consumer.worker.runner import account
from gateway.amqp import messages
from gateway.contract import journal
from gateway.contract.envelope import APP_ID, Envelope, Malformed, Spent, decode, encode, encode_malformed
from gateway.contract.history import RunRecord
from gateway.contract.ids import uuid7
from gateway.contract.journal import Event, EventName, Verdict
from gateway.contract.outcomes import Outcome, Reason
from gateway.contract.topology import Lane, Route, Topology
from gateway.contract.wire import Wire, encodable

RECLAIM_FLOOR: Final = 15.0
"""Seconds before an item of a vanished holder may run again: longer than anybody lets a cut-off run live (P10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message to publish: persistent already; to be sent mandatory, and confirmed."""

    exchange: str
    key: str
    message: aio_pika.Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a delivery comes to: publish all of `publish` in order, each confirmed; then run `run`, or acknowledge.

    Whoever gets no confirm must neither run nor acknowledge: the broker's copy is the truth (P3).
    """

    run: Envelope | None = None
    """The item whose run is licensed; None where nothing may run, and the delivery is to be acknowledged."""
    publish: tuple[Outgoing, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Claims the deliveries of one consumer; `lane` is the one it takes from."""

    topology: Topology = field(default_factory=Topology)
    policies: Policies = field(default_factory=Policies)
    lane: Lane = Lane.WORK
    node: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
    """Names this consumer in histories."""
    reclaim_floor: float = RECLAIM_FLOOR

    def __post_init__(self) -> None:
        """Make the client read whatever somebody sends, or one odd byte would end every connection that it comes to."""
        messages.read_any_properties()

    @property
    def queue(self) -> str:
        """The queue to consume."""
        return self.topology.lane_queue(self.lane)

    def take(self, delivery: AbstractIncomingMessage) -> Step:
        """Decide what one delivery licenses. Raises nothing: what cannot be understood goes to quarantine."""
        item = decode(_wire(delivery))
        policy = self.policies.of(item.kind)
        redelivered = bool(delivery.redelivered)
        licensed = claim(item, redelivered=redelivered, policy=policy, outage_window=None, now=time.time())
        match licensed:
            case Run(envelope=envelope):
                started = records.record(EventName.STARTED, envelope, {"lane": self.lane}, **self._signed())
                return Step(run=envelope, publish=self._told([started]))
            case Quarantine(item=Malformed() as malformed):
                return Step(publish=self._set_aside(malformed))
            case Quarantine(item=Envelope() as envelope, reason=reason, detail=detail):
                ended = end_at_claim(envelope, Verdict.QUARANTINE, reason, detail)
            case Discard(envelope=envelope, reason=reason, detail=detail):
                ended = end_at_claim(envelope, Verdict.DISCARD, reason, detail)
            case Reclaim(envelope=envelope, outcome=outcome):
                ended = self._decided(envelope, vanished(envelope, outcome, Spent()))
            case Quarantine():
                raise AssertionError("a quarantined item is an envelope or malformed")
            case _:
                assert_never(licensed)
        return Step(publish=self._carried_out(envelope, ended))

    def ended(
        self, envelope: Envelope, error: BaseException | None = None, *, started: float, spent: Spent | None = None
    ) -> Step:
        """Decide what follows from a run: None is success, an exception means what it means to our own handlers.

        `started` in Unix seconds; `spent` is what the run alone has used.
        """
        said = None if error is None else account(envelope.ticket, error)
        outcome = Outcome.SUCCEEDED if said is None else Outcome(said.outcome)
        record = RunRecord(
            attempt=envelope.attempt,
            outcome=outcome,
            node=self.node,
            worker=os.getpid(),
            started=started,
            seconds=max(0.0, time.time() - started),
            code="" if said is None else said.code,
        )
        ending = Ending(
            outcome=outcome,
            record=record,
            detail="" if said is None else ": ".join(filter(None, (said.error_type, said.message))),
            error_type=None if said is None else said.error_type or None,
            after=None if said is None else said.after,
            spent=spent or Spent(),
        )
        evidence = {} if said is None else {"traceback": said.traceback, "message": said.message}
        return Step(publish=self._carried_out(envelope, self._decided(envelope, ending), evidence))

    def released(self, envelope: Envelope, *, started: float) -> Step:
        """Give an item back uncharged, finished or not, for instance at a shutdown (P7)."""
        record = RunRecord(attempt=envelope.attempt, outcome=Outcome.RELEASED, node=self.node, started=started)
        ending = Ending(outcome=Outcome.RELEASED, record=record, detail="given back")
        return Step(publish=self._carried_out(envelope, self._decided(envelope, ending)))

    def _decided(self, envelope: Envelope, ending: Ending) -> Decision:
        policy = self.policies.of(envelope.kind)
        return decide(envelope, ending, policy, jitter=random.random(), reclaim_floor=self.reclaim_floor)

    def _carried_out(
        self, envelope: Envelope, decision: Decision, evidence: Mapping[str, Any] | None = None
    ) -> tuple[Outgoing, ...]:
        message = encode(next_message(envelope, decision))
        told = self._told(
            records.of(envelope, decision, lane=self.lane, data={"evidence": evidence or {}}, **self._signed())
        )
        match decision.verdict:
            case Verdict.ACK | Verdict.DISCARD:
                return told
            case Verdict.RETRY | Verdict.RELEASE:
                return (_outgoing(self.topology.to_delay(decision.lane, decision.delay), message), *told)
            case Verdict.QUARANTINE:  # nobody may hear of it before it is there
                return (_outgoing(self.topology.to_quarantine(envelope.kind), message), *told)
            case _:
                assert_never(decision.verdict)

    def _set_aside(self, malformed: Malformed) -> tuple[Outgoing, ...]:
        aside = encode_malformed(malformed, reason=Reason.MALFORMED)
        data = {"reason": Reason.MALFORMED, "detail": malformed.detail, "lane": self.lane}
        told = Event(
            event=EventName.QUARANTINED, ticket=malformed.ticket, kind=malformed.kind, data=data, **self._signed()
        )
        return (_outgoing(self.topology.to_quarantine(malformed.kind), aside), *self._told([told]))

    def _told(self, events: list[Event]) -> tuple[Outgoing, ...]:
        route = self.topology.to_journal()
        return tuple(_outgoing(route, _journal(body)) for body in journal.encode(events))

    def _signed(self) -> dict[str, Any]:
        return {"node": self.node, "at": time.time()}


def _wire(delivery: AbstractIncomingMessage) -> Wire:
    return Wire(
        body=delivery.body,
        headers=delivery.headers,
        message_id=delivery.message_id,
        correlation_id=delivery.correlation_id,
        type=delivery.type,
        content_type=delivery.content_type,
        content_encoding=delivery.content_encoding,
        timestamp=delivery.timestamp.timestamp() if delivery.timestamp else None,
        app_id=delivery.app_id,
    )


def _outgoing(route: Route, wire: Wire) -> Outgoing:
    message = aio_pika.Message(
        wire.body,
        headers=encodable(wire.headers),
        message_id=wire.message_id,
        correlation_id=wire.correlation_id,
        type=wire.type,
        content_type=wire.content_type,
        content_encoding=wire.content_encoding,
        timestamp=datetime.fromtimestamp(wire.timestamp, UTC) if wire.timestamp else None,
        app_id=wire.app_id,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )
    return Outgoing(exchange=route.exchange, key=route.key, message=message)


def _journal(body: bytes) -> Wire:
    return Wire(body=body, message_id=uuid7(), content_type="application/json", app_id=APP_ID, type="journal")

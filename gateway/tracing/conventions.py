"""What spans are called and what they say, by OpenTelemetry's semantic conventions for messaging, RabbitMQ and HTTP.

Owns the names. Pure: values in, values out. What no convention has a name for begins with `lazaretto.`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

from gateway.contract.envelope import Envelope
from gateway.contract.topology import Lane, Route
from gateway.contract.wire import Wire


class Role(StrEnum):
    """Of whoever does it, towards others; the conventions' kinds of spans."""

    SERVER = "server"
    CLIENT = "client"
    PRODUCER = "producer"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is known of an operation when it begins."""

    name: str
    role: Role
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """That an operation ended badly."""

    type: str
    """A word of a bounded vocabulary: an outcome, a fate, an HTTP status."""
    detail: str = ""
    """A sentence for a person."""


def serving(method: str, path: str, route: str | None) -> Operation:
    """A request that is answered; `route` is its path with names in place of values, where there is one."""
    attributes = {"http.request.method": method, "url.path": path, **({"http.route": route} if route else {})}
    return Operation(name=f"{method} {route}" if route else method, role=Role.SERVER, attributes=attributes)


def answered(status: int) -> tuple[dict[str, Any], Error | None]:
    """Return how a request ended: a refusal is the client's doing, and no error of the server."""
    attributes = {"http.response.status_code": status}
    return attributes, Error(type=str(status)) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else None


def sending(wire: Wire, route: Route) -> Operation:
    """A message that is published: its context is what travels on it."""
    destination = ":".join(part for part in (route.exchange, route.key) if part)
    return _messaging(
        "send",
        "send",
        Role.PRODUCER,
        destination,
        {"messaging.rabbitmq.destination.routing_key": route.key, **_of_wire(wire)},
    )


def processing(envelope: Envelope, message_id: str | None, queue: str, lane: Lane) -> Operation:
    """A run, from its license to its settlement."""
    return _messaging("process", "process", Role.CONSUMER, queue, _of_item(envelope, message_id, lane))


def settling(envelope: Envelope, message_id: str | None, queue: str, lane: Lane) -> Operation:
    """The end of a start whose holder vanished, and with it that start's own span."""
    return _messaging("settle", "settle", Role.CLIENT, queue, _of_item(envelope, message_id, lane))


def receiving(wire: Wire, queue: str) -> Operation:
    """An item that is taken into the store, from its arrival to the acknowledgement."""
    return _messaging("receive", "process", Role.CONSUMER, queue, _of_wire(wire))


def _messaging(name: str, kind: str, role: Role, destination: str, of_message: dict[str, Any]) -> Operation:
    attributes = {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": destination,
        **of_message,
    }
    return Operation(name=f"{name} {destination}", role=role, attributes=attributes)


_OF_HEADERS: Final = {
    "lz-generation": "lazaretto.generation",
    "lz-attempt": "lazaretto.attempt",
    "lz-reason": "lazaretto.reason",
}


def _of_wire(wire: Wire) -> dict[str, Any]:
    """Return what a message says of itself; anybody may have sent it, so nothing is taken for read."""
    said = {name: wire.headers.get(header) for header, name in _OF_HEADERS.items()}
    return {
        **_of_message(wire.message_id, wire.correlation_id, len(wire.body)),
        **({"lazaretto.kind": wire.type} if wire.type else {}),
        **{name: value for name, value in said.items() if isinstance(value, str | int)},
    }


def _of_item(envelope: Envelope, message_id: str | None, lane: Lane) -> dict[str, Any]:
    return {
        "messaging.rabbitmq.destination.routing_key": lane.value,
        **_of_message(message_id, envelope.ticket, len(envelope.body)),
        "lazaretto.kind": envelope.kind,
        "lazaretto.lane": lane.value,
        "lazaretto.generation": envelope.generation,
        "lazaretto.attempt": envelope.attempt,
        "lazaretto.interruptions": envelope.interruptions,
    }


def _of_message(message_id: str | None, ticket: str | None, size: int) -> dict[str, Any]:
    known = {"messaging.message.id": message_id, "messaging.message.conversation_id": ticket}
    return {**{name: value for name, value in known.items() if value}, "messaging.message.body.size": size}

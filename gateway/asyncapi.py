"""The AsyncAPI description of what lies behind the door, as data: queues, exchanges, and who sends what to where.

Owns the channels and operations, made of `gateway.contract.topology`. The messages are `gateway.asyncapi_messages`.
"""

import functools
from typing import Any, Final

from gateway import __version__
from gateway.asyncapi_messages import alerts, messages
from gateway.contract.topology import Exchange, Lane, Queue, Topology

_BINDING: Final = "0.3.0"
_ITEMS: Final = ("item", "stranger")
_HELD: Final = ("exhausted", "malformed", "item", "stranger")
"""The broker dead-letters what it gave up on as it is."""


@functools.cache
def document(topology: Topology) -> dict[str, Any]:
    """Return the description of the queues and exchanges under a prefix."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Lazaretto behind the door",
            "version": __version__,
            "description": "The wire contract between door, fleet and station, on RabbitMQ. Properties of messages"
            " stand in x-amqp-properties, arguments of queues in x-arguments.",
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/octet-stream",
        "channels": {
            **{f"queue.{queue.name}": _queue(queue, _held_by(topology, queue.name)) for queue in topology.queues()},
            **{
                f"exchange.{exchange.name}": _exchange(exchange, _sent_to(topology, exchange.name))
                for exchange in topology.exchanges()
            },
        },
        "operations": _operations(topology),
        "components": {"messages": messages()},
    }


def _held_by(topology: Topology, queue: str) -> tuple[str, ...]:
    if queue == topology.journal_queue:
        return ("journal",)
    return _HELD if queue == topology.quarantine_queue else _ITEMS


def _sent_to(topology: Topology, exchange: str) -> tuple[str, ...]:
    if exchange == topology.alerts_exchange:
        return tuple(alerts())
    return _HELD if exchange == topology.to_quarantine("").exchange else _ITEMS


def _queue(queue: Queue, held: tuple[str, ...]) -> dict[str, Any]:
    declared = {"name": queue.name, "durable": True, "exclusive": False, "autoDelete": False}
    return {
        "address": queue.name,
        "messages": _named(held),
        "bindings": {"amqp": {"is": "queue", "queue": declared, "bindingVersion": _BINDING}},
        "x-arguments": dict(queue.arguments),
    }


def _exchange(exchange: Exchange, sent: tuple[str, ...]) -> dict[str, Any]:
    declared = {"name": exchange.name, "type": exchange.type, "durable": True, "autoDelete": False}
    return {
        "address": exchange.name,
        "messages": _named(sent),
        "bindings": {"amqp": {"is": "routingKey", "exchange": declared, "bindingVersion": _BINDING}},
    }


def _operations(topology: Topology) -> dict[str, Any]:
    entry = f"exchange.{topology.to_lane(Lane.WORK).exchange}"
    quarantine = f"exchange.{topology.to_quarantine('').exchange}"
    journal = f"queue.{topology.journal_queue}"
    held = f"queue.{topology.quarantine_queue}"
    told = f"exchange.{topology.alerts_exchange}"
    runs = {
        f"run_{lane}": _operation(
            "receive", f"queue.{topology.lane_queue(lane)}", _ITEMS, f"A node takes {lane} items."
        )
        for lane in Lane
    }
    return {
        "submit": _operation(
            "send",
            entry,
            ("item",),
            "The door has admitted a ticket. Routing key: work; suspects for what a pass let in.",
        ),
        "report": _operation("send", journal, ("journal",), "Door and nodes tell what happened."),
        **runs,
        "settle": _operation(
            "send", entry, ("item",), "A node sends an item back to a lane, or into the delay ladder."
        ),
        "hold": _operation("send", quarantine, ("exhausted", "malformed"), "A node gives an item up. Key: its kind."),
        "keep": _operation("receive", held, _HELD, "The station takes it in."),
        "record": _operation("receive", journal, ("journal",), "The station stores the events."),
        "replay": _operation("send", entry, ("item",), "A reviewer sends an item again, as a new generation."),
        "alert": _operation("send", told, tuple(alerts()), "The station, or a node, tells people. Key: the event."),
    }


def _operation(action: str, channel: str, sent: tuple[str, ...], summary: str) -> dict[str, Any]:
    at = f"#/channels/{channel}"
    return {
        "action": action,
        "summary": summary,
        "channel": {"$ref": at},
        "messages": [{"$ref": f"{at}/messages/{name}"} for name in sent],
    }


def _named(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}

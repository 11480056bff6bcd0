"""What an alert is and the ways of our own that it can take: the log and the alert exchange.

Owns how each is spoken to. A channel sends once and says whether it could; retrying is the outbox's.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson

from gateway.contract.ids import uuid7
from gateway.contract.logs import event
from gateway.contract.topology import Topology
from gateway.contract.wire import Wire
from gateway.station.holding import AlertEvent
from gateway.station.sender import NotSent, Sender, Unconfirmed


class ChannelFailed(Exception):
    """The alert did not go out this way, or perhaps did not; the text says why."""


class ChannelUnusable(ValueError):
    """A configured alert URL that nothing can be sent to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One alert, ready to go out."""

    event: AlertEvent
    title: str
    text: str
    fields: Mapping[str, Any]
    """The same facts, for machines and for the log line."""


class Channel(Protocol):
    """One way to reach people."""

    @property
    def name(self) -> str:
        """How the outbox calls it; the same at every start with the same settings."""

    async def send(self, notice: Notice) -> None:
        """Send once; raises ChannelFailed."""


class LogChannel:
    """One line at level WARNING, which every log pipeline can alert on."""

    name: Final = "log"

    def __init__(self) -> None:
        self._logger = logging.getLogger("lazaretto.alerts")

    async def send(self, notice: Notice) -> None:
        """Write the line."""
        level = logging.INFO if notice.event is AlertEvent.RESOLVED else logging.WARNING
        event(self._logger, notice.event.value, level, **notice.fields)


class ExchangeChannel:
    """A JSON message to the topic exchange that anyone may bind; nobody has to."""

    name: Final = "exchange"

    def __init__(self, sender: Sender, topology: Topology) -> None:
        self._sender = sender
        self._topology = topology

    async def send(self, notice: Notice) -> None:
        """Publish it, confirmed."""
        body = orjson.dumps({"event": notice.event.value, **notice.fields, "text": notice.text}, default=str)
        wire = Wire(
            body=body,
            message_id=uuid7(),
            correlation_id=str(notice.fields["ticket"]) if "ticket" in notice.fields else None,
            type=notice.event.value,
            content_type="application/json",
        )
        try:
            await self._sender.send(self._topology.to_alerts(notice.event.value), wire, mandatory=False)
        except (NotSent, Unconfirmed) as error:
            raise ChannelFailed(str(error)) from error

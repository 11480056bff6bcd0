"""What an alert is and the ways of our own that it can take: the log and the alert exchange.

Owns how each is spoken to. A channel sends once and says whether it could; retrying is the outbox's.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable

import orjson

from gateway.contract.ids import uuid7
from gateway.contract.logs import event
from gateway.contract.topology import Route, Topology
from gateway.contract.wire import Wire
from gateway.station.holding import AlertEvent
from gateway.station.sender import Sender

_MANY: Final = 128
"""Where sending one takes no time of anybody's. A station that is killed before it has marked them says them twice."""


class ChannelFailed(Exception):
    """The alert did not go out this way, or perhaps did not; the text says why."""


class ChannelUnusable(ValueError):
    """A configured alert URL that nothing can be sent to."""


class AlertRefused(ChannelFailed):
    """The other side is there, and does not take this alert."""


class Manner(StrEnum):
    """How much a channel bears."""

    EACH = "each"
    """Machines read it: every alert is a message of its own."""
    FEW = "few"
    """People read it: what is too much becomes one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One alert, ready to go out."""

    event: AlertEvent
    key: str
    """What it is about, the same however often it is sent, and when it is resolved."""
    title: str
    text: str
    fields: Mapping[str, Any]
    """The same facts, for machines and for the log line."""
    began_at: float
    """Unix seconds."""
    over_at: float | None = None
    """When what it is about was over; None while it lasts."""


class Channel(Protocol):
    """One way to reach people."""

    @property
    def name(self) -> str:
        """How the outbox calls it; the same at every start with the same settings."""

    @property
    def manner(self) -> Manner:
        """How much it bears."""

    @property
    def at_once(self) -> int:
        """How many it may be sent before the first of them has arrived; they are marked together."""

    async def send(self, notice: Notice) -> str | None:
        """Send once, and return what the other side calls it, if it says; raises ChannelFailed."""

    async def close(self) -> None:
        """Let go of what it holds."""


@runtime_checkable
class Swift(Channel, Protocol):
    """One of which many alerts leave together: a task for each would cost more than its sending."""

    async def send_all(self, notices: Sequence[Notice]) -> Sequence[str | ChannelFailed | None]:
        """Send each once, and return of each what `send` returns or raises."""


class Mirror(Protocol):
    """A place that shows what is going on now, and forgets what it does not hear of again."""

    @property
    def name(self) -> str:
        """How the outbox calls it; the same at every start with the same settings."""

    @property
    def expiry(self) -> float:
        """After how many seconds it takes for over what it does not hear of."""

    async def show(self, notices: Sequence[Notice]) -> None:
        """Say how these stand; raises ChannelFailed, and AlertRefused where one of them is no good."""

    async def close(self) -> None:
        """Let go of what it holds."""


class LogChannel:
    """One line at level WARNING, which every log pipeline can alert on."""

    name: Final = "log"
    manner: Final = Manner.EACH
    at_once: Final = _MANY

    def __init__(self) -> None:
        self._logger = logging.getLogger("lazaretto.alerts")

    async def send(self, notice: Notice) -> None:
        """Write the line."""
        level = logging.INFO if notice.event in _GOOD_NEWS else logging.WARNING
        event(self._logger, notice.event.value, level, **notice.fields)

    async def send_all(self, notices: Sequence[Notice]) -> list[None]:
        """Write a line for each."""
        for notice in notices:
            await self.send(notice)
        return [None] * len(notices)

    async def close(self) -> None:
        """Hold nothing."""


class ExchangeChannel:
    """A JSON message to the topic exchange that anyone may bind; nobody has to."""

    name: Final = "exchange"
    manner: Final = Manner.EACH
    at_once: Final = _MANY

    def __init__(self, sender: Sender, topology: Topology) -> None:
        self._sender = sender
        self._topology = topology

    async def send(self, notice: Notice) -> None:
        """Publish it, confirmed."""
        (failed,) = await self.send_all([notice])
        if failed is not None:
            raise failed

    async def send_all(self, notices: Sequence[Notice]) -> list[ChannelFailed | None]:
        """Publish all at once, each confirmed."""
        fates = await self._sender.send_all([self._message(notice) for notice in notices], mandatory=False)
        return [None if fate is None else ChannelFailed(str(fate)) for fate in fates]

    def _message(self, notice: Notice) -> tuple[Route, Wire]:
        body = orjson.dumps({"event": notice.event.value, **notice.fields, "text": notice.text}, default=str)
        wire = Wire(
            body=body,
            message_id=uuid7(),
            correlation_id=str(notice.fields["ticket"]) if "ticket" in notice.fields else None,
            type=notice.event.value,
            content_type="application/json",
        )
        return self._topology.to_alerts(notice.event.value), wire

    async def close(self) -> None:
        """Hold nothing; the sender is the station's."""


_GOOD_NEWS: Final = frozenset({AlertEvent.RESOLVED, AlertEvent.STORM_LIFTED, AlertEvent.TEST})

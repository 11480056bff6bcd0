"""The ways an alert can take: the log, the alert exchange, Apprise URLs.

Owns how each is spoken to and by when it must have answered. A channel sends once and says whether it could; retrying
is the outbox's.
"""

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import apprise
import orjson

from gateway.contract.ids import uuid7
from gateway.contract.logs import event
from gateway.contract.topology import Route, Topology
from gateway.contract.wire import Wire
from gateway.station.holding import AlertEvent
from gateway.station.sender import NotSent, Sender, Unconfirmed

NOTIFY_DEADLINE: Final = 15.0
"""Seconds for one Apprise URL; its services have timeouts of their own below that."""


class ChannelFailed(Exception):
    """The alert did not go out this way, or perhaps did not; the text says why."""


class ChannelUnusable(ValueError):
    """A configured alert URL that Apprise cannot read."""


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
        level = logging.WARNING if notice.event is AlertEvent.QUARANTINED else logging.INFO
        event(self._logger, notice.event.value, level, **notice.fields)


class ExchangeChannel:
    """A JSON message to the topic exchange that anyone may bind; nobody has to."""

    name: Final = "exchange"

    def __init__(self, sender: Sender, topology: Topology) -> None:
        self._sender = sender
        self._exchange = topology.alerts_exchange

    async def send(self, notice: Notice) -> None:
        """Publish it, confirmed."""
        body = orjson.dumps({"event": notice.event.value, **notice.fields, "text": notice.text}, default=str)
        wire = Wire(
            body=body,
            message_id=uuid7(),
            correlation_id=str(notice.fields["ticket"]),
            type=notice.event.value,
            content_type="application/json",
        )
        try:
            await self._sender.send(Route(exchange=self._exchange, key=notice.event.value), wire, mandatory=False)
        except (NotSent, Unconfirmed) as error:
            raise ChannelFailed(str(error)) from error


class AppriseChannel:
    """One Apprise URL: Slack, mail, PagerDuty, a plain JSON hook, ..."""

    def __init__(self, url: str) -> None:
        scheme = url.partition("://")[0] if "://" in url else "scheme-less"
        # The URL holds secrets; a name has to stay the same when URLs are reordered, and must not tell them.
        self.name = f"apprise:{scheme}:{hashlib.sha256(url.encode()).hexdigest()[:8]}"
        self._service = apprise.Apprise()
        if not self._service.add(url):
            raise ChannelUnusable(f"Apprise cannot read the {scheme} URL")

    async def send(self, notice: Notice) -> None:
        """Notify in a thread, since Apprise blocks."""
        kind = apprise.NotifyType.FAILURE if notice.event is AlertEvent.QUARANTINED else apprise.NotifyType.SUCCESS
        call = asyncio.to_thread(
            self._service.notify,
            title=notice.title,
            body=notice.text,
            notify_type=kind,
            body_format=apprise.NotifyFormat.TEXT,
        )
        try:
            async with asyncio.timeout(NOTIFY_DEADLINE):
                taken = await call
        except TimeoutError as error:
            raise ChannelFailed(f"no answer within {NOTIFY_DEADLINE:g} s") from error
        except Exception as error:
            # A plugin of a third party may raise anything; the outbox keeps what it said and tries again.
            raise ChannelFailed(f"{type(error).__name__}: {error}") from error
        if not taken:
            raise ChannelFailed("the service did not take it")


def configured(urls: Sequence[str], sender: Sender, topology: Topology) -> list[Channel]:
    """Return every channel of these settings; raises ChannelUnusable."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    return [LogChannel(), ExchangeChannel(sender, topology), *(AppriseChannel(url) for url in urls)]

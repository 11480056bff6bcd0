"""The channels that the settings name, made ready.

Owns which there are. A library for a way that nobody has configured is not loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.settings import StationSettings
from gateway.station.channels import Channel, ExchangeChannel, LogChannel, Mirror
from gateway.station.escalations import ESCALATION
from gateway.station.sender import Sender


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """Everybody who is told."""

    channels: Sequence[Channel]
    mirrors: Sequence[Mirror]

    @property
    def names(self) -> list[str]:
        """What is owed to whom, by name."""
        return [*(channel.name for channel in self.channels), *(mirror.name for mirror in self.mirrors)]

    @property
    def names_for_operators(self) -> list[str]:
        """The same without people outside, who are told of items alone."""
        return [name for name in self.names if name != ESCALATION]


def channels(settings: StationSettings, sender: Sender) -> Alerting:
    """Return the channels; raises ChannelUnusable for an Apprise URL that cannot be read."""
    found: list[Channel] = [LogChannel(), ExchangeChannel(sender, settings.topology)]
    if settings.alert_urls:
        from gateway.station import apprise_channel  # noqa: PLC0415 - a third of a second, which few stations need

        found += apprise_channel.channels(settings.alert_urls)
    if (escalation := _escalation(settings)) is not None:
        found.append(escalation)
    return Alerting(channels=found, mirrors=_mirrors(settings))


def _mirrors(settings: StationSettings) -> list[Mirror]:
    if not settings.alertmanager_url:
        return []
    from gateway.station.alertmanager import Alertmanager  # noqa: PLC0415 - brings an HTTP client along

    return [Alertmanager(url, expiry=settings.alertmanager_expiry) for url in settings.alertmanager_url]


def _escalation(settings: StationSettings) -> Channel | None:
    server = settings.mail_server
    if not settings.escalation_url and (not settings.escalation_mail or server is None):
        return None
    from gateway.station import escalation_channels  # noqa: PLC0415 - the same

    if server is not None and settings.escalation_mail:
        return escalation_channels.EscalationMail(server, sender=settings.sender_mailbox, to=settings.escalation_mail)
    return escalation_channels.EscalationWebhook(settings.escalation_webhook, private=settings.escalation_private)

"""Who is told of alerts, how much of them, and to whom items are handed over: a part of the station's settings.

Owns defaults and bounds of these. Quotes no URL, since most of them hold a secret.
"""

import socket
from dataclasses import dataclass, field
from typing import Annotated, Final, Self
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from gateway.callback import Callback
from gateway.setting_values import Seconds, Switch, Texts, listed
from gateway.station.pace import Rate

_SMTP: Final = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """Where mail is handed in."""

    host: str
    port: int
    tls: bool
    """From the first byte; else as soon as the server offers it."""
    user: str = ""
    password: str = field(default="", repr=False)


def _alertmanagers(value: object) -> object:
    urls = listed(value)
    for url in urls if isinstance(urls, tuple) else ():
        if not _is_web(url):
            raise ValueError("write http://host:9093 or https://host/prefix, the members of a cluster with commas")
    return urls


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and parts.scheme in {"http", "https"} and not parts.query and not parts.fragment


def _mail_server(value: object) -> object:
    if isinstance(value, str) and value and _read_server(value) is None:
        raise ValueError("write smtp://host:25 or smtps://user:password@host:465")
    return value


def _read_server(url: str) -> MailServer | None:
    try:
        parts = urlsplit(url)
        if parts.scheme not in _SMTP or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            return None
        return MailServer(
            host=parts.hostname,
            port=parts.port or _SMTP[parts.scheme],
            tls=parts.scheme == "smtps",
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )
    except ValueError:  # whose text may quote the password
        return None


def _mailboxes(value: object) -> object:
    boxes = listed(value)
    for box in boxes if isinstance(boxes, tuple) else ():
        name, at, host = box.rpartition("@")
        if not (name and at and host and box.isascii() and box.isprintable() and not set(' <>"') & set(box)):
            raise ValueError("write name@host, several separated by commas")
    return boxes


def _mailbox(value: object) -> object:
    boxes = _mailboxes(value)
    if isinstance(boxes, tuple) and len(boxes) > 1:
        raise ValueError("write one name@host")
    return value


class AlertSettings(BaseModel):
    """What the station reads about alerts and escalation."""

    alert_urls: Texts = Field(default=(), description="Apprise URLs that get every alert, comma separated")
    alert_rate: int = Field(
        default=10,
        ge=0,
        le=1000,
        description="single messages through one Apprise URL in that time; what is more is told in one",
    )
    alert_span: Seconds = Field(default=60.0, ge=1, le=3600, description="time that the alert rate is counted over")
    alertmanager_url: Annotated[tuple[str, ...], BeforeValidator(_alertmanagers)] = Field(
        default=(), description="Alertmanager that is told what is going on; all members of a cluster, comma separated"
    )
    alertmanager_expiry: Seconds = Field(
        default=900.0,
        ge=3,
        description="time after which it takes for over what it does not hear of; told again every fifteenth of it",
    )
    escalation_url: str = Field(
        default="", description="webhook that each item is handed over to, once; empty: by mail, or not at all"
    )
    escalation_secret: Texts = Field(
        default=(), description="secrets that its messages are signed with: whsec_ and base64, comma separated"
    )
    escalation_private: Switch = Field(
        default=False, description="on: that webhook may be at a private address, and in clear"
    )
    escalation_mail: Annotated[tuple[str, ...], BeforeValidator(_mailboxes)] = Field(
        default=(), description="mailboxes that each item is handed over to, once, comma separated"
    )
    smtp_url: Annotated[str, BeforeValidator(_mail_server)] = Field(
        default="", description="mail server: smtp://host:25, smtps://user:password@host:465"
    )
    mail_from: Annotated[str, BeforeValidator(_mailbox)] = Field(
        default="", description="mailbox that mail comes from; empty: lazaretto at this machine's name"
    )

    @property
    def alert_pace(self) -> Rate:
        """How many messages people get."""
        return Rate(most=self.alert_rate, span=self.alert_span)

    @property
    def mail_server(self) -> MailServer | None:
        """The mail server, if there is one."""
        return _read_server(self.smtp_url)

    @property
    def sender_mailbox(self) -> str:
        """Where mail comes from."""
        return self.mail_from or f"lazaretto@{socket.getfqdn()}"

    @property
    def escalation_webhook(self) -> list[Callback]:
        """The webhook with each of its secrets; raises ValueError, which quotes none of them."""
        return [Callback.read({"url": self.escalation_url, "secret": secret}) for secret in self.escalation_secret]

    @model_validator(mode="after")
    def _check_escalation(self) -> Self:
        problems = []
        if self.escalation_url and self.escalation_mail:
            problems.append("LAZARETTO_ESCALATION_URL, LAZARETTO_ESCALATION_MAIL: an item is handed over once; set one")
        if bool(self.escalation_url) != bool(self.escalation_secret):
            problems.append("LAZARETTO_ESCALATION_URL, LAZARETTO_ESCALATION_SECRET: set both or none")
        elif self.escalation_url:
            try:
                known = self.escalation_webhook
            except ValueError as error:
                problems.append(f"LAZARETTO_ESCALATION_URL, LAZARETTO_ESCALATION_SECRET: {error}")
            else:
                if not self.escalation_private and not known[0].url.startswith("https://"):
                    problems.append("LAZARETTO_ESCALATION_URL: write https://, or set LAZARETTO_ESCALATION_PRIVATE=on")
        if self.escalation_mail and not self.smtp_url:
            problems.append("LAZARETTO_ESCALATION_MAIL: name a mail server in LAZARETTO_SMTP_URL")
        if problems:
            raise ValueError("\n".join(problems))
        return self

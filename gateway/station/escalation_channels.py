"""The two ways in which an item is handed over to people outside: a signed webhook, or mail.

Owns what they are told. Everything that came with a ticket is one printable line before it stands in a mail. What is
sent again has the id of the first time, by which a receiver knows it.
"""

import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Final

import orjson

from gateway.alert_settings import MailServer
from gateway.callback import Callback
from gateway.station import mail
from gateway.station.channels import ChannelFailed, Manner, Notice
from gateway.station.escalations import ESCALATION, MAX_REFERENCE
from gateway.station.holding import AlertEvent
from gateway.station.webhook import NotTaken, Post
from gateway.station.wording import one_line

_IDS: Final = uuid.UUID("5b0a4f0e-6a0d-5d43-9a0c-6d7c5e1a9f3b")
_MOST_READ: Final = 4096
_MAX_SUBJECT: Final = 180


class EscalationWebhook:
    """A signed CloudEvent; the answer may say what the item is called there."""

    name: Final = ESCALATION
    manner: Final = Manner.EACH
    at_once: Final = 1

    def __init__(self, known: Sequence[Callback], *, private: bool) -> None:
        """`known` is the address with each of its secrets; `private` allows addresses inside our network."""
        self._known = known
        self._post = Post(private=private, switch="LAZARETTO_ESCALATION_PRIVATE")

    async def send(self, notice: Notice) -> str | None:
        """Send once, and return the reference that the answer has; raises ChannelFailed."""
        body = orjson.dumps(_event(notice), default=str)
        try:
            answer = await self._post.send(self._known, _message_id(notice), int(time.time()), body, read=_MOST_READ)
        except NotTaken as error:
            raise ChannelFailed(str(error)) from error
        return _reference(answer)

    async def close(self) -> None:
        """Let go of all connections."""
        await self._post.close()


class EscalationMail:
    """A mail to some mailboxes, and others in the same thread when it is decided, or open again after that."""

    name: Final = ESCALATION
    manner: Final = Manner.EACH
    at_once: Final = 1

    def __init__(self, server: MailServer, *, sender: str, to: Sequence[str]) -> None:
        self._server = server
        self._sender = sender
        self._to = to

    async def send(self, notice: Notice) -> None:
        """Hand it in once; raises ChannelFailed."""
        try:
            await mail.send(self._server, self._letter(notice))
        except mail.NotMailed as error:
            raise ChannelFailed(str(error)) from error

    async def close(self) -> None:
        """Hold nothing: each mail has a connection of its own."""

    def _letter(self, notice: Notice) -> EmailMessage:
        letter = EmailMessage()
        letter["Subject"] = one_line(notice.title, _MAX_SUBJECT)
        letter["From"] = self._sender
        letter["To"] = ", ".join(self._to)
        letter["Date"] = format_datetime(datetime.now(UTC))
        letter["Message-ID"] = self._in_thread(notice)
        letter["Auto-Submitted"] = "auto-generated"
        if _message_id(notice) != _opening_id(notice):
            letter["In-Reply-To"] = letter["References"] = f"<{_opening_id(notice)}@lazaretto>"
        letter.set_content("\n".join(_lines(notice)) + "\n")
        return letter

    def _in_thread(self, notice: Notice) -> str:
        return f"<{_message_id(notice)}@lazaretto>"


def _event(notice: Notice) -> dict[str, Any]:
    moment = notice.began_at if notice.over_at is None else notice.over_at
    return {
        "specversion": "1.0",
        "id": _message_id(notice),
        "source": "urn:lazaretto",
        "type": f"lazaretto.escalation.{_phase(notice)}",
        "subject": notice.fields.get("ticket", notice.key),
        "time": datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": {**notice.fields, "title": notice.title, "text": notice.text},
    }


def _phase(notice: Notice) -> str:
    if notice.event is AlertEvent.TEST:
        return "test"
    if notice.event is AlertEvent.RESOLVED:
        return "closed"
    return "reopened" if "reopened_at" in notice.fields else "opened"


def _opening_id(notice: Notice) -> str:
    return str(uuid.uuid5(_IDS, notice.key))


def _message_id(notice: Notice) -> str:
    match _phase(notice):
        case "closed":
            return str(uuid.uuid5(_IDS, f"{notice.key}:closed:{notice.over_at}"))
        case "reopened":
            return str(uuid.uuid5(_IDS, f"{notice.key}:reopened:{notice.fields['reopened_at']}"))
        case _:
            return _opening_id(notice)


def _lines(notice: Notice) -> list[str]:
    """Return the text of a mail. The link stands alone in its line, or programs take what follows it for a part."""
    fields = notice.fields
    told = [(name, fields[name]) for name in ("ticket", "kind", "client", "reason", "link") if fields.get(name)]
    lines = [
        one_line(notice.text, _MOST_READ),
        "",
        *(f"{name.capitalize():8} {one_line(str(it))}" for name, it in told),
    ]
    if notice.event is AlertEvent.QUARANTINED:
        lines += [
            "",
            "Once somebody has taken it on, note what it is called there:",
            f"python -m gateway.station escalations ack {one_line(str(fields['ticket']))} --reference REF --by WHO",
        ]
    return lines


def _reference(answer: bytes) -> str | None:
    """Return the reference in an answer, which may be anything."""
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return None
    reference = found.get("reference") if isinstance(found, dict) else None
    return one_line(reference.strip(), MAX_REFERENCE) if isinstance(reference, str) and reference.strip() else None

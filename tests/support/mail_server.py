"""A real SMTP server on loopback that keeps the mail it takes."""

import email
import email.policy
from email.message import EmailMessage
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from gateway.embedded import free_port


class Mailbox:
    """Takes mail while it is entered; `refuses` is what it answers instead to each, such as `451 later`."""

    def __init__(self) -> None:
        self.letters: list[EmailMessage] = []
        self.refuses: str | None = None
        self.asked = 0
        self._port = free_port()
        self._server: Any = None

    def __enter__(self) -> Self:
        self._server = Controller(self, hostname="127.0.0.1", port=self._port)
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self._port}"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name there
        self.asked += 1
        if self.refuses is not None:
            return self.refuses
        content = envelope.content if isinstance(envelope.content, bytes) else str(envelope.content).encode()
        letter = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(letter, EmailMessage)
        self.letters.append(letter)
        return "250 taken"

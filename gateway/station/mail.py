"""One mail to one server: taken over by it, or not.

Owns how a mail server is spoken to. A password is only said to a server that encrypts, or to this machine itself.
"""

import asyncio
import ipaddress
import logging
from email.message import EmailMessage
from typing import Final

from gateway.alert_settings import MailServer
from gateway.contract.logs import event

DEADLINE: Final = 20.0

logger: Final = logging.getLogger("lazaretto.outbox")


class NotMailed(Exception):
    """The server did not take it, or perhaps did; the text says why."""


async def send(server: MailServer, message: EmailMessage) -> None:
    """Hand one message in; raises NotMailed within twenty seconds, unless it was taken for at least one mailbox."""
    import aiosmtplib  # noqa: PLC0415 - for those who hand over by mail

    secret = bool(server.user) and not _is_here(server.host)
    try:
        async with asyncio.timeout(DEADLINE):
            refused, _ = await aiosmtplib.send(
                message,
                hostname=server.host,
                port=server.port,
                use_tls=server.tls,
                start_tls=False if server.tls else True if secret else None,
                username=server.user or None,
                password=server.password or None,
                timeout=DEADLINE,
            )
    except TimeoutError as error:
        raise NotMailed(f"{server.host} did not take it within {DEADLINE:g} s") from error
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        raise NotMailed(f"{type(error).__name__}: {error}") from error
    if refused:  # to send it again would have those read it twice who have got it
        event(logger, "mail.refused", logging.WARNING, server=server.host, mailboxes=",".join(sorted(refused)))


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

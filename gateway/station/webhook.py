"""One signed message to one address: sent once, and whether it was taken.

Owns where a message may go: never to an address inside our network, whatever a name resolves to at that moment, unless
that is allowed. Follows no redirect, uses no proxy and reads of an answer no more than somebody asked for.
"""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Sequence
from typing import Any, Final

import aiohttp

from gateway.callback import Callback, signature

DEADLINE: Final = 10.0
ANSWER_DEADLINE: Final = 3.0
CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
_TAKEN: Final = range(200, 300)
_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class NotTaken(Exception):
    """The other side did not take it, or perhaps did; the text says why."""


class Post:
    """Sends messages; `close` when done."""

    def __init__(self, *, private: bool, switch: str = "LAZARETTO_CALLBACK_PRIVATE") -> None:
        """`private` allows plain http, and addresses inside our network; `switch` is the setting that does."""
        self._private = private
        self._switch = switch
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, known: Sequence[Callback], event_id: str, timestamp: int, body: bytes, *, read: int = 0
    ) -> bytes:
        """Send once, signed with every secret that the other side may know; raises NotTaken within ten seconds.

        Returns the first `read` bytes of the answer of one that took it, where they came in that time.
        """
        url = known[0].url
        if not self._private and not url.startswith("https://"):
            raise NotTaken(f"plain http, which {self._switch}=on would allow")
        headers = {
            "Content-Type": CONTENT_TYPE,
            "User-Agent": "lazaretto",
            "webhook-id": event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(known, event_id, timestamp, body),
        }
        try:
            # A second deadline around the client's own: it does not count what its name service takes.
            async with asyncio.timeout(DEADLINE):
                status, said = await self._post(url, body, headers, read)
        except TimeoutError as error:
            raise NotTaken(f"no answer within {DEADLINE:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NotTaken(f"{type(error).__name__}: {error}") from error
        if status not in _TAKEN:
            raise NotTaken(f"it answered {status}")
        return said

    async def close(self) -> None:
        """Let go of all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, url: str, body: bytes, headers: dict[str, str], read: int) -> tuple[int, bytes]:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                socket_factory=self._socket, force_close=True, use_dns_cache=False, limit=0
            )
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        answer = await self._session.post(url, data=body, headers=headers, allow_redirects=False)
        try:
            return answer.status, await _beginning(answer, read) if answer.status in _TAKEN else b""
        finally:
            answer.close()  # unread beyond that

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """Make the socket for one address that a name has at this moment."""
        family, kind, protocol, _, at = address
        if not self._private and not _is_public(str(at[0])):
            raise PermissionError(errno.EACCES, f"{at[0]} is inside a private network")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)  # noqa: FBT003 - the socket's own signature
        return made


async def _beginning(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the first bytes of an answer. It was taken, whatever becomes of the rest of what it says."""
    found = b""
    try:
        async with asyncio.timeout(ANSWER_DEADLINE):
            while len(found) < most and (part := await answer.content.read(most - len(found))):
                found += part
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
        return found
    return found


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return _is_public(str(inner))
        if address not in _GLOBAL_UNICAST:  # site-local, IPv4-compatible, translated, local NAT64: "global" to Python
            return False
    return address.is_global and not address.is_multicast

"""Where a request came from, said by the connection and by proxies that we trust, and by nobody else.

Pure. The address is for people who read logs; nothing is ever allowed because of it.
"""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_MOST_HOPS: Final = 32
_MOST_CHARACTERS: Final = 8190
"""A client can make a proxy pass on as much as the server reads; nobody has to look at all of it."""
_PAIR: Final = re.compile(r'\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)=("(?:[^"\\]|\\.)*"|[^";,\s]*)\s*')


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Read addresses and CIDR ranges; raises ValueError for what is none."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def client_address(
    peer: str | None, *, forwarded: Sequence[str], x_forwarded_for: Sequence[str], trusted: Sequence[Network]
) -> str | None:
    """Return the address of the nearest hop that is no trusted proxy; the header values count only from one that is.

    Each proxy adds to the right, so the right-most address that no trusted proxy has wins. Where both kinds of header
    are there and differ, one of them may be the client's own invention: then the proxy's address is all we know.
    """
    address = _address(peer or "")
    if address is None or not _is_trusted(address, trusted):
        return None if address is None else str(address)
    if sum(map(len, (*forwarded, *x_forwarded_for))) > _MOST_CHARACTERS:
        return str(address)
    told = {
        str(_walk(address, hops, trusted))
        for values, hops in ((forwarded, _forwarded(forwarded)), (x_forwarded_for, _x_forwarded_for(x_forwarded_for)))
        if values
    }
    return told.pop() if len(told) == 1 else str(address)


def _walk(nearest: Address, hops: Iterator[str], trusted: Sequence[Network]) -> Address:
    for _, hop in zip(range(_MOST_HOPS), hops, strict=False):
        address = _address(hop)
        if address is None:  # hidden, or nonsense: what lies beyond it was not said by anybody we trust
            break
        nearest = address
        if not _is_trusted(address, trusted):
            break
    return nearest


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)


def _x_forwarded_for(values: Sequence[str]) -> Iterator[str]:
    yield from (hop.strip() for hop in reversed(",".join(values).split(",")))


def _forwarded(values: Sequence[str]) -> Iterator[str]:
    """Yield the `for` of each element, nearest first (RFC 7239); an empty text for one without."""
    for element in reversed(_split(",".join(values), ",")):
        found = ""
        for pair in _split(element, ";"):
            match = _PAIR.fullmatch(pair)
            if match is not None and match[1].lower() == "for":
                found = match[2].removeprefix('"').removesuffix('"')
        yield found


def _split(text: str, at: str) -> list[str]:
    """Split outside quoted strings."""
    parts, quoted, escaped, begin = [], False, False, 0
    for index, letter in enumerate(text):
        if escaped:
            escaped = False
        elif letter == "\\" and quoted:
            escaped = True
        elif letter == '"':
            quoted = not quoted
        elif letter == at and not quoted:
            parts.append(text[begin:index])
            begin = index + 1
    return [*parts, text[begin:]]


def _address(text: str) -> Address | None:
    """Read an address with or without a port; an IPv4 address in IPv6 form is the IPv4 address."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address

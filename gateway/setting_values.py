"""How the values of settings are written, for pydantic to read: addresses, lists, switches, URLs, durations, sizes.

Owns what each kind of value may look like. No answer quotes what may hold a password.
"""

import ipaddress
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Discriminator, Json, Tag
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from yarl import URL

from gateway.client_address import networks
from gateway.contract import knobs
from gateway.depot import problem

_MAX_PORT: Final = 65535


class Address(NamedTuple):
    """Where a program listens; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_everywhere(self) -> bool:
        """Tell whether it stands for all addresses of this machine."""
        return self.host in {"0.0.0.0", "::"}  # noqa: S104 - read, not listened on


def _address(value: object) -> object:
    if not isinstance(value, str):
        return value
    host, colon, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > _MAX_PORT:
        raise ValueError("write host:port, such as 127.0.0.1:8080")
    return Address(host, int(port))


def listed(value: object) -> object:
    """Return text with commas as a tuple of its parts; anything else as it is."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _proxies(value: object) -> object:
    parts = listed(value)
    if isinstance(parts, tuple):
        networks(parts)  # whose ValueError names what is no address
    return parts


def _switch(value: object) -> object:
    if isinstance(value, str) and value in {"on", "off"}:
        return value == "on"
    if isinstance(value, bool):
        return value
    raise ValueError("write on or off")


def _broker_url(value: object) -> object:
    urls = listed(value)
    for url in urls if isinstance(urls, tuple) else ():
        if not _names_a_broker(url):
            raise ValueError("write amqp://user:password@host:port/ or amqps://..., several separated by commas")
    return urls


def _names_a_broker(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"amqp", "amqps"} and bool(parts.hostname) and parts.port != 0 and bool(URL(url).host)
    except ValueError:  # whose text may quote the password
        return False


def _store_url(value: object) -> object:
    # The URL may hold a password, so no answer quotes it.
    if not isinstance(value, str) or not value:
        return value
    try:
        url = make_url(value)
        dialect = url.get_dialect()
        usable = dialect.is_async and dialect.name in {"sqlite", "postgresql"}
        if usable:
            dialect.import_dbapi()
    except ImportError as error:
        raise ValueError(f"the driver of this URL is not installed: {error}") from error
    except (SQLAlchemyError, ValueError) as error:
        raise ValueError("write sqlite+aiosqlite:///path/of/station.db") from error
    if not usable:
        raise ValueError("write sqlite+aiosqlite:///path/of/station.db: no other store can be used")
    if dialect.name == "sqlite" and url.database in {None, "", ":memory:"}:
        raise ValueError("name a file after sqlite+aiosqlite:///, which all programs share")
    return value


def _depot(value: object) -> object:
    wrong = problem(value) if isinstance(value, str) else None
    if wrong is not None:
        raise ValueError(wrong)
    return value


def _reached_as(value: object) -> object:
    if (
        isinstance(value, str)
        and value
        and (urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname)
    ):
        raise ValueError("write http://host:port or https://host")
    return value


Seconds = Annotated[float, BeforeValidator(knobs.duration)]
Bytes = Annotated[int, BeforeValidator(knobs.size)]
Listen = Annotated[Address, BeforeValidator(_address)]
Switch = Annotated[bool, BeforeValidator(_switch)]
Urls = Annotated[tuple[str, ...], BeforeValidator(_broker_url)]
StoreUrl = Annotated[str, BeforeValidator(_store_url)]
Depot = Annotated[str, BeforeValidator(_depot)]
WebAddress = Annotated[str, BeforeValidator(_reached_as)]
Proxies = Annotated[tuple[str, ...], BeforeValidator(_proxies)]
Texts = Annotated[tuple[str, ...], BeforeValidator(listed)]
Table = Annotated[
    Annotated[Json[dict[str, Any]], Tag("json")] | Annotated[dict[str, Any], Tag("table")],
    Discriminator(lambda value: "json" if isinstance(value, str) else "table"),
]
"""JSON in the environment, a table in the file; the former replaces the latter whole."""


def unit(annotation: object, metadata: list[Any]) -> str:
    """Return in which form, or of what kind, a setting is written, for `--help`."""
    readers = {part.func for part in metadata if isinstance(part, BeforeValidator)}
    units: dict[Any, str] = {
        knobs.duration: "seconds, or 500ms, 30s, 5m, 1h",
        knobs.size: "bytes, or 512KiB, 4MB",
        _switch: "on or off",
        _address: "host:port",
    }
    found = [written for reader, written in units.items() if reader in readers]
    if found:
        return found[0]
    return "count" if annotation is int else "text"

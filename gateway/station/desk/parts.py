"""What the desk's handlers find in the application and in a request.

Owns the names of these parts, so that no handler has to know how another was put together.
"""

import asyncio
from typing import Any, Final

from aiohttp import web

from gateway.settings import StationSettings
from gateway.station.desk.almanac import Almanac
from gateway.station.desk.bulletin import Bulletin
from gateway.station.desk.doorkeeper import Doorkeeper
from gateway.station.desk.reveals import Reveals
from gateway.station.identity import Identity
from gateway.station.sender import Sender
from gateway.station.store import Store
from gateway.station.vitals import Vitals

SETTINGS: Final = web.AppKey("settings", StationSettings)
STORE: Final = web.AppKey("store", Store)
VITALS: Final = web.AppKey("vitals", Vitals)
NAMES: Final = web.AppKey("names", frozenset[str])
DOORKEEPER: Final = web.AppKey("doorkeeper", Doorkeeper)
SENDER: Final = web.AppKey("sender", Sender)
REVEALS: Final = web.AppKey("reveals", Reveals)
BULLETIN: Final = web.AppKey("bulletin", Bulletin)
ALMANAC: Final = web.AppKey("almanac", Almanac)
LISTENERS: Final[web.AppKey[set[asyncio.Task[Any]]]] = web.AppKey("listeners", set)

IDENTITY: Final = web.RequestKey("identity", Identity)
"""On every request that `guard` let pass, but for those to what is open to everybody."""
HOLDER: Final = web.RequestKey("holder", str)
"""Whom the tokens of this request's forms are issued to."""


def who(request: web.Request) -> Identity:
    """Return who asks."""
    return request[IDENTITY]


def link(request: web.Request, ticket: str) -> str:
    """Return the address of a ticket's page, as people reach it."""
    return f"{request.app[SETTINGS].desk_link}/items/{ticket}"

"""The desk, put together: its pages, documents and health under one guard.

Owns what is there and in which order it is asked. Who may ask is told by `guard`, what pages show by their views.
"""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp_jinja2
import jinja2
from aiohttp import web

from gateway.settings import StationSettings
from gateway.station import wording
from gateway.station.desk import (
    api,
    attention,
    audit_pages,
    deciding,
    documents_api,
    edit_pages,
    fleet_page,
    group_pages,
    health,
    item_pages,
    live,
    operation_pages,
    refusal_pages,
    reset_pages,
    review_pages,
    sign_in,
    views,
)
from gateway.station.desk.almanac import Almanac
from gateway.station.desk.bulletin import Bulletin
from gateway.station.desk.doorkeeper import Doorkeeper
from gateway.station.desk.guard import add_headers, guarded
from gateway.station.desk.parts import ALMANAC, BULLETIN, DOORKEEPER, NAMES, REVEALS, SENDER, SETTINGS, STORE, VITALS
from gateway.station.desk.preview import visible
from gateway.station.desk.reveals import Reveals
from gateway.station.sender import Sender
from gateway.station.store import Store
from gateway.station.vitals import Vitals
from gateway.tracing import OFF, Traces

_HERE: Final = Path(__file__).parent
_LARGEST_FORM: Final = 64 << 20
"""Bytes: a body that was edited, as a browser writes it into a form."""


def application(settings: StationSettings, store: Store, vitals: Vitals, traces: Traces = OFF) -> web.Application:
    """Return the desk as an aiohttp application; raises BadKeyFile."""
    app = web.Application(middlewares=[guarded], client_max_size=_LARGEST_FORM)
    app.on_response_prepare.append(add_headers)
    app[SETTINGS] = settings
    app[STORE] = store
    app[VITALS] = vitals
    app[DOORKEEPER] = Doorkeeper(settings)
    app[SENDER] = Sender(settings.broker_url, traces)
    app[REVEALS] = Reveals()
    app[BULLETIN] = Bulletin(store)
    app[ALMANAC] = Almanac(store)
    app.on_cleanup.append(_close)
    reached_as = urlsplit(settings.desk_link).hostname or ""
    app[NAMES] = frozenset({"localhost", "127.0.0.1", "::1", settings.desk.host, reached_as})
    environment = aiohttp_jinja2.setup(
        app,
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Nearly every text on a page came with a ticket; done here, none of them can be forgotten.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters.update(
        age=views.age, clock=wording.clock, size=views.size, words=views.words, number=views.number
    )
    parts = (
        attention,
        item_pages,
        deciding,
        edit_pages,
        reset_pages,
        operation_pages,
        group_pages,
        review_pages,
        refusal_pages,
        fleet_page,
        audit_pages,
        sign_in,
        live,
        documents_api,
        api,
        health,
    )
    for part in parts:
        part.add_routes(app)
    app.router.add_static("/static", _HERE / "static")
    return app


async def _close(app: web.Application) -> None:
    await app[SENDER].close()

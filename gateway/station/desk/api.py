"""The JSON API under `/v1`, which programs use, and its description.

Owns which parts it has. What each takes and gives is `gateway.station.desk.openapi`.
"""

from aiohttp import web

from gateway.station.desk.asking import answer
from gateway.station.desk.operations_api import OperationsApi
from gateway.station.desk.parts import SENDER, SETTINGS, STORE
from gateway.station.desk.quarantine_api import QuarantineApi
from gateway.station.desk.records_api import RecordsApi
from gateway.station.desk.review_api import ReviewApi


def add_routes(app: web.Application) -> None:
    """Add every path of the API."""
    settings, store = app[SETTINGS], app[STORE]
    parts = (
        QuarantineApi(settings=settings, store=store, sender=app[SENDER]),
        OperationsApi(settings=settings, store=store),
        RecordsApi(store=store),
        ReviewApi(store=store),
    )
    for route in (route for part in parts for route in part.routes()):
        app.router.add_route(route.method, route.path, route.handler)
    app.router.add_get("/openapi.json", _description)


async def _description(_request: web.Request) -> web.StreamResponse:
    # Made of the models at the first question, which most desks are never asked.
    from gateway.station.desk import openapi  # noqa: PLC0415

    return answer(openapi.document())

"""The station's OpenAPI document tells the truth: the same routes as the desk has, and nothing that points nowhere."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gateway.settings import StationSettings, load
from gateway.station.desk import openapi, routes
from gateway.station.store import Store
from gateway.station.vitals import Vitals


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[web.Application]:
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield routes.application(load(StationSettings), store, Vitals())
    await store.close()


def _values(node: Any, name: str) -> Iterator[Any]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == name:
                yield value
            yield from _values(value, name)
    elif isinstance(node, list):
        for item in node:
            yield from _values(item, name)


async def test_the_document_has_exactly_the_routes_of_the_api(desk: web.Application) -> None:
    served = {
        (route.method.lower(), route.resource.canonical)
        for route in desk.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/v1/") and route.method != "HEAD"
    }
    described = {(method, path) for path, item in openapi.document()["paths"].items() for method in item}
    assert described == served


async def test_the_desk_serves_the_document(desk: web.Application) -> None:
    async with TestClient(TestServer(desk)) as client, client.get("/openapi.json") as answer:
        assert answer.status == 200
        assert (await answer.json())["openapi"] == "3.1.0"


def test_every_reference_leads_somewhere_and_every_schema_is_referred_to() -> None:
    document = openapi.document()
    references = set(_values(document, "$ref"))
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    names = ("Listing", "RejectionsQuery", "AuditQuery", "GroupsQuery", "ResetQuery")
    queries = {f"#/components/schemas/{name}" for name in names}
    assert references <= schemas
    assert schemas <= references | queries


def test_every_operation_has_a_name_of_its_own() -> None:
    names = list(_values(openapi.document()["paths"], "operationId"))
    assert len(names) == len(set(names))


def test_every_path_parameter_is_described() -> None:
    for path, item in openapi.document()["paths"].items():
        for operation in item.values():
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}, path

"""How a request to the JSON API is read.

Owns the reading of documents and queries, and who is taken to have asked. What ends in a problem is told by `guard`.
"""

from typing import Any, TypeVar

import orjson
from aiohttp import web
from pydantic import ValidationError

from gateway.station.desk import problems
from gateway.station.desk.bodies import PARAMETERS, Body
from gateway.station.desk.parts import who
from gateway.station.desk.problems import Answered
from gateway.station.documents import written

OneBody = TypeVar("OneBody", bound=Body)


def actor(request: web.Request, claimed: str | None) -> str:
    """Return who an act is put down to; raises Answered where nobody is named."""
    try:
        return who(request).actor(claimed)
    except ValueError as error:
        raise Answered(problems.nobody(str(error))) from None


async def document(request: web.Request, model: type[OneBody]) -> OneBody:
    """Read the body of a request; raises Answered."""
    if request.content_type != "application/json":
        raise Answered(problems.not_json())
    try:
        found = orjson.loads(await request.read())
    except orjson.JSONDecodeError as error:
        raise Answered(problems.unreadable(f"this is no JSON: {error}")) from None
    return _modelled(model, found)


def query(request: web.Request, model: type[OneBody]) -> OneBody:
    """Read the query of a request; raises Answered."""
    named: dict[str, Any] = {}
    for name in request.query:
        several = PARAMETERS.get(name) in model.model_fields
        member = PARAMETERS[name] if several else name
        values = request.query.getall(name)
        if not several and len(values) > 1:
            raise Answered(problems.unreadable(f"{name}: name it once"))
        named[member] = tuple(values) if several else values[0]
    return _modelled(model, named)


def answer(found: object, *, status: int = 200) -> web.Response:
    """Return a document."""
    return web.Response(text=written(found), status=status, content_type="application/json")


def _modelled(model: type[OneBody], found: object) -> OneBody:
    try:
        return model.model_validate(found)
    except ValidationError as error:
        told = [f"{'.'.join(map(str, one['loc'])) or 'document'}: {one['msg']}" for one in error.errors()]
        raise Answered(problems.unreadable("; ".join(told[:10]))) from None

"""What the station's OpenAPI document says of one answer, for tests that hold every answer against it.

Owns the way from a request's path to the schema of its answer.
"""

import re
from functools import cache
from typing import Any

import jsonschema_rs

from gateway.station.desk import openapi


def check(method: str, path: str, status: int, content_type: str, document: object) -> None:
    """Raise AssertionError or jsonschema_rs.ValidationError for an answer that is not the one described."""
    template = _template(path.partition("?")[0])
    answers = openapi.document()["paths"][template][method.lower()]["responses"]
    assert str(status) in answers, f"{method} {template} answers {status}, which is not described"
    described = answers[str(status)]["content"]
    assert content_type in described, f"{method} {template} answers {content_type}"
    _validator(described[content_type]["schema"]["$ref"]).validate(document)


def _template(path: str) -> str:
    templates = openapi.document()["paths"]
    fitting: list[str] = [one for one in templates if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", one), path)]
    assert fitting, f"{path} is not described"
    return min(fitting, key=lambda one: one.count("{"))


@cache
def _validator(reference: str) -> Any:
    return jsonschema_rs.validator_for({"$ref": reference, "components": openapi.document()["components"]})

"""The OpenAPI document tells the truth: the same routes as the door has, and nothing that points nowhere."""

from collections.abc import Iterator
from typing import Any

import pytest

from gateway import caller_problems, errors, openapi, problem_document, repetition_problems
from gateway.admission import Facts, Refused, Rule, Violation
from gateway.door import Door
from gateway.preflight.vocabulary import Vocabulary
from gateway.problem_document import Problem
from gateway.quota import Exceeded, Policy
from gateway.routes import Routes
from gateway.settings import DoorSettings


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.load("o200k_base")


def _values(node: Any, name: str) -> Iterator[Any]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == name:
                yield value
            yield from _values(value, name)
    elif isinstance(node, list):
        for item in node:
            yield from _values(item, name)


async def test_the_document_has_exactly_the_routes_of_the_door(vocabulary: Vocabulary) -> None:
    door = Door(DoorSettings(), vocabulary)
    routes = {(route.method.lower(), route.path) for route in Routes(door).table()}
    await door.close(until=0)

    described = {(method, path) for path, item in openapi.document()["paths"].items() for method in item}
    assert described == routes


def test_every_reference_leads_somewhere() -> None:
    document = openapi.document()
    references = set(_values(document, "$ref"))

    assert references
    assert references <= {
        f"#/components/{part}/{name}" for part, found in document["components"].items() for name in found
    }


def test_every_operation_has_a_name_of_its_own() -> None:
    names = list(_values(openapi.document()["paths"], "operationId"))

    assert len(names) == len(set(names)) == len(openapi.document()["paths"])


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_has_a_status_that_the_document_knows(rule: Rule) -> None:
    refusal = Refused.because(Violation(rule=rule, message="why"), Facts(bytes=0))

    status = errors.refused(refusal).status

    assert str(status) in openapi.document()["paths"]["/v1/tickets"]["post"]["responses"]


@pytest.mark.parametrize(
    "problem",
    [
        caller_problems.key_required(),
        caller_problems.key_refused(),
        caller_problems.kind_forbidden("support.ticket"),
        caller_problems.quota_exceeded(Exceeded(policy=Policy.BYTES, wait=3)),
        repetition_problems.id_taken(),
        repetition_problems.in_flight(1.5),
        repetition_problems.key_reused(),
        repetition_problems.store_unavailable(),
    ],
    ids=lambda problem: problem.code,
)
def test_every_answer_to_a_submission_is_described(problem: Problem) -> None:
    answer = openapi.document()["paths"]["/v1/tickets"]["post"]["responses"][str(problem.status)]

    assert "application/problem+json" in answer["content"]
    assert (problem.retry_after is None) or "Retry-After" in answer["headers"]
    assert set(problem.headers) <= set(answer.get("headers", ()))


def test_a_problem_document_has_the_members_that_are_described() -> None:
    described = openapi.document()["components"]["schemas"]["Problem"]

    answer = problem_document.response(errors.not_accepted("nacked", 2), request_id="r", instance="/v1/tickets")

    assert answer.body is not None
    for name in described["required"]:
        assert f'"{name}"'.encode() in bytes(answer.body)  # type: ignore[arg-type]

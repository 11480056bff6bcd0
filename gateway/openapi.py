"""The OpenAPI description of the door, as data.

Owns what clients may rely on: every route, its parameters, answers and headers. Tests compare it with the real routes,
and try it against a door that runs.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

from gateway import __version__
from gateway.admission import Limits
from gateway.openapi_schemas import COUNT, ID, KIND, SAID, TEXT, ref, schemas

Answers = dict[str, dict[str, Any]]

_REFUSALS: Final = {
    "406": "The Accept header excludes JSON.",
    "408": "The body did not arrive in time.",
    "413": "Over a byte cap; inflated bytes count.",
    "415": "Content type, charset or content encoding is not supported.",
    "422": "Well-formed, but it would fail for certain; or the Idempotency-Key came with other contents before.",
}
_RETRY_AFTER: Final = "Retry-After"
_LEFT: Final = ("RateLimit", "RateLimit-Policy")
"""There where the client has a quota."""
_EVERYWHERE: Final = (
    "Request-Id",
    "Cache-Control",
    "Content-Security-Policy",
    "Referrer-Policy",
    "Server",
    "X-Content-Type-Options",
    "Strict-Transport-Security",
)
_MALFORMED: Final = "The request or its body is malformed; violations name the offset."
MOST_ATTACHMENTS: Final = Limits().max_attachments
_NOT_NOW: Final = (
    "Not accepted: no confirm from the broker, or no store for an Idempotency-Key."
    " Safe to retry with the same key or id."
)


@functools.cache
def document(*, most_attachments: int = MOST_ATTACHMENTS, keys_needed: bool = False) -> dict[str, Any]:
    """Return the description of a door that takes so many attachments, and asks for an API key or not."""
    security: list[dict[str, list[str]]] = [{"apiKey": []}] if keys_needed else [{"apiKey": []}, {}]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lazaretto door",
            "version": __version__,
            "description": "Takes tickets in: 202 only after the broker confirmed them. Problems are RFC 9457."
            " What travels behind the door is described in /asyncapi.json.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": {
            "/v1/tickets": {"post": _for_callers(_submit(), security)},
            "/v1/tickets:check": {"post": _for_callers(_check(), security)},
            "/v1/tickets/{id}": {"get": _for_callers(_status(), security)},
            "/v1/limits": {"get": _open("limits", "What the door lets in.", "Limits")},
            "/healthz": {"get": _open("health", "Alive.", "Health")},
            "/readyz": {
                "get": _open(
                    "ready",
                    "A ticket sent now would be accepted.",
                    "Readiness",
                    {"503": _problem("Not ready.", _RETRY_AFTER)},
                )
            },
            "/metrics": {"get": _for_callers(_metrics(), [{"apiKey": []}, {}])},
            "/openapi.json": {"get": _open("openapi", "This document.", "Any")},
            "/asyncapi.json": {"get": _open("asyncapi", "What travels behind the door.", "Any")},
        },
        "components": {
            "schemas": schemas(most_attachments),
            "headers": _headers(),
            "securitySchemes": {
                "apiKey": {"type": "http", "scheme": "bearer", "bearerFormat": "lz_<id>_<secret>"},
            },
        },
    }


def _submit() -> dict[str, Any]:
    return {
        "operationId": "submit",
        "summary": "Submit a ticket.",
        "parameters": [_KIND_QUERY, _KIND_HEADER, _KEY_HEADER],
        "requestBody": _body(),
        "responses": {
            "202": _json(
                "The broker confirmed the ticket, now or when it came first.",
                "Receipt",
                "Location",
                "Idempotency-Replayed",
            ),
            **_refusals(),
            "403": _problem("The API key is for tickets of other kinds."),
            "409": _problem("The same is under way, or the id stands for another ticket.", _RETRY_AFTER),
            "503": _problem(_NOT_NOW, _RETRY_AFTER),
        },
    }


def _check() -> dict[str, Any]:
    return {
        "operationId": "check",
        "summary": "Say what a submission would be told, and publish nothing.",
        "parameters": [_KIND_QUERY, _KIND_HEADER, _KEY_HEADER],
        "requestBody": _body(),
        "responses": {
            "200": _json("It would be admitted.", "Verdict"),
            **_refusals(),
            "403": _problem("The API key is for tickets of other kinds."),
            "503": _problem("Too much at once.", _RETRY_AFTER),
        },
    }


def _status() -> dict[str, Any]:
    return {
        "operationId": "status",
        "summary": "Where a ticket stands; with `wait`, as soon as that is news.",
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": ID}, _WAIT, _KNOWN],
        "responses": {
            "200": _json("Its state.", "Status", "ETag"),
            "304": {
                "description": "It stands where the client knows it to stand, at the end of the wait.",
                "headers": _named("ETag"),
            },
            "400": _problem("`wait` is no duration."),
            "404": _problem("No ticket of this id was accepted from this client, not by the end of the wait either."),
            "503": _problem("The store of states cannot be read, or too many are waiting.", _RETRY_AFTER),
        },
    }


def _metrics() -> dict[str, Any]:
    exposition = {"text/plain": {"schema": TEXT}}
    return {
        "operationId": "metrics",
        "summary": "Figures for Prometheus.",
        "description": "Open on loopback; beyond, for keys made with `--metrics`.",
        "responses": {
            "200": {"description": "Text format.", "content": exposition, "headers": _named()},
            "403": _problem("The API key is not for this."),
        },
    }


def _open(operation: str, summary: str, schema: str, others: Mapping[str, Any] | None = None) -> dict[str, Any]:
    answers = {"200": _json(summary, schema), **_unreadable(), **(others or {})}
    return {"operationId": operation, "summary": summary, "security": [], "responses": answers}


def _for_callers(operation: dict[str, Any], security: list[dict[str, list[str]]]) -> dict[str, Any]:
    """Return an operation with what it answers to somebody whom the door does not know, or who may not come in now."""
    answers = {
        **_unreadable(),
        "401": _problem("An API key is required, or the one that came opens nothing.", "WWW-Authenticate"),
        "429": _problem("A quota of the client is used up.", _RETRY_AFTER),
        **operation["responses"],
    }
    for status, answer in answers.items():
        if status != "401":
            answer["headers"] = {**answer["headers"], **_named(*_LEFT)}
    return {**operation, "security": security, "responses": dict(sorted(answers.items()))}


def _unreadable() -> Answers:
    return {"400": _problem("This is no HTTP/1.1 request of one meaning."), "431": _problem("Headers too large.")}


def _refusals() -> Answers:
    return {"400": _problem(_MALFORMED), **{status: _problem(text) for status, text in _REFUSALS.items()}}


def _body() -> dict[str, Any]:
    parts = {
        "ticket": {**ref("Ticket"), "description": "this or `body`, once"},
        "body": {**SAID, "minLength": 1, "description": "its text; all other parts are attachments"},
    }
    text = {**SAID, "minLength": 1}
    one = {"type": "object", "properties": parts, "oneOf": [{"required": ["ticket"]}, {"required": ["body"]}]}
    return {
        "required": True,
        "content": {
            "application/json": {"schema": ref("Ticket")},
            "text/plain": {"schema": text},
            "text/*": {"schema": {}},
            "multipart/form-data": {"schema": one, "encoding": {"ticket": {"contentType": "application/json"}}},
        },
    }


def _json(description: str, schema: str, *headers: str) -> dict[str, Any]:
    content = {"application/json": {"schema": ref(schema)}}
    return {"description": description, "content": content, "headers": _named(*headers)}


def _problem(description: str, *headers: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": ref("Problem")}}
    return {"description": description, "content": content, "headers": _named(*headers)}


def _named(*headers: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (*_EVERYWHERE, *headers)}


def _headers() -> dict[str, Any]:
    always = {name: {"required": True, "schema": TEXT} for name in _EVERYWHERE[:-1]}
    return {
        **always,
        "Request-Id": {"description": "Under which the request is in the log.", **always["Request-Id"]},
        "Strict-Transport-Security": {"description": "There where the door speaks TLS.", "schema": TEXT},
        "Location": {"required": True, "description": "Where to ask for its state.", "schema": TEXT},
        "Idempotency-Replayed": {
            "description": "There when the ticket had been accepted before.",
            "schema": {"const": "true"},
        },
        "ETag": {
            "required": True,
            "description": "Weak; another one when there is something new for the client.",
            "schema": {"type": "string", "pattern": '^W/"[0-9a-f]{32}"$'},
        },
        "WWW-Authenticate": {"required": True, "schema": TEXT},
        _RETRY_AFTER: {"description": "Seconds; there when trying again later helps.", "schema": COUNT},
        "RateLimit": {"description": "What is left, where there is a quota.", "schema": TEXT},
        "RateLimit-Policy": {"description": "The quota, where there is one.", "schema": TEXT},
    }


_KIND_QUERY: Final = {
    "name": "kind",
    "in": "query",
    "description": "The kind, where the body does not name it. Here or in the header, once.",
    "schema": KIND,
}
_KIND_HEADER: Final = {"name": "Lazaretto-Kind", "in": "header", "schema": KIND}
_KEY_HEADER: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key is the same ticket and the same answer, for as long as /v1/limits tells."
    " Not together with an id of the client's own, which does the same.",
    "schema": {"type": "string", "pattern": "^[!#-~]{1,255}$"},
}
_WAIT: Final = {
    "name": "wait",
    "in": "query",
    "description": "Answer as soon as there is something that `If-None-Match` does not name, at the latest after this"
    " time; cut to what /v1/limits tells. An id that nobody knows yet is waited for in the same way.",
    "schema": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h|d)?$"},
}
_KNOWN: Final = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The tag of the state that the client knows.",
    "schema": TEXT,
}

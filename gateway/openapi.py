"""The OpenAPI description of the door, as data.

Owns what clients may rely on. A test compares it with the real routes and with real answers.
"""

import functools
from typing import Any, Final

from gateway import __version__
from gateway.contract import kind_limits
from gateway.contract.ids import KIND_PATTERN, TICKET_ID_PATTERN
from gateway.contract.outcomes import TicketState
from gateway.contract.rules import Mode
from gateway.preflight.encoding import CharsetSource

_REFUSALS: Final = {
    "400": "The request or its body is malformed; violations name the offset.",
    "406": "The Accept header excludes JSON.",
    "408": "The body did not arrive in time.",
    "413": "Over a byte cap; inflated bytes count.",
    "415": "Content type, charset or content encoding is not supported.",
    "422": "Well-formed, but it would fail for certain; or the Idempotency-Key came with other contents before.",
    "431": "Headers too large.",
}
_CALLERS: Final = {
    "401": "An API key is required, or the one that came opens nothing.",
    "403": "The API key is for other kinds, or not for this.",
    "429": "A quota of the client is used up; RateLimit, RateLimit-Policy and Retry-After tell.",
}
_SECURITY: Final[list[dict[str, list[str]]]] = [{"apiKey": []}, {}]
"""A door without a key file asks nobody for a key."""
_NOT_NOW: Final = (
    "Not accepted: no confirm from the broker, or no store for an Idempotency-Key."
    " Safe to retry with the same key or id."
)


@functools.cache
def document() -> dict[str, Any]:
    """Return the description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lazaretto door",
            "version": __version__,
            "description": "Takes tickets in: 202 only after the broker confirmed them. Problems are RFC 9457.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": {
            "/v1/tickets": {"post": _submit()},
            "/v1/tickets:check": {"post": _check()},
            "/v1/tickets/{id}": {"get": _status()},
            "/v1/limits": {"get": _plain("limits", "What the door lets in.", "Limits")},
            "/healthz": {"get": _plain("health", "Alive.", "Health")},
            "/readyz": {
                "get": {
                    **_plain("ready", "A ticket sent now would be accepted.", "Readiness"),
                    "responses": {"200": _json("Ready.", "Readiness"), "503": _problem("Not ready.")},
                }
            },
            "/metrics": {
                "get": {
                    "operationId": "metrics",
                    "summary": "Figures for Prometheus.",
                    "description": "Open on loopback; beyond, for keys made with `--metrics`.",
                    "security": _SECURITY,
                    "responses": {
                        **_turned_away(),
                        "200": {
                            "description": "Text format.",
                            "content": {"text/plain": {"schema": {"type": "string"}}},
                        },
                    },
                }
            },
            "/openapi.json": {"get": _plain("openapi", "This document.", "Any")},
        },
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "apiKey": {"type": "http", "scheme": "bearer", "bearerFormat": "lz_<id>_<secret>"},
            },
        },
    }


def _submit() -> dict[str, Any]:
    return {
        "operationId": "submit",
        "summary": "Submit a ticket.",
        "security": _SECURITY,
        "parameters": [_KIND_QUERY, _KIND_HEADER, _KEY_HEADER],
        "requestBody": _body(),
        "responses": {
            "202": {
                **_json("The broker confirmed the ticket, now or when it came first.", "Receipt"),
                "headers": {
                    "Location": {"schema": {"type": "string"}},
                    "Idempotency-Replayed": {
                        "description": "There when the ticket had been accepted before.",
                        "schema": {"const": "true"},
                    },
                },
            },
            "409": {
                **_problem("The same is under way, or the id stands for another ticket."),
                "headers": {"Retry-After": {"schema": {"type": "integer"}}},
            },
            **_turned_away(),
            **{status: _problem(text) for status, text in _REFUSALS.items()},
            "503": {
                **_problem(_NOT_NOW),
                "headers": {"Retry-After": {"schema": {"type": "integer"}}},
            },
        },
    }


def _check() -> dict[str, Any]:
    return {
        "operationId": "check",
        "summary": "Say what a submission would be told, and publish nothing.",
        "security": _SECURITY,
        "parameters": [_KIND_QUERY, _KIND_HEADER],
        "requestBody": _body(),
        "responses": {
            "200": _json("It would be admitted.", "Verdict"),
            **_turned_away(),
            **{status: _problem(text) for status, text in _REFUSALS.items()},
            "503": _problem("Too much at once."),
        },
    }


def _status() -> dict[str, Any]:
    return {
        "operationId": "status",
        "summary": "Where a ticket stands.",
        "security": _SECURITY,
        "parameters": [
            {
                "name": "id",
                "in": "path",
                "required": True,
                "schema": {"type": "string", "pattern": f"^{TICKET_ID_PATTERN.pattern}$"},
            }
        ],
        "responses": {
            "200": _json("Its state.", "Status"),
            **_turned_away(),
            "404": _problem("No ticket of this id was accepted from this client."),
            "503": _problem("The store of states cannot be read."),
        },
    }


def _turned_away() -> dict[str, Any]:
    answers = {status: _problem(text) for status, text in _CALLERS.items()}
    answers["401"]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    answers["429"]["headers"] = {
        "RateLimit": {"schema": {"type": "string"}},
        "RateLimit-Policy": {"schema": {"type": "string"}},
        "Retry-After": {"schema": {"type": "integer"}},
    }
    return answers


def _plain(operation: str, summary: str, schema: str) -> dict[str, Any]:
    return {"operationId": operation, "summary": summary, "responses": {"200": _json(summary, schema)}}


def _body() -> dict[str, Any]:
    text = {"schema": {"type": "string"}}
    return {
        "required": True,
        "content": {
            "application/json": {"schema": _ref("Ticket")},
            "text/*": text,
            "multipart/form-data": {"schema": {"type": "object"}},
        },
    }


def _json(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _ref(schema)}}}


def _problem(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/problem+json": {"schema": _ref("Problem")}}}


def _ref(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema}"}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_TRUTH: Final = {"type": "boolean"}
_KIND: Final = {"type": "string", "pattern": f"^{KIND_PATTERN.pattern}$"}
_ID: Final = {"type": "string", "pattern": f"^{TICKET_ID_PATTERN.pattern}$"}
_KIND_QUERY: Final = {"name": "kind", "in": "query", "schema": _KIND}
_KIND_HEADER: Final = {"name": "Lazaretto-Kind", "in": "header", "schema": _KIND}
_KEY_HEADER: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key is the same ticket and the same answer, for as long as /v1/limits tells."
    " Not together with an id of the client's own, which does the same.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


def _schemas() -> dict[str, Any]:
    checks = _object(
        {"bytes": _COUNT, "charset": _TEXT, "tokens": _COUNT, "exact": _TRUTH, "attachments": _COUNT},
        {
            "charset_source": {"enum": [source.value for source in CharsetSource]},
            "warnings": {"type": "array", "items": _TEXT},
            "marked": {"type": "array", "items": _TEXT},
            "observed": {"type": "array", "items": _ref("Violation")},
        },
    )
    modes = {"type": "object", "additionalProperties": {"enum": [mode.value for mode in Mode]}}
    violation = _object(
        {
            "rule": _TEXT,
            "pointer": _TEXT,
            "limit": {"type": ["integer", "string", "null"]},
            "actual": {"type": ["integer", "string", "null"]},
            "unit": {"type": ["string", "null"]},
            "confidence": {"enum": ["exact", "estimate"]},
            "message": _TEXT,
        },
        {"offset": _COUNT, "hint": _TEXT},
    )
    attachment = _object({"name": _TEXT}, {"content_type": _TEXT, "content": _TEXT, "content_base64": _TEXT})
    return {
        "Any": {"type": "object"},
        "Violation": violation,
        "Ticket": {
            **_object(
                {"body": _TEXT},
                {
                    "kind": _KIND,
                    "id": _ID,
                    "subject": _TEXT,
                    "attributes": {"type": "object"},
                    "attachments": {"type": "array", "items": attachment},
                },
            ),
            "additionalProperties": False,
        },
        "Receipt": _object(
            {
                "id": _ID,
                "state": {
                    "enum": [state.value for state in TicketState],
                    "description": "accepted; for an id that came before, where that ticket stands now",
                },
                "status_url": _TEXT,
                "received_at": {"type": "number", "description": "Unix seconds"},
                "checks": checks,
            }
        ),
        "Verdict": _object({"admissible": {"const": True}, "kind": _KIND, "checks": checks}),
        "Status": _object(
            {
                "id": _ID,
                "kind": _TEXT,
                "state": {"enum": [state.value for state in TicketState]},
                "attempts": _COUNT,
                "generation": _COUNT,
                "updated_at": {"type": "number", "description": "Unix seconds"},
                "detail": {"type": ["string", "null"]},
                "message": _TEXT,
            }
        ),
        "Limits": _object(
            {
                "max_body_bytes": _COUNT,
                "max_tokens": _COUNT,
                "encoding": _TEXT,
                "max_attachments": _COUNT,
                "max_attachment_bytes": _COUNT,
                "attachment_types": {"type": "array", "items": _TEXT},
                "content_types": {"type": "array", "items": _TEXT},
                "content_encodings": {"type": "array", "items": _TEXT},
                "body_deadline_seconds": {"type": "number"},
                "idempotency_expiry_seconds": {
                    "type": "number",
                    "description": "how long a key, or an id of the client's own, is remembered",
                },
                "idempotency_in_flight_seconds": {
                    "type": "number",
                    "description": "after which a submission that was cut off can be taken over",
                },
                "kinds": {
                    "type": "object",
                    "additionalProperties": _object({}, {**dict.fromkeys(kind_limits.NUMBERS, _COUNT), "rules": modes}),
                },
                "rules": modes,
            }
        ),
        "Health": _object({"alive": {"const": True}}),
        "Readiness": _object({"ready": {"const": True}, "checks": {"type": "object"}}),
        "Problem": _object(
            {
                "type": _TEXT,
                "title": _TEXT,
                "status": {"type": "integer"},
                "detail": _TEXT,
                "instance": _TEXT,
                "request_id": _TEXT,
                "retryable": _TRUTH,
            },
            {
                "reason": _TEXT,
                "violations": {"type": "array", "items": _ref("Violation")},
                "checks": {"type": "object"},
            },
        ),
    }

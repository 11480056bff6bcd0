"""The documents that go in and out of the door, as JSON Schemas.

Owns the members of each. Which route answers what is `gateway.openapi`.
"""

from typing import Any, Final

from gateway.contract import kind_limits
from gateway.contract.ids import KIND_PATTERN, TICKET_ID_PATTERN
from gateway.contract.outcomes import TicketState
from gateway.contract.rules import Mode
from gateway.preflight.encoding import CharsetSource
from gateway.station.escalation_state import EscalationState

TEXT: Final = {"type": "string"}
COUNT: Final = {"type": "integer", "minimum": 0}
TRUTH: Final = {"type": "boolean"}
KIND: Final = {"type": "string", "pattern": f"^{KIND_PATTERN.pattern}$"}
SAID: Final = {"type": "string", "pattern": "^[^\\u0000]*$"}
"""Text of which no store would lose a character."""
_MEDIA_TYPE: Final = "^[a-z0-9.+-]+/[a-z0-9.+-]+(; ?charset=utf-8)?$"
_BASE64: Final = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
ID: Final = {"type": "string", "pattern": f"^{TICKET_ID_PATTERN.pattern}$"}


def ref(schema: str) -> dict[str, str]:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{schema}"}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A member that is null counts as left out."""
    return {**schema, "type": [schema["type"], "null"]}


def _with(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"type": "string"}}}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def schemas(most_attachments: int) -> dict[str, Any]:
    """Return every schema by its name."""
    checks = _object(
        {"bytes": COUNT, "charset": TEXT, "tokens": COUNT, "exact": TRUTH, "attachments": COUNT},
        {
            "files": {"type": "array", "items": ref("File"), "description": "the first 100 attachments"},
            "charset_source": {"enum": [source.value for source in CharsetSource]},
            "warnings": {"type": "array", "items": TEXT},
            "marked": {"type": "array", "items": TEXT},
            "observed": {"type": "array", "items": ref("Violation")},
        },
    )
    modes = {"type": "object", "additionalProperties": {"enum": [mode.value for mode in Mode]}}
    violation = _object(
        {
            "rule": TEXT,
            "pointer": TEXT,
            "limit": {"type": ["integer", "string", "null"]},
            "actual": {"type": ["integer", "string", "null"]},
            "unit": {"type": ["string", "null"]},
            "confidence": {"enum": ["exact", "estimate"]},
            "message": TEXT,
        },
        {"offset": COUNT, "hint": TEXT},
    )
    attachment = {
        **_object(
            {},
            {
                "name": _or_null(TEXT),
                "content_type": _or_null({"type": "string", "pattern": _MEDIA_TYPE}),
                "content": _or_null(SAID),
                "content_base64": _or_null({"type": "string", "contentEncoding": "base64", "pattern": _BASE64}),
            },
        ),
        "additionalProperties": False,
        "description": "with either `content`, which is text, or `content_base64`",
        "oneOf": [_with("content"), _with("content_base64")],
    }
    return {
        "Any": {"type": "object"},
        "Violation": violation,
        "File": _object(
            {"name": TEXT, "content_type": TEXT, "bytes": COUNT},
            {
                "begins_like": {
                    "type": ["string", "null"],
                    "description": "where that is not what was declared; null: like nothing known",
                }
            },
        ),
        "Ticket": {
            **_object(
                {"body": {**SAID, "minLength": 1}},
                {
                    "kind": _or_null(KIND),
                    "id": _or_null(ID),
                    "subject": _or_null(SAID),
                    "attributes": _or_null({"type": "object"}),
                    "attachments": _or_null({"type": "array", "maxItems": most_attachments, "items": attachment}),
                },
            ),
            "additionalProperties": False,
        },
        "Receipt": _object(
            {
                "id": ID,
                "state": {
                    "enum": [state.value for state in TicketState],
                    "description": "accepted; for an id that came before, where that ticket stands now",
                },
                "status_url": TEXT,
                "received_at": {"type": "number", "description": "Unix seconds"},
                "checks": checks,
            }
        ),
        "Verdict": _object({"admissible": {"const": True}, "kind": KIND, "checks": checks}),
        "Status": _object(
            {
                "id": ID,
                "kind": TEXT,
                "state": {"enum": [state.value for state in TicketState]},
                "attempts": COUNT,
                "generation": COUNT,
                "updated_at": {"type": "number", "description": "Unix seconds"},
                "detail": {"type": ["string", "null"]},
                "escalation": {"anyOf": [ref("Escalation"), {"type": "null"}]},
                "message": TEXT,
            }
        ),
        "Escalation": {
            **_object(
                {
                    "state": {"enum": [state.value for state in EscalationState]},
                    "reference": {"type": ["string", "null"], "description": "what it is called there"},
                }
            ),
            "description": "how far the ticket is handed over to people outside; null where it is not",
        },
        "Limits": _object(
            {
                "max_body_bytes": COUNT,
                "max_tokens": COUNT,
                "encoding": TEXT,
                "max_attachments": COUNT,
                "max_attachment_bytes": COUNT,
                "attachments_inline_bytes": {
                    **COUNT,
                    "description": "up to which size an attachment travels with its ticket",
                },
                "attachment_types": {"type": "array", "items": TEXT},
                "content_types": {"type": "array", "items": TEXT},
                "content_encodings": {"type": "array", "items": TEXT},
                "body_deadline_seconds": {"type": "number"},
                "idempotency_expiry_seconds": {
                    "type": "number",
                    "description": "how long a key, or an id of the client's own, is remembered",
                },
                "idempotency_in_flight_seconds": {
                    "type": "number",
                    "description": "after which a submission that was cut off can be taken over",
                },
                "status_wait_seconds": {"type": "number", "description": "longest `?wait=` of a status"},
                "status_look_seconds": {"type": "number", "description": "how late the end of a wait may be"},
                "max_waiting": {"type": "integer", "minimum": 0, "description": "how many may wait at a time"},
                "kinds": {
                    "type": "object",
                    "additionalProperties": _object({}, {**dict.fromkeys(kind_limits.NUMBERS, COUNT), "rules": modes}),
                },
                "rules": modes,
            }
        ),
        "Health": _object({"alive": {"const": True}}),
        "Readiness": _object({"ready": {"const": True}, "checks": {"type": "object"}}),
        "Problem": _object(
            {
                "type": TEXT,
                "title": TEXT,
                "status": {"type": "integer"},
                "detail": TEXT,
                "instance": TEXT,
                "request_id": TEXT,
                "retryable": TRUTH,
            },
            {
                "reason": TEXT,
                "violations": {"type": "array", "items": ref("Violation")},
                "checks": {"type": "object"},
            },
        ),
    }

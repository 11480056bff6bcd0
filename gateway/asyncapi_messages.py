"""What travels between door, fleet and station, as schemas: properties, headers and bodies of each message.

Owns the description of the wire contract's values; the contract itself is `gateway.contract`, whose enums and bounds
stand here. A test holds every message of a running house against it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gateway.contract import envelope, journal
from gateway.contract.history import MAX_BYTES
from gateway.contract.ids import KIND_PATTERN, TICKET_ID_PATTERN
from gateway.contract.journal import OF_NODES, Condition, EventName, Verdict
from gateway.contract.outcomes import Outcome, Reason
from gateway.contract.topology import Lane
from gateway.station.holding import AlertEvent

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_FIGURE: Final[Schema] = {"type": "number"}
_TRUTH: Final[Schema] = {"type": "boolean"}
_UUID: Final[Schema] = {"type": "string", "format": "uuid"}
_KIND: Final[Schema] = {"type": "string", "pattern": f"^{KIND_PATTERN.pattern}$"}
_TICKET: Final[Schema] = {"type": "string", "pattern": f"^{TICKET_ID_PATTERN.pattern}$"}
_MILLISECONDS: Final[Schema] = {**_COUNT, "description": "Unix time in milliseconds"}
_OURS: Final = "^lz-"
_NONE_OF_OURS: Final[Schema] = {"type": "object", "propertyNames": {"not": {"pattern": _OURS}}}


def messages() -> dict[str, Schema]:
    """Return every message by its name."""
    return {
        "item": _message(
            "An item to be run.",
            headers=_headers(_COUNTED, _TRAVELLING),
            properties=_ITEM_PROPERTIES,
            payload={"description": "The ticket's bytes exactly as they were admitted."},
        ),
        "stranger": _message(
            "An item of a producer that knows nothing of Lazaretto; it is adopted.",
            headers=_NONE_OF_OURS,
            properties=_object(
                {}, {"correlation_id": _TEXT, "message_id": _TEXT, "type": _TEXT, "content_type": _TEXT}
            ),
            payload={"description": "The ticket's bytes."},
        ),
        "exhausted": _message(
            "An item that is held aside for a person.",
            headers=_headers({**_COUNTED, "lz-reason": _reason()}, {**_TRAVELLING, "lz-detail": _bounded(1024)}),
            properties=_ITEM_PROPERTIES,
            payload={"description": "The ticket's bytes exactly as they were admitted."},
        ),
        "malformed": _message(
            "A message whose headers nobody can read, held aside raw.",
            headers=_headers(
                {
                    "lz-schema": {"const": envelope.SCHEMA},
                    "lz-reason": _reason(),
                    "lz-detail": _bounded(1024),
                    "lz-raw-headers": _bounded(4096),
                },
                {},
            ),
            properties=_object({"message_id": _UUID, "correlation_id": _TICKET, "type": _KIND, "app_id": _TEXT}),
            payload={"description": "Its body as it came."},
        ),
        "journal": _message(
            "What happened to items and nodes; many events in one message, in any order, some of them twice.",
            headers=_NONE_OF_OURS,
            properties=_object({"message_id": _UUID, "content_type": {"const": "application/json"}}),
            payload={
                "type": "array",
                "minItems": 1,
                "maxItems": journal.MAX_BATCH_EVENTS,
                "items": {"oneOf": [_event(name) for name in EventName]},
            },
            content_type="application/json",
        ),
        **{_alert_name(about): _alert(about, data) for about, data in _ALERTS.items()},
    }


def alerts() -> Iterable[str]:
    """Return the names of the messages that tell people something."""
    return [_alert_name(about) for about in _ALERTS]


def _alert_name(about: str) -> str:
    return about.replace(".", "_")


def _alert(about: str, data: Schema) -> Schema:
    properties = {"message_id": _UUID, "type": {"const": about}, "content_type": {"const": "application/json"}}
    return _message(
        f"{about}: also its routing key.",
        headers=_NONE_OF_OURS,
        properties=_object({**properties, **({"correlation_id": _TICKET} if "ticket" in data else {})}),
        payload=_object({"event": {"const": about}, **data, "text": _TEXT}),
        content_type="application/json",
    )


def _event(name: EventName) -> Schema:
    of_a_node = name in OF_NODES
    stamp = {"type": "array", "prefixItems": [_COUNT, {"type": "integer", "minimum": 1}, _COUNT], "items": False}
    return _object(
        {
            "v": {"const": journal.VERSION},
            "id": _UUID,
            "event": {"const": name.value},
            "at": {"type": "number", "description": "Unix seconds; for people, never for order"},
            "ticket": {"const": ""} if of_a_node else _TEXT,
            "kind": {"const": ""} if of_a_node else _KIND,
            "node": _TEXT,
            "stamp": {**stamp, "minItems": 3, "description": "generation, attempt, interruptions"},
            "crashes": _COUNT,
            "data": _object(*_DATA[name]),
        }
    )


def _message(
    summary: str, *, headers: Schema, properties: Schema, payload: Schema, content_type: str | None = None
) -> Schema:
    said = {"summary": summary, "headers": headers, "payload": payload, "x-amqp-properties": properties}
    return said if content_type is None else {**said, "contentType": content_type}


def _object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Schema:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _headers(required: Mapping[str, Any], optional: Mapping[str, Any]) -> Schema:
    """Return a header table in which every header of ours is known; a producer's or the broker's may be there, too."""
    ours = [*required, *optional]
    return {**_object(required, optional), "propertyNames": {"anyOf": [{"enum": ours}, {"not": {"pattern": _OURS}}]}}


def _bounded(most: int) -> Schema:
    return {"type": "string", "maxLength": most}


def _reason() -> Schema:
    known = sorted({*Reason, *Outcome})
    return {**_bounded(64), "examples": known, "description": "a code, of which these are ours: " + ", ".join(known)}


_COUNTED: Final[Schema] = {
    "lz-schema": {"const": envelope.SCHEMA},
    "lz-attempt": {"type": "integer", "minimum": 1, "description": "the number of the run that this message licenses"},
    "lz-crashes": _COUNT,
    "lz-interruptions": _COUNT,
    "lz-generation": {**_COUNT, "description": "one more for each replay"},
}
_TRAVELLING: Final[Schema] = {
    "lz-waits": _COUNT,
    "lz-waiting-since": _MILLISECONDS,
    "lz-loss": _object({"holder": _TEXT, "beat": _MILLISECONDS, "at": _MILLISECONDS}),
    "lz-spent": _object({"tokens": _COUNT, "usd": {"type": "string", "pattern": "^[0-9.e+-]+$"}}),
    "lz-admission": _object(
        {
            "bytes": _COUNT,
            "charset": _TEXT,
            "tokens": _COUNT,
            "exact": _TRUTH,
            "attachments": _COUNT,
            "client": _TEXT,
            "admitted-at": _MILLISECONDS,
        },
        {"marked": _TEXT, "pass": _TEXT, "stored": _TEXT, "contents": _TEXT},
    ),
    "lz-history": {
        **_bounded(MAX_BYTES),
        "contentMediaType": "application/json",
        "description": "[left out, [attempt, outcome, node, worker, started, seconds, code, times?], ...]",
    },
    "lz-suspect": _bounded(64),
    "lz-truncated": _TEXT,
    "traceparent": _bounded(512),
    "tracestate": _bounded(512),
}
_ITEM_PROPERTIES: Final[Schema] = _object(
    {"message_id": _UUID, "correlation_id": _TICKET, "type": _KIND, "content_type": _TEXT, "app_id": _TEXT},
    {"content_encoding": _TEXT, "timestamp": _FIGURE},
)
_ENDED: Final = (
    {"outcome": {"enum": list(Outcome)}, "verdict": {"enum": list(Verdict)}},
    {
        "seconds": _FIGURE,
        "started_at": _FIGURE,
        "lane": {"enum": list(Lane)},
        "worker": {"type": ["integer", "null"]},
        "evidence": {"type": "object"},
        "delay": _FIGURE,
    },
)
_MEASURED: Final = {"bytes": _COUNT, "charset": _TEXT, "tokens": _COUNT, "exact": _TRUTH, "attachments": _COUNT}
_DATA: Final[dict[EventName, tuple[Schema, Schema]]] = {
    EventName.ACCEPTED: (
        {},
        {"client": _TEXT, **_MEASURED, "marked": {"type": "array", "items": _TEXT}, "pass": _TEXT},
    ),
    EventName.REFUSED: (
        {"violations": {"type": "array", "items": _object({"rule": _TEXT, "message": _TEXT})}},
        {
            "client": _TEXT,
            "address": _TEXT,
            "bytes": _COUNT,
            "digest": {"type": ["string", "null"]},
            "sample": _TEXT,
            "facts": {"type": "object"},
        },
    ),
    EventName.STARTED: ({"lane": {"enum": list(Lane)}}, {"worker": {"type": ["integer", "null"]}}),
    EventName.FINISHED: _ENDED,
    EventName.CLAIMED: _ENDED,
    EventName.RELEASED: _ENDED,
    EventName.QUARANTINED: ({"reason": _TEXT}, {"detail": {"type": ["string", "null"]}}),
    EventName.DISCARDED: ({"reason": _TEXT}, {}),
    EventName.DROPPED: ({"why": _TEXT}, {}),
    EventName.BREAKER: ({"dependency": _TEXT, "state": _TEXT}, {}),
    EventName.STORM: ({"state": _TEXT}, {}),
    EventName.LEAK: ({}, {}),
    EventName.NODE: (
        {
            "lane": {"enum": list(Lane)},
            "state": {"enum": list(Condition)},
            "every": {**_FIGURE, "description": "seconds within which it tells again, unless it is gone"},
            "obstacles": {"type": "array", "items": _TEXT},
            "waiting": {"type": ["integer", "null"], "minimum": 0, "description": "messages ready in its lane"},
            "slots": _object({"busy": _COUNT, "free": _COUNT, "away": _COUNT}),
            "memory": _object({"mold": _COUNT, "workers": _COUNT, "largest_worker": _COUNT}),
            "workers": {
                "type": "array",
                "items": _object({"pid": _COUNT, "phase": _TEXT, "runs": _COUNT, "resident": _COUNT}),
            },
            "phases": {"type": "object", "additionalProperties": _COUNT},
            "recycling": _object(
                {
                    "recycled": _COUNT,
                    "died": _COUNT,
                    "in_progress": _COUNT,
                    "growth": {"type": ["number", "null"], "description": "bytes per run"},
                    "suggested_runs": {"type": ["integer", "null"]},
                    "shrunk": _TRUTH,
                }
            ),
        },
        {
            "build": _TEXT,
            "version": _TEXT,
            "host": _TEXT,
            "pid": _COUNT,
            "mold_pid": _COUNT,
            "started_at": _FIGURE,
            "limits": _object({"memory": _COUNT, "recycle_rss": _COUNT, "recycle_runs": _COUNT}),
        },
    ),
}
_ANYWHERE: Final[Schema] = {"dedup_key": _TEXT, "link": {"type": "string", "format": "uri"}}
_OF_AN_ITEM: Final[Schema] = {
    "ticket": _TICKET,
    "kind": _TEXT,
    "generation": _COUNT,
    "attempts": _COUNT,
    "reason": _TEXT,
    **_ANYWHERE,
}
_CLIENT: Final[Schema] = {"client": {"type": ["string", "null"]}}
_ALERTS: Final[dict[str, Schema]] = {
    AlertEvent.QUARANTINED: {**_OF_AN_ITEM, **_CLIENT, "evidence": _TEXT},
    AlertEvent.RESOLVED: {**_OF_AN_ITEM, **_CLIENT, "decision": _TEXT, "by": _TEXT, "because": _TEXT},
    AlertEvent.REVIEW_OVERDUE: {**_OF_AN_ITEM, "owner": _TEXT, "since": _FIGURE, "deadline": _FIGURE},
    AlertEvent.MISMATCH: {
        "mismatch": _TEXT,
        "count": _COUNT,
        "tickets": {"type": "array", "items": _TEXT},
        **_ANYWHERE,
    },
    AlertEvent.SUSPECT: {
        "ticket": _TICKET,
        "kind": _TEXT,
        "generation": _COUNT,
        "attempts": _COUNT,
        "deaths": _COUNT,
        "evidence": _TEXT,
        **_ANYWHERE,
    },
    AlertEvent.REFUSALS_SURGED: {
        "rule": _TEXT,
        "count": _COUNT,
        "usual": _FIGURE,
        "since": _FIGURE,
        "span": _FIGURE,
        **_ANYWHERE,
    },
    AlertEvent.TEST: {"by": _TEXT, **_ANYWHERE},
    AlertEvent.STORM: {
        "at": _FIGURE,
        "node": _TEXT,
        "state": _TEXT,
        "build": _TEXT,
        "why": _TEXT,
        "items": {"type": "array"},
    },
}

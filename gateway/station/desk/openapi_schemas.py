"""The documents that go in and out of the station's JSON API, as JSON Schemas.

Owns the members of the answers; what is sent to the station is described by the models that read it.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from gateway.station.desk.bodies import (
    AssignBody,
    AuditQuery,
    Decide,
    DiscardBody,
    GroupsQuery,
    Listing,
    NoteBody,
    OperationBody,
    RejectionsQuery,
    ReleaseBody,
    ReplayBody,
    ResetBody,
    ResetQuery,
    SignBody,
    StartBody,
)
from gateway.station.dossier import Item
from gateway.station.holding import ItemState
from gateway.station.operations import Kind, State
from gateway.station.progress import Line, Outcome
from gateway.station.roll_call import Node

_TEXT: Final = {"type": "string"}
_OR_TEXT: Final = {"type": ["string", "null"]}
_MOMENT: Final = {"type": ["number", "null"], "description": "Unix seconds"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_CANDIDATE: Final = {"ticket": _TEXT, "generation": _COUNT, "kind": _TEXT, "state": _TEXT, "charged": _COUNT}
REFS: Final = "#/components/schemas/{model}"


def ref(schema: str) -> dict[str, str]:
    """Return a reference to a schema of the document."""
    return {"$ref": REFS.format(model=schema)}


def _object(members: Mapping[str, Any], *optional: str) -> dict[str, Any]:
    return {"type": "object", "required": [name for name in members if name not in optional], "properties": members}


def schemas() -> dict[str, Any]:
    """Return every schema by its name."""
    models: list[type[BaseModel]] = [
        ReplayBody,
        DiscardBody,
        Decide,
        OperationBody,
        StartBody,
        Listing,
        RejectionsQuery,
        AuditQuery,
        AssignBody,
        ReleaseBody,
        NoteBody,
        SignBody,
        GroupsQuery,
        ResetQuery,
        ResetBody,
    ]
    _, described = models_json_schema([(model, "validation") for model in models], ref_template=REFS)
    found: dict[str, Any] = described["$defs"]
    for name, record in (("Item", Item), ("Line", Line), ("Node", Node)):
        schema = TypeAdapter(record).json_schema(mode="serialization", ref_template=REFS)
        found |= schema.pop("$defs", {})
        found[name] = schema
    return found | {
        "Any": {"type": "object"},
        "Problem": _object(
            {
                "type": _TEXT,
                "title": _TEXT,
                "status": {"type": "integer"},
                "detail": _TEXT,
                "instance": _TEXT,
                "request_id": _TEXT,
                "retryable": {"type": "boolean"},
                "reason": _TEXT,
                "violations": {"type": "array", "items": {"type": "object"}},
                "winner": _object(
                    {"state": {"enum": list(ItemState)}, "by": _OR_TEXT, "at": _MOMENT, "reason": _OR_TEXT}
                ),
                "difference": _TEXT,
                "operation": _TEXT,
            },
            "instance",
            "request_id",
            "retryable",
            "reason",
            "violations",
            "winner",
            "difference",
            "operation",
        ),
        "Items": _object(
            {"total": _COUNT, "oldest": _MOMENT, "items": {"type": "array", "items": ref("Item")}, "next": _OR_TEXT}
        ),
        "Ticket": _object(
            {
                "ticket": _TEXT,
                "kind": _TEXT,
                "state": _TEXT,
                "reason": _OR_TEXT,
                "generation": _COUNT,
                "attempts": _COUNT,
                "items": {"type": "array", "items": ref("Item")},
                "runs": {"type": "array", "items": {"type": "object"}},
                "lineage": {"type": "array", "items": {"type": "object"}},
                "alerts": {"type": "array", "items": {"type": "object"}},
                "escalations": {"type": "array", "items": {"type": "object"}},
                "audit": {"type": "array", "items": {"type": "object"}},
            }
        ),
        "Decision": _object(
            {
                "ticket": _TEXT,
                "decision": {"enum": ["replayed", "discarded", "held again", "unconfirmed", "none"]},
                "by": _TEXT,
                "generation": _COUNT,
                "detail": _TEXT,
                "difference": _OR_TEXT,
            },
            "by",
            "generation",
            "detail",
            "difference",
        ),
        "Operation": _object(
            {
                "id": _TEXT,
                "act": {"enum": list(Kind)},
                "state": {"enum": list(State)},
                "note": _OR_TEXT,
                "lane": _OR_TEXT,
                "code": _OR_TEXT,
                "pace": {"type": "number"},
                "canary": _COUNT,
                "canary_passed_at": _MOMENT,
                "filter": {"type": "object"},
                "total": _COUNT,
                "counts": _object({outcome.value: _COUNT for outcome in Outcome}),
                "created_at": _MOMENT,
                "created_by": _TEXT,
                "started_at": _MOMENT,
                "started_by": _OR_TEXT,
                "reason": _OR_TEXT,
                "ended_at": _MOMENT,
            }
        ),
        "Operations": _object({"operations": {"type": "array", "items": ref("Operation")}}),
        "Lines": _object({"items": {"type": "array", "items": ref("Line")}, "next": {"type": ["integer", "null"]}}),
        "Reset": _object(
            {
                "found": _COUNT,
                "items": {"type": "array", "items": _object(_CANDIDATE)},
                "reset": {"type": ["array", "null"], "items": _TEXT, "description": "tickets; null: only counted"},
                "failed": {"type": "array", "items": _TEXT},
            }
        ),
        "Act": _object(
            {
                "number": _COUNT,
                "at": _MOMENT,
                "ticket": _OR_TEXT,
                "generation": {"type": ["integer", "null"]},
                "actor": _TEXT,
                "act": _TEXT,
                "code": _OR_TEXT,
                "reason": _TEXT,
                "operation": _OR_TEXT,
                "group": _OR_TEXT,
            }
        ),
        **_of_reviews(),
    }


def _of_reviews() -> dict[str, Any]:
    texts, things = {"type": "array", "items": _TEXT}, {"type": "array", "items": {"type": "object"}}
    or_object = {"type": ["object", "null"]}
    group = {
        "id": _TEXT,
        "kind": _TEXT,
        "outcome": _TEXT,
        "what": _TEXT,
        "frames": texts,
        "title": _TEXT,
        "items": _COUNT,
        "waiting": _COUNT,
        "first_at": {"type": "number"},
        "last_at": {"type": "number"},
        "builds": {"type": "object", "additionalProperties": _COUNT},
        "tickets": texts,
        "comparison": or_object,
        "relatives": texts,
        "notes": things,
        "acts": things,
    }
    return {
        "Noted": _object({"ticket": _OR_TEXT, "group": _OR_TEXT, "owner": _OR_TEXT, "by": _TEXT}),
        "Group": _object(group, "comparison", "relatives", "notes", "acts"),
        "Groups": _object({"groups": {"type": "array", "items": ref("Group")}}),
        "Why": _object(
            {
                "ticket": _TEXT,
                "kind": _TEXT,
                "state": _TEXT,
                "client": _OR_TEXT,
                "reason": _OR_TEXT,
                "owner": _OR_TEXT,
                "deadline": _MOMENT,
                "lines": texts,
                "deaths": {"type": "object"},
                "group": or_object,
                "comparison": or_object,
                "relatives": texts,
                "hold": or_object,
                "notes": things,
            }
        ),
        "Record": _object(
            {
                "ticket": _TEXT,
                "digest": _TEXT,
                "signed": {"type": "boolean"},
                "changed_since_sign_off": _COUNT,
                "entries": things,
                "sign_offs": things,
            }
        ),
        "Fleet": _object({"nodes": {"type": "array", "items": ref("Node")}, "states": things}),
        "Caseload": _object({"owners": things, "deaths": {"type": "object"}}),
    }

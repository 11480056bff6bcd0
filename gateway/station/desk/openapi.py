"""The OpenAPI description of the station's JSON API, as data.

Owns what programs may rely on: every route under `/v1`, its parameters, bodies and answers. The bodies are described by
the models that read them. Tests compare it with the real routes.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

from gateway import __version__
from gateway.station.desk.bodies import (
    PARAMETERS,
    AssignBody,
    AuditQuery,
    Body,
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
from gateway.station.desk.openapi_schemas import REFS, ref, schemas
from gateway.station.progress import Outcome

_TEXT: Final = {"type": "string"}
_CHANGES: Final = {
    "403": "You may not change anything, or the change came from another site's page.",
    "415": "Not application/json.",
}
_ALWAYS: Final = {
    "400": "The document, query or path cannot be read.",
    "401": "The desk asks for a key.",
    "503": "The store cannot be used, or the broker takes nothing.",
}


@functools.cache
def document() -> dict[str, Any]:
    """Return the description."""
    item, operation = "ticket", "id"
    no_item, no_operation = {"404": "It was never in quarantine here."}, {"404": "There is no such operation."}
    no_starts = {"409": "No node keeps starts in this store."}
    decided = {
        **no_item,
        "409": "Somebody was first (`winner`), or it cannot be done (`reason`).",
        "422": "Nobody named.",
    }
    changed = {**no_operation, "409": "Its state does not allow that.", "422": "Nobody named."}
    replayed = {**decided, "422": "Nobody named, or the door would refuse the edited body (`violations`)."}
    unconfirmed = {"202": ("Sent, unconfirmed: it is not sent again by itself.", "Decision")}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lazaretto station",
            "version": __version__,
            "description": "What is in quarantine, and what people decide about it. Problems are RFC 9457. Where the"
            " desk asks for keys, `Authorization: Bearer lz_...`; changing anything takes a reviewer.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": {
            "/v1/quarantine": {"get": _get("listItems", "Items, oldest first.", "Items", query=Listing)},
            "/v1/quarantine/{ticket}": {"get": _get("showItem", "All about a ticket.", "Ticket", item, no_item)},
            "/v1/quarantine/{ticket}/replay": {
                "post": _post(
                    "replay", "Send it again, edited or not.", ReplayBody, "Decision", item, replayed, unconfirmed
                )
            },
            "/v1/quarantine/{ticket}/discard": {
                "post": _post("discard", "End it for good.", DiscardBody, "Decision", item, decided)
            },
            "/v1/quarantine/{ticket}/restore": {
                "post": _post("restore", "Hold again what was discarded.", Decide, "Decision", item, decided)
            },
            "/v1/operations": {
                "get": _get("listOperations", "The newest ones.", "Operations"),
                "post": {
                    **_post(
                        "draftOperation",
                        "Freeze a selection, count it, say what cannot be done; nothing is changed.",
                        OperationBody,
                        "Operation",
                        None,
                        {"409": "The key stands for another request.", "422": "Nobody named, or too many items."},
                        {"201": ("A draft.", "Operation")},
                    ),
                    "parameters": [_KEY],
                },
            },
            "/v1/operations/{id}": {
                "get": _get("showOperation", "One operation.", "Operation", operation, no_operation)
            },
            "/v1/operations/{id}/items": {
                "get": {
                    **_get("listLines", "What became of its items.", "Lines", operation, no_operation),
                    "parameters": [_path(operation), *_LINES],
                }
            },
            "/v1/operations/{id}/start": {
                "post": _post("startOperation", "Have a draft done, once.", StartBody, "Operation", operation, changed)
            },
            "/v1/operations/{id}/stop": {
                "post": _post("stopOperation", "No further item.", Decide, "Operation", operation, changed)
            },
            "/v1/operations/{id}/continue": {
                "post": _post("continueOperation", "Go on.", Decide, "Operation", operation, changed)
            },
            "/v1/resets": {
                "get": _get(
                    "countResets", "What would get its attempts back.", "Reset", None, no_starts, query=ResetQuery
                ),
                "post": _post(
                    "reset",
                    "Give attempts back to what is on its way; takes an admin.",
                    ResetBody,
                    "Reset",
                    None,
                    {"409": f"There are others than were counted. {no_starts['409']}", "422": "Nobody named."},
                ),
            },
            "/v1/rejections": {"get": _get("listRejections", "What was refused.", "Any", query=RejectionsQuery)},
            "/v1/rejections/{request}/admit": {
                "post": _admit(),
            },
            "/v1/audit": {"get": _audit()},
            **_reviews(),
        },
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "lz_<id>_<secret>"}},
        },
        "security": [{"key": []}, {}],
    }


def _reviews() -> dict[str, Any]:
    item, group = "ticket", "group"
    unknown, no_group = {"404": "Nobody ever reported it."}, {"404": "No item ever died of this."}
    changed = {
        **unknown,
        "409": "It is not any more as it was seen; the detail says how it is.",
        "422": "Nobody named.",
    }
    noted = {"422": "Nobody named."}
    under = "/v1/quarantine/{ticket}"
    return {
        f"{under}/assign": {"post": _post("assign", "Give it to somebody.", AssignBody, "Noted", item, changed)},
        f"{under}/hold": {"post": _post("hold", "Have the ticket wait.", Decide, "Noted", item, changed)},
        f"{under}/release": {"post": _post("release", "End its hold.", ReleaseBody, "Noted", item, changed)},
        f"{under}/notes": {
            "post": _post("note", "Write something down about it.", NoteBody, "Noted", item, {**unknown, **noted})
        },
        f"{under}/why": {"get": _get("why", "Why it is where it is.", "Why", item, unknown)},
        f"{under}/review": {
            "get": _get("review", "The record of its review.", "Record", item, unknown),
            "post": _post("signOff", "Sign that record.", SignBody, "Record", item, changed),
        },
        "/v1/groups": {"get": _get("listGroups", "Items that died of the same.", "Groups", query=GroupsQuery)},
        "/v1/groups/{group}": {"get": _get("showGroup", "One group, and what it shares.", "Group", group, no_group)},
        "/v1/groups/{group}/notes": {
            "post": _post(
                "noteGroup", "Write something down about it.", NoteBody, "Noted", group, {**no_group, **noted}
            )
        },
        "/v1/caseload": {"get": _get("caseload", "How much waits for whom, and what kills workers.", "Caseload")},
        "/v1/fleet": {"get": _get("fleet", "What nodes last said of themselves.", "Fleet")},
    }


def _get(
    operation: str,
    summary: str,
    schema: str,
    path: str | None = None,
    others: Mapping[str, str] | None = None,
    *,
    query: type[Body] | None = None,
) -> dict[str, Any]:
    parameters = ([] if path is None else [_path(path)]) + ([] if query is None else _parameters(query))
    answers = {"200": _answer(summary, schema), **_problems({**_ALWAYS, **(others or {})})}
    return {"operationId": operation, "summary": summary, "parameters": parameters, "responses": answers}


def _post(  # noqa: PLR0917 - a table's row: what stands where is plain from the rows above
    operation: str,
    summary: str,
    body: type[Body],
    schema: str,
    path: str | None,
    others: Mapping[str, str],
    more: Mapping[str, tuple[str, str]] | None = None,
) -> dict[str, Any]:
    answers = {
        "200": _answer("Done.", schema),
        **{status: _answer(text, name) for status, (text, name) in (more or {}).items()},
        **_problems({**_ALWAYS, **_CHANGES, **others}),
    }
    content = {"application/json": {"schema": ref(body.__name__)}}
    return {
        "operationId": operation,
        "summary": summary,
        "parameters": [] if path is None else [_path(path)],
        "requestBody": {"required": True, "content": content},
        "responses": dict(sorted(answers.items())),
    }


def _admit() -> dict[str, Any]:
    why_not = {"409": "It may not come in; the detail says why.", "422": "Nobody named."}
    given = {"201": ("Its client may send it again.", "Any")}
    found = _post("admit", "Let a refused request in anyway.", Decide, "Any", "request", why_not, given)
    del found["responses"]["200"]
    return found


def _audit() -> dict[str, Any]:
    found = _get("audit", "The acts of people, oldest first, a JSON document a line.", "Act", query=AuditQuery)
    found["responses"]["200"]["content"] = {"application/x-ndjson": {"schema": ref("Act")}}
    return found


def _parameters(model: type[Body]) -> list[dict[str, Any]]:
    """Return the query's parameters, named as in a query."""
    schema = model.model_json_schema(ref_template=REFS)
    names = {member: name for name, member in PARAMETERS.items()}
    found = []
    for member, described in schema["properties"].items():
        is_list = described.get("type") == "array"
        said = {key: value for key, value in described.items() if key not in {"title", "default"}}
        one: dict[str, Any] = {"name": names.get(member, member), "in": "query", "schema": said}
        if is_list:
            one |= {"style": "form", "explode": True}
        found.append(one)
    return found


def _answer(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": ref(schema)}}}


def _problems(described: Mapping[str, str]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": ref("Problem")}}
    return {status: {"description": text, "content": content} for status, text in described.items()}


def _path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Asked again with the same key, it is the same operation.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_LINES: Final = [
    {
        "name": "outcome",
        "in": "query",
        "explode": True,
        "style": "form",
        "schema": {"type": "array", "items": {"enum": list(Outcome)}},
    },
    {"name": "after", "in": "query", "schema": {"type": "integer"}},
]

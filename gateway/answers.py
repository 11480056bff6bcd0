"""The documents that the door answers with, when all is well.

Owns their members. Problems are in `gateway.errors`.
"""

from typing import Any, Final

import orjson
from aiohttp import web

from gateway.admission import AttachmentFacts
from gateway.contract.envelope import Admission
from gateway.contract.outcomes import TicketState
from gateway.errors import violation_document
from gateway.preflight.examination import Passed
from gateway.station.escalation_state import EscalationState
from gateway.station.store import TicketStatus

_MOST_OBSERVED: Final = 64
_MOST_FILES: Final = 100
_IN_WORDS: Final = {
    TicketState.ACCEPTED: "We have it; it waits for its turn.",
    TicketState.RUNNING: "It is being worked on.",
    TicketState.RETRYING: "It will be tried again.",
    TicketState.DONE: "It is done.",
    TicketState.QUARANTINED: "A person is looking at it.",
    TicketState.DISCARDED: "It was ended without success.",
}


def document(value: dict[str, Any], *, status: int = 200) -> web.Response:
    """Return a JSON document as an answer."""
    return written(orjson.dumps(value), status=status)


def written(value: bytes, *, status: int) -> web.Response:
    """Return a JSON document that is written already as an answer."""
    return web.Response(body=value, status=status, headers={"Content-Type": "application/json"})


def receipt(ticket: str | None, admission: Admission, received: float, passed: Passed) -> dict[str, Any]:
    """Return what a client gets for an admitted ticket, or (without an id) for one that would be."""
    checks: dict[str, Any] = {
        "bytes": admission.bytes,
        "charset": admission.charset,
        "tokens": admission.tokens,
        "exact": admission.exact,
        "attachments": admission.attachments,
    }
    if passed.admission.facts.attachments:
        checks["files"] = [_file(facts) for facts in passed.admission.facts.attachments[:_MOST_FILES]]
    if passed.admission.facts.charset_source:
        checks["charset_source"] = passed.admission.facts.charset_source
    if passed.admission.facts.warnings:
        checks["warnings"] = list(passed.admission.facts.warnings)
    if passed.admission.marked:
        checks["marked"] = [rule.value for rule in passed.admission.marked]
    if passed.admission.observed:
        checks["observed"] = [violation_document(violation) for violation in passed.admission.observed[:_MOST_OBSERVED]]
    if ticket is None:
        return {"admissible": True, "kind": passed.ticket.kind, "checks": checks}
    return {
        "id": ticket,
        "state": "accepted",
        "status_url": f"/v1/tickets/{ticket}",
        "received_at": received,
        "checks": checks,
    }


def _file(facts: AttachmentFacts) -> dict[str, Any]:
    told = {"name": facts.name, "content_type": facts.content_type, "bytes": facts.bytes}
    return told if facts.fits else {**told, "begins_like": facts.sniffed}


def status(found: TicketStatus) -> dict[str, Any]:
    """Return where a ticket stands, as its client sees it."""
    return {
        "id": found.ticket,
        "kind": found.kind,
        "state": found.state.value,
        "attempts": found.attempts,
        "generation": found.generation,
        "updated_at": found.updated_at,
        "detail": found.detail,
        "escalation": None if found.escalation is None else _escalation(found.escalation, found.reference),
        "message": _IN_WORDS[found.state],
    }


def _escalation(state: EscalationState, reference: str | None) -> dict[str, Any]:
    return {"state": state.value, "reference": reference}

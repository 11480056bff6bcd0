"""The documents that the door answers with, when all is well.

Owns their members. Problems are in `gateway.errors`.
"""

from typing import Any, Final

import orjson
from aiohttp import web

from gateway.admission import AttachmentFacts
from gateway.contract.outcomes import TicketState
from gateway.preflight.examination import Passed
from gateway.problem_document import violation_document
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


def alive() -> web.Response:
    """Return what says that a door is alive."""
    return document({"alive": True})


def receipt(ticket: str | None, received: float, passed: Passed) -> dict[str, Any]:
    """Return what a client gets for an admitted ticket, or (without an id) for one that would be."""
    facts = passed.admission.facts
    checks: dict[str, Any] = {
        "bytes": facts.bytes,
        "charset": facts.known_charset,
        "tokens": facts.counted,
        "exact": facts.is_exact,
        "attachments": len(facts.attachments),
    }
    if facts.attachments:
        checks["files"] = [_file(one) for one in facts.attachments[:_MOST_FILES]]
    if facts.charset_source:
        checks["charset_source"] = facts.charset_source
    if facts.warnings:
        checks["warnings"] = list(facts.warnings)
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

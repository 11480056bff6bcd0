"""What the door puts on record when it says no: rules, facts, digests and a bounded sample, never the whole body (G5).

Owns what is kept of a refused request, and what is not: of private kinds nothing that their tickets say. Knows no HTTP.
"""

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.admission import Facts, Limits, Stage
from gateway.contract import logs
from gateway.contract.ids import UNKNOWN_KIND
from gateway.contract.journal import Event, EventName
from gateway.contract.text import clip, printable
from gateway.preflight.media_type import parse_media_type
from gateway.reporter import Reporter

log = logging.getLogger("gateway.refusals")

_MAX_TYPE: Final = 255
_MAX_FILES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One refused request, before it is decided what of it is kept."""

    request_id: str
    client: str
    address: str
    """Where it came from, as far as it can be told; for people."""
    kind: str | None
    said_kind: str | None
    """The kind that was named beside the body."""
    status: int
    violations: Sequence[Mapping[str, Any]]
    stage: Stage
    facts: Facts
    size: int
    """Bytes, as far as they were counted."""
    body: bytes | None = field(repr=False)
    """None when it was not read to its end."""
    content_type: str | None


class Refusals:
    """Tells log and journal of refusals. `sample` in bytes."""

    def __init__(self, reporter: Reporter, limits: Limits, *, node: str, sample: int) -> None:
        self._reporter = reporter
        self._limits = limits
        self._node = node
        self._sample = sample
        self._private = frozenset(kind for kind, own in limits.kinds.items() if own.private)

    def record(self, refusal: Refusal) -> None:
        """Put a refusal on record: one log line, one event for the journal."""
        rules = ",".join(sorted({str(violation["rule"]) for violation in refusal.violations}))
        digest = None if refusal.body is None else hashlib.sha256(refusal.body).hexdigest()
        logs.event(
            log,
            "refused",
            request=refusal.request_id,
            status=refusal.status,
            rules=rules,
            client=refusal.client,
            address=refusal.address,
            bytes=refusal.size,
            sha256=digest,
        )
        data: dict[str, Any] = {
            "violations": list(refusal.violations),
            "client": refusal.client,
            "address": refusal.address,
            "bytes": refusal.size,
            "digest": digest,
            "facts": facts_document(refusal, self._limits.of(refusal.kind)),
        }
        if refusal.body is not None and self._sample and not self._is_private(refusal):
            data["sample"] = printable(refusal.body[: self._sample].decode("utf-8", "replace"))
        self._reporter.report(
            Event(
                event=EventName.REFUSED,
                at=time.time(),
                ticket=refusal.request_id,
                kind=refusal.kind or UNKNOWN_KIND,
                node=self._node,
                data=data,
            )
        )

    def _is_private(self, refusal: Refusal) -> bool:
        """Tell whether the body may be of a private kind; while its kind could not be read, it may be."""
        if refusal.facts.kind is None and refusal.said_kind is None:
            return bool(self._private)
        return not self._private.isdisjoint({refusal.facts.kind, refusal.said_kind})


def facts_document(refusal: Refusal, limits: Limits) -> dict[str, Any]:
    """Return what was measured by then and the limits it was held to: what a reviewer's "what if" decides by.

    What was not measured yet is left out.
    """
    facts = refusal.facts
    found: dict[str, Any] = {
        "stage": refusal.stage.value,
        "whole": refusal.body is not None,
        "content_type": clip(refusal.content_type or "", _MAX_TYPE),
        "limits": {
            "max_body_bytes": limits.max_body_bytes,
            "max_tokens": limits.max_tokens,
            "max_attachments": limits.max_attachments,
        },
    }
    if limits.rules:
        found["rules"] = {rule.value: mode.value for rule, mode in limits.rules.items()}
    if refusal.body is not None:
        found["fingerprint"] = fingerprint(refusal.body, refusal.content_type)
    if facts.charset is not None:
        found["charset"] = facts.charset
    if facts.tokens is not None:
        found["tokens"] = [facts.tokens.at_least, facts.tokens.at_most]
    if facts.attachments:
        found["attachments"] = len(facts.attachments)
        found["files"] = [[file.content_type, file.bytes, file.sniffed] for file in facts.attachments[:_MAX_FILES]]
    return found


def fingerprint(body: bytes, content_type: str | None) -> str:
    """Return a digest by which a body is known again when it is sent again, and never another that reads differently.

    Clients draw a new boundary for each multipart body: it does not count where it parts, and counts everywhere else.
    """
    media_type = parse_media_type(content_type or "")
    pieces: list[bytes] = []
    if media_type is not None:
        others = sorted((name, value) for name, value in media_type.parameters.items() if name != "boundary")
        pieces.append(repr((media_type.essence, others)).encode())
    boundary = "" if media_type is None else media_type.parameters.get("boundary", "")
    if boundary and media_type is not None and media_type.essence.startswith("multipart/"):
        pieces += (b"\r\n" + body).split(b"\r\n--" + boundary.encode())
    else:
        pieces.append(body)
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()

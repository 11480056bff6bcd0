"""From an order's bytes to the ticket that a handler sees; by way of the preflight where nobody has looked (C16).

Owns the vocabulary of this process, loaded once. Judges nothing itself: the rules are the door's own.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from msgspec.structs import replace

from consumer.bounds import MAX_NUMBER
from consumer.handler import Ticket
from consumer.pipe import Measured, Order
from consumer.worker.enclosed import enclosed
from gateway import preflight
from gateway.contract import rules
from gateway.contract.kind_limits import KindLimits
from gateway.contract.rules import Mode
from gateway.contract.text import clip
from gateway.preflight import Limits, Passed, Refused, Submission, Violation, Vocabulary
from gateway.preflight.inflation import Coding, inflate

_MAX_VIOLATIONS = 8
_MAX_WORDS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Inadmissible:
    """The preflight's no, in a sentence and rule by rule."""

    detail: str
    rule: str
    violations: list[dict[str, Any]]


class Reader:
    """Reads tickets under `limits`, counting tokens of the packaged vocabulary `encoding`."""

    def __init__(self, *, limits: Limits, encoding: str, depot: str = "") -> None:
        """`depot` is where attachments lie that do not travel; nothing of it is touched before a handler asks.

        Raises `VocabularyError` for a vocabulary that there is not.
        """
        self._limits = limits
        # The door has judged by its own rules; what can be read, it has let in.
        self._lenient = limits.softened(Mode.OFF)
        self._depot = depot
        self._vocabulary = Vocabulary.at_need(encoding)

    def warm(self) -> None:
        """Load the vocabulary (0.3 to 0.6 s, about 75 MB) before it is needed; raises `VocabularyError`."""
        _ = self._vocabulary.encoding

    def read(self, order: Order, measured: Callable[[Measured], None]) -> Ticket | Inadmissible:
        """Return the ticket, after the whole preflight if the order says so; `measured` is told what that found."""
        submission = Submission(
            body=order.body,
            content_type=order.content_type or None,
            kind=order.kind,
            charset=order.charset,
            content_encoding=order.content_encoding,
            opaque_as_text=order.examine,
            folder="" if order.examine else order.stored,
        )
        return self._examined(order, submission, measured) if order.examine else self._admitted(order, submission)

    def _examined(
        self, order: Order, submission: Submission, measured: Callable[[Measured], None]
    ) -> Ticket | Inadmissible:
        match preflight.examine(submission, self._limits, self._vocabulary):
            case Passed(ticket=ticket, admission=admission):
                facts = admission.facts
                measured(
                    Measured(
                        bytes=facts.bytes,
                        charset=facts.charset or "",
                        tokens=facts.tokens.tokens if facts.tokens else 0,
                        exact=facts.tokens is not None and facts.tokens.exact,
                        attachments=len(facts.attachments),
                    )
                )
                return self._for_handler(order, ticket)
            case Refused(violations=violations):
                return _inadmissible(violations)
            case preflight.OutOfTime():
                raise AssertionError("the preflight ran out of a time that it was not given")

    def _admitted(self, order: Order, submission: Submission) -> Ticket | Inadmissible:
        coding = Coding.named(submission.content_encoding)
        if coding is not None and coding is not Coding.IDENTITY:
            plain = inflate(submission.body, coding, max_bytes=self._limits.of(order.kind).max_body_bytes)
            if not isinstance(plain, bytes):
                return Inadmissible(
                    detail=f"its {coding} encoding cannot be undone", rule="content_encoding", violations=[]
                )
            submission = replace(submission, body=plain, content_encoding=None)
        reading = preflight.parse_ticket(submission, self._lenient)
        return _inadmissible(reading.findings) if reading.ticket is None else self._for_handler(order, reading.ticket)

    def _for_handler(self, order: Order, ticket: preflight.Ticket) -> Ticket:
        return Ticket(
            id=order.ticket,
            kind=order.kind,
            text=ticket.text,
            subject=ticket.subject,
            attributes=ticket.attributes,
            attachments=tuple(enclosed(item, self._depot) for item in ticket.attachments),
        )


def limits_from(values: Mapping[str, Any]) -> Limits:
    """Return `Limits` with these fields, as JSON has them; raises TypeError for one that there is not."""
    known = dict(values)
    if "attachment_types" in known:
        known["attachment_types"] = tuple(known["attachment_types"])
    if "rules" in known:
        known["rules"] = rules.read(known["rules"])
    if "kinds" in known:
        known["kinds"] = {
            kind: KindLimits(**{**own, "rules": rules.read(own.get("rules", {}))})
            for kind, own in known["kinds"].items()
        }
    return Limits(**known)


def _inadmissible(violations: tuple[Violation, ...]) -> Inadmissible:
    shown = violations[:_MAX_VIOLATIONS]
    return Inadmissible(
        detail="; ".join(clip(f"{violation.rule}: {violation.message}", _MAX_WORDS) for violation in shown),
        rule=str(violations[0].rule) if violations else "",
        violations=[_plain(violation) for violation in shown],
    )


def _plain(violation: Violation) -> dict[str, Any]:
    values = {name: value for name, value in asdict(violation).items() if value not in (None, "")}
    return {
        name: value if isinstance(value, int | float) and 0 <= value <= MAX_NUMBER else clip(str(value), _MAX_WORDS)
        for name, value in values.items()
    }

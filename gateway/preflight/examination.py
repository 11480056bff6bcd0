"""The whole preflight of one submission, stage by stage, for the door and for the consumer's workers alike.

Owns the order: the cheapest facts first, and nothing more is measured once the admission refuses. Decides nothing
itself; that is `gateway.admission`.
"""

from __future__ import annotations

import time

from msgspec import Struct
from msgspec.structs import replace

from gateway.admission import Admitted, Facts, Limits, Mode, Refused, Rule, TokenCount, Violation, decide, too_large
from gateway.preflight import tokens
from gateway.preflight.charsets import codec_for
from gateway.preflight.inflation import SUPPORTED, Broken, Coding, Overflow, inflate
from gateway.preflight.ticket import Reading, Submission, Ticket, parse_ticket
from gateway.preflight.tokens import OutOfTime
from gateway.preflight.vocabulary import Vocabulary

COUNT_ON = 2
"""How many times the cap is counted, at most, in a text that is over it."""


class Passed(Struct, frozen=True, kw_only=True):
    """The ticket may go in: what it is, and what was measured (`admission.facts`)."""

    ticket: Ticket
    admission: Admitted
    contents: str = ""
    """The digest of what the ticket says, where text and attributes have stayed with another process; else empty."""


def examine(
    submission: Submission, limits: Limits, vocabulary: Vocabulary, *, deadline: float | None = None
) -> Passed | Refused | OutOfTime:
    """Measure and judge `submission`. CPU only; at most about 0.3 s for the worst 512 KiB, mostly under 50 ms.

    What bounds the work before the kind is known are the widest limits that any kind has; its own decide afterwards.
    `deadline` is on the monotonic clock and is looked at between the stages and between chunks of tokens.
    """
    everything, limits = limits, limits.of(submission.kind)
    plain = _without_coding(submission, limits)
    if isinstance(plain, Refused):
        return plain
    if len(plain.body) > limits.max_body_bytes:
        verdict = decide(Facts(bytes=len(plain.body), content_type=plain.content_type), limits)
        if isinstance(verdict, Refused):
            return verdict
    reading = parse_ticket(plain, limits)
    limits = everything.of(reading.kind)
    if reading.findings or reading.attachments or len(plain.body) > limits.max_body_bytes:
        verdict = decide(_facts(plain, reading, None), limits)
        if isinstance(verdict, Refused):
            return verdict
    if deadline is not None and time.monotonic() > deadline:
        return OutOfTime()
    assert reading.ticket is not None  # noqa: S101 - no findings, so there is a ticket
    counted = tokens.count(
        reading.ticket.texts(),
        vocabulary,
        cap=limits.max_tokens,
        # By how much it is over is what a reviewer needs to know who thinks of another limit.
        stop=None if limits.mode(Rule.TOO_MANY_TOKENS) is Mode.OFF else COUNT_ON * limits.max_tokens,
        deadline=deadline,
    )
    if isinstance(counted, OutOfTime):
        return counted
    verdict = decide(_facts(plain, reading, counted), limits)
    return verdict if isinstance(verdict, Refused) else Passed(ticket=reading.ticket, admission=verdict)


def _facts(plain: Submission, reading: Reading, counted: TokenCount | None) -> Facts:
    return Facts(
        bytes=len(plain.body),
        content_type=plain.content_type,
        kind=reading.kind,
        charset=reading.charset,
        charset_source=reading.charset_source,
        tokens=counted,
        attachments=reading.attachments,
        warnings=reading.warnings,
        findings=reading.findings,
    )


def _without_coding(submission: Submission, limits: Limits) -> Submission | Refused:
    """The submission with its content encoding undone. The door has done so while reading; strangers have not."""
    said = submission.content_encoding
    if said is None:
        return submission
    coding = Coding.named(said)
    facts = Facts(bytes=len(submission.body), content_type=submission.content_type)
    if coding is None:
        if codec_for(said) is not None:
            # Some AMQP clients (kombu for one) name the charset in this property.
            return replace(submission, content_encoding=None, charset=submission.charset or said)
        supported = ", ".join(SUPPORTED)
        message = f"this content encoding is not supported; supported are {supported}"
        return Refused.because(
            Violation(rule=Rule.UNSUPPORTED_CONTENT_ENCODING, message=message, limit=supported), facts
        )
    if coding is Coding.IDENTITY:
        return submission
    match inflate(submission.body, coding, max_bytes=limits.max_body_bytes):
        case Broken(detail=detail):
            return Refused.because(Violation(rule=Rule.BROKEN_CONTENT_ENCODING, message=detail), facts)
        case Overflow(at_least=size):
            message = f"the inflated body has more than {limits.max_body_bytes} bytes"
            return Refused.because(too_large(limit=limits.max_body_bytes, actual=size, message=message), facts)
        case bytes() as body:
            return replace(submission, body=body, content_encoding=None)

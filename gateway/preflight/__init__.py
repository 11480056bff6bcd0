"""Cheap checks on one input: facts from bytes, each with its own budget, and the ticket that they read on the way.

Used by the door before the promise and by the consumer's workers for what came past the door. Never imports the web
server, the broker client or settings, and never raises for any input.
"""

from gateway.admission import (
    Admitted,
    AttachmentFacts,
    Confidence,
    Facts,
    Limits,
    Refused,
    Rule,
    Stage,
    TokenCount,
    Violation,
)
from gateway.preflight.attachments import Attachment
from gateway.preflight.examination import Passed, examine
from gateway.preflight.ticket import SUPPORTED_TYPES, Reading, Submission, Ticket, parse_ticket
from gateway.preflight.tokens import OutOfTime
from gateway.preflight.vocabulary import Vocabulary, VocabularyError

__all__ = [
    "SUPPORTED_TYPES",
    "Admitted",
    "Attachment",
    "AttachmentFacts",
    "Confidence",
    "Facts",
    "Limits",
    "OutOfTime",
    "Passed",
    "Reading",
    "Refused",
    "Rule",
    "Stage",
    "Submission",
    "Ticket",
    "TokenCount",
    "Violation",
    "Vocabulary",
    "VocabularyError",
    "examine",
    "parse_ticket",
]

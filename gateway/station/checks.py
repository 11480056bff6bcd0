"""The door's checks, run again by the station: over a body that somebody has edited, or that never passed the door.

Owns when the vocabulary is loaded: at the first body whose tokens are to be counted, and only for as long as a `Checks`
lives, since it takes 75 MB that a station needs now and then.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from gateway.admission import Limits, Refused, Violation
from gateway.contract.envelope import Admission, Envelope
from gateway.preflight.examination import Passed, examine
from gateway.preflight.inflation import Coding, inflate
from gateway.preflight.ticket import Submission
from gateway.preflight.tokens import OutOfTime
from gateway.preflight.vocabulary import Vocabulary
from gateway.settings import StationSettings

SECONDS: Final = 5.0
"""For one body; the door gives less, because a client waits."""
_MAX_INFLATED: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """The door would refuse it."""

    violations: Sequence[Violation]
    """Empty when it took too long to find out."""

    @property
    def sentence(self) -> str:
        """The reasons in words."""
        return "; ".join(violation.message for violation in self.violations) or "its checks take too long"


class Checks:
    """The checks under the limits that the door has. Use one for what belongs together, and let it go."""

    def __init__(self, settings: StationSettings) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._loading: asyncio.Future[Vocabulary] | None = None

    async def check(self, submission: Submission, *, client: str) -> Admission | Fails:
        """Examine a body as the door would, off the loop; raises VocabularyError.

        `client` is whose ticket it is, empty when nobody said.
        """
        vocabulary = await self._vocabulary()
        found = await asyncio.to_thread(_examine, submission, self._limits, vocabulary)
        if isinstance(found, Fails):
            return found
        facts = found.admission.facts
        counted = facts.tokens
        return Admission(
            bytes=facts.bytes,
            charset=facts.charset or "",
            tokens=counted.tokens if counted is not None else 0,
            exact=counted is not None and counted.exact,
            attachments=len(facts.attachments),
            client=client,
            admitted_at=time.time(),
            marked=found.admission.rules,
            stored=submission.folder,
        )

    async def why_refused(self, envelope: Envelope) -> str | None:
        """Say why what came past the door would be refused before its handler starts; None: it would not."""
        submission = Submission(
            body=envelope.body,
            content_type=envelope.content_type,
            kind=envelope.kind,
            content_encoding=envelope.content_encoding,
            opaque_as_text=True,
        )
        found = await self.check(submission, client="")
        return f"its body fails the door's checks: {found.sentence}" if isinstance(found, Fails) else None

    async def _vocabulary(self) -> Vocabulary:
        if self._loading is None:
            settings = self._settings
            digest = settings.vocabulary_sha256 or None
            loading = asyncio.to_thread(Vocabulary.load, settings.encoding, file=settings.vocabulary, sha256=digest)
            self._loading = asyncio.ensure_future(loading)
        return await self._loading


def plain(body: bytes, content_encoding: str | None) -> bytes | None:
    """Return a body without its content encoding; None where that cannot be undone."""
    coding = Coding.named(content_encoding)
    if coding is Coding.IDENTITY or content_encoding is None:
        return body
    if coding is None:
        return None
    found = inflate(body, coding, max_bytes=_MAX_INFLATED)
    return found if isinstance(found, bytes) else None


def _examine(submission: Submission, limits: Limits, vocabulary: Vocabulary) -> Passed | Fails:
    found = examine(submission, limits, vocabulary, deadline=time.monotonic() + SECONDS)
    match found:
        case Passed():
            return found
        case OutOfTime():
            return Fails(violations=())
        case Refused(violations=violations):
            return Fails(violations=violations)
        case _:
            assert_never(found)

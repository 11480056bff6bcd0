"""The rules of the fence: what is on record for a ticket, a question about it, the answer and what is then on record.

Pure. A rule sees one ticket's entry as it is inside a transaction; whoever calls it writes back what it returns.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from consumer import verdict
from consumer.fence.answers import Answered, Conflict, Licensed, Pardoned, Recollection, Superseded
from consumer.verdict import Decision
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Stamp

_MARK_BYTES: Final = 8
_TOKEN_BYTES: Final = 36


class Entry(NamedTuple):
    """One row of `starts`: the last start of a ticket. The columns' comments tell what the fields mean.

    A tuple, since it goes to the driver as it is: by name, a row cost as much as its rule.
    """

    ticket: str
    generation: int
    attempt: int
    interruptions: int
    holder: str = ""
    started_at: float = 0.0
    decision: str | None = None
    closed: bool = False
    digest: str = ""
    spent_tokens: int = 0
    spent_usd: float = 0.0
    token: str = ""
    pardon: int | None = None
    ended_at: float | None = None

    @property
    def stamp(self) -> Stamp:
        """The name of the start."""
        return Stamp(generation=self.generation, attempt=self.attempt, interruptions=self.interruptions)

    def is_of(self, stamp: Stamp) -> bool:
        """Tell whether it is this start."""
        return (
            self.attempt == stamp.attempt
            and self.interruptions == stamp.interruptions
            and self.generation == stamp.generation
        )

    @property
    def spent(self) -> Spent:
        """What this start alone has spent so far."""
        return Spent(tokens=self.spent_tokens, usd=self.spent_usd)


COLUMNS: Final = Entry._fields

Rule = Callable[[Entry | None], tuple[Any, Entry | None]]
"""From the entry on record to an answer, and the entry to write, None where nothing changes."""


class Question(NamedTuple):
    """One rule about one ticket."""

    ticket: str
    rule: Rule


def answer(questions: Iterable[Question], found: Mapping[str, Entry]) -> tuple[list[Any], list[Entry]]:
    """Return the answers of one batch in order, and the entries to write; each rule sees what those before it changed.

    What a rule cannot read is the answer to that question alone: an exception in the list.
    """
    answers: list[Any] = []
    changed: dict[str, Entry] = {}
    for question in questions:
        try:
            said, entry = question.rule(changed.get(question.ticket) or found.get(question.ticket))
        except ValueError as error:
            answers.append(error)
            continue
        answers.append(said)
        if entry is not None:
            changed[question.ticket] = entry
    return answers, list(changed.values())


def license_start(ticket: str, stamp: Stamp, *, holder: str, now: float, digest: str, token: str) -> Rule:
    """Return the rule that licenses a start when its stamp is greater than the last one on record."""

    def rule(entry: Entry | None) -> tuple[Answered, Entry | None]:
        pardon = None
        if entry is not None:
            stale = _stale(entry, stamp, digest)
            if stale is not None:
                return stale, None
            if entry.is_of(stamp):
                asked_again = token != "" and entry.token == token and entry.decision is None
                return (Licensed() if asked_again else Superseded(f"start {stamp} is on record")), None
            pardon = entry.pardon
            if pardon == stamp.generation == entry.generation:
                return Pardoned(), None
        return Licensed(), _started(ticket, stamp, digest, holder=holder, started_at=now, token=token, pardon=pardon)

    return rule


def decide_start(ticket: str, stamp: Stamp, decision: Decision, *, digest: str, now: float) -> Rule:
    """Return the rule that records a decision unless there is one; what the start spent is in it, once.

    Raises TypeError for a decision that cannot be written.
    """
    written = verdict.write(decision)  # here, where it fails alone; and out of the transaction

    def rule(entry: Entry | None) -> tuple[Decision | Superseded | Conflict, Entry | None]:
        mine = entry
        if entry is not None:
            stale = _stale(entry, stamp, digest)
            if stale is not None:
                return stale, None
        if mine is None or not mine.is_of(stamp):
            mine = _started(ticket, stamp, digest, pardon=None if entry is None else entry.pardon)
        elif mine.decision is not None:
            return verdict.read(mine.decision), None
        spent = decision.spent
        if mine.spent_tokens or mine.spent_usd:
            spent = most(spent, mine.spent)
        whole = decision if spent is decision.spent else replace(decision, spent=spent)
        if mine.pardon == stamp.generation:
            whole = verdict.excused(whole)
        return whole, mine._replace(
            decision=written if whole is decision else verdict.write(whole),
            closed=whole.closes,
            ended_at=now if whole.closes else None,
            spent_tokens=spent.tokens,
            spent_usd=spent.usd,
        )

    return rule


def token_of(message: str, unique: str) -> str:
    """Return what names one delivery of the message with this mark (`mark_of`)."""
    return f"{message}.{unique}"[:_TOKEN_BYTES]


def mark_of(message_id: str | None) -> str:
    """Return what tells one copy of a message from another that was published under an id of its own."""
    return (
        ""
        if message_id is None
        else blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=_MARK_BYTES).hexdigest()
    )


def recall_start(stamp: Stamp, *, digest: str, message: str = "") -> Rule:
    """Return the rule that tells what is on record about one start.

    `message` is the mark of the message that came back: where the start was licensed to another copy, that one is held
    by somebody or comes back by itself, and this one stands for nothing. Empty where nobody knows.
    """

    def rule(entry: Entry | None) -> tuple[Recollection | Superseded | Conflict, None]:
        if entry is None:
            return Recollection(), None
        stale = _stale(entry, stamp, digest)
        if stale is not None:
            return stale, None
        if not entry.is_of(stamp):
            return Recollection(), None
        decided = None if entry.decision is None else verdict.read(entry.decision)
        mark, dot, _ = entry.token.partition(".")  # no dot: of an earlier version, which knew no marks
        if decided is None and message and mark and dot and mark != message:
            return Superseded(f"start {stamp} is on record for another copy of this message"), None
        return Recollection(holder=entry.holder, decision=decided), None

    return rule


def record_spend(stamp: Stamp, spent: Spent) -> Rule:
    """Return the rule that records what a start has spent so far, told in any order."""

    def rule(entry: Entry | None) -> tuple[bool, Entry | None]:
        if entry is None or not entry.is_of(stamp) or entry.decision is not None:
            return False, None
        total = most(entry.spent, spent)
        return True, entry._replace(spent_tokens=total.tokens, spent_usd=total.usd)

    return rule


def recall_spend(stamp: Stamp) -> Rule:
    """Return the rule that tells what a start has spent."""

    def rule(entry: Entry | None) -> tuple[Spent, None]:
        return (Spent() if entry is None or not entry.is_of(stamp) else entry.spent), None

    return rule


def most(one: Spent, other: Spent) -> Spent:
    """Return the later of two totals of one run: they only grow, and may be told in any order."""
    return Spent(tokens=max(one.tokens, other.tokens), usd=max(one.usd, other.usd))


def _stale(entry: Entry, stamp: Stamp, digest: str) -> Superseded | Conflict | None:
    """Return why a message may no longer start anything, or None; one stamp on record is not stale by itself."""
    if entry.generation >= stamp.generation and entry.digest != digest:  # a greater one may have been edited
        return Conflict(f"ticket {entry.ticket} is on record with another body")
    if entry.is_of(stamp):
        return None
    if entry.stamp > stamp:
        return Superseded(f"start {entry.stamp} is on record, this one is {stamp}")
    if entry.closed and entry.generation == stamp.generation:
        return Superseded(f"generation {entry.generation} is closed")
    return None


def _started(ticket: str, stamp: Stamp, digest: str, **known: Any) -> Entry:
    """Return the entry of a start of which only so much is known yet."""
    return Entry(ticket, stamp.generation, stamp.attempt, stamp.interruptions, digest=digest, **known)

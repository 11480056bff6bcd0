"""The record of a review: everything that happened to a ticket as entries in order, and what a signature covers; pure.

Owns the digest that is signed. An entry's key stands for all that it says, so that what is added or comes to be known
differently after a signature can be told from what was signed; the order in which things are read makes no difference.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from gateway.station import wording
from gateway.station.acts import Act
from gateway.station.dossier import Dossier, Item, Run
from gateway.station.groups import Note

_KEY_BYTES: Final = 16
_TOLD_ELSEWHERE: Final = frozenset({Act.NOTE.value, Act.SIGN_OFF.value})
"""Acts that the record has as notes and as signatures."""
_OF_AN_ARRIVAL: Final = (
    "generation",
    "reason",
    "detail",
    "malformed",
    "attempts",
    "crashes",
    "interruptions",
    "size",
    "digest",
    "admission",
    "group",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened."""

    at: float | None
    """Unix seconds, on the clock of whoever reported it; None where nobody said."""
    what: str
    """`run`, `arrived`, `note`, or the word of an act."""
    by: str | None
    """A person; None where no person did it."""
    sentence: str
    data: Mapping[str, Any]

    @property
    def key(self) -> str:
        """What stands for all of it."""
        whole = orjson.dumps([self.at, self.what, self.by, self.sentence, self.data], option=orjson.OPT_SORT_KEYS)
        return hashlib.blake2b(whole, digest_size=_KEY_BYTES).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOff:
    """Who signed what was known then."""

    at: float
    by: str
    words: str
    digest: str
    entries: frozenset[str]
    """Keys of the entries that there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A review up to now."""

    ticket: str
    entries: Sequence[Entry]
    """Oldest first; those without a moment before all others."""
    sign_offs: Sequence[SignOff]
    """Oldest first."""

    @property
    def digest(self) -> str:
        """SHA-256 of ticket and entries: what a signature is given for."""
        keys = sorted(entry.key for entry in self.entries)
        return hashlib.sha256(orjson.dumps([self.ticket, keys])).hexdigest()

    @property
    def is_signed(self) -> bool:
        """Tell whether the last signature covers all of it, and nothing that is no more."""
        return bool(self.sign_offs) and self.sign_offs[-1].digest == self.digest

    def is_after_sign_off(self, entry: Entry) -> bool:
        """Tell whether an entry was not there when the record was signed last."""
        return bool(self.sign_offs) and entry.key not in self.sign_offs[-1].entries

    @property
    def gone(self) -> int:
        """How many of the entries that were signed last are known differently by now."""
        if not self.sign_offs:
            return 0
        return len(self.sign_offs[-1].entries - {entry.key for entry in self.entries})


def entries(found: Dossier, notes: Iterable[Note]) -> list[Entry]:
    """Return what is known of a ticket as entries, oldest first."""
    told = [
        *(_run(run) for run in found.runs),
        *(_arrival(item) for item in found.items),
        *(
            Entry(
                at=act.at,
                what=act.act,
                by=act.actor,
                sentence=f"{act.act} by {wording.one_line(act.actor)}, because: {wording.one_line(act.reason)}",
                data={"generation": act.generation, "reason": act.reason},
            )
            for act in found.acts
            if act.act not in _TOLD_ELSEWHERE
        ),
        *(_note(note) for note in notes),
    ]
    return sorted(told, key=lambda entry: (entry.at or 0.0, entry.what, entry.key))


def document(record: Record) -> dict[str, Any]:
    """Return a record as JSON has it."""
    return {
        "ticket": record.ticket,
        "digest": record.digest,
        "signed": record.is_signed,
        "changed_since_sign_off": record.gone,
        "entries": [
            {
                "at": entry.at,
                "what": entry.what,
                "by": entry.by,
                "sentence": entry.sentence,
                "data": dict(entry.data),
                "after_sign_off": record.is_after_sign_off(entry),
            }
            for entry in record.entries
        ],
        "sign_offs": [
            {"at": one.at, "by": one.by, "words": one.words, "digest": one.digest, "entries": len(one.entries)}
            for one in record.sign_offs
        ],
    }


def _run(run: Run) -> Entry:
    sentence = f"run {run.generation}.{run.attempt}: {wording.sentence(run)}"
    return Entry(at=run.started_at, what="run", by=None, sentence=sentence, data=asdict(run))


def _arrival(item: Item) -> Entry:
    why = wording.one_line(item.reason) + (f" ({wording.one_line(item.detail)})" if item.detail else "")
    sentence = f"generation {item.generation} arrived in quarantine: {why}"
    whole = asdict(item)
    return Entry(
        at=item.arrived_at,
        what="arrived",
        by=None,
        sentence=sentence,
        data={name: whole[name] for name in _OF_AN_ARRIVAL},
    )


def _note(note: Note) -> Entry:
    about = "its group" if note.group is not None else "it"
    sentence = f"{wording.one_line(note.by)} noted about {about}: {wording.one_line(note.text, 1000)}"
    data = {"text": note.text, "group": note.group}
    return Entry(at=note.at, what="note", by=note.by, sentence=sentence, data=data)

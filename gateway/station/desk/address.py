"""A selection of items as the query of an address, and back; pure.

Owns the names in addresses, which people keep as bookmarks and send to each other: add to them, do not rename. What
cannot be understood is left out, never an error: an address outlives the page that made it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from gateway.contract.ids import is_kind
from gateway.contract.outcomes import Outcome
from gateway.contract.text import printable
from gateway.station.catalogue import Mark, Selection
from gateway.station.holding import ItemState
from gateway.station.selection import DECIDED, WAITING

UNCONFIRMED: Final = "unconfirmed"
"""Narrows what is replaying to what nobody hears of the confirm of any more."""
STATES: Final[dict[str, tuple[ItemState, ...]]] = {
    "waiting": WAITING,
    "held": (ItemState.HELD,),
    "replaying": (ItemState.REPLAYING,),
    UNCONFIRMED: (ItemState.REPLAYING,),
    "replayed": (ItemState.REPLAYED,),
    "discarded": (ItemState.DISCARDED,),
    "decided": DECIDED,
    "any": (*WAITING, *DECIDED),
}
AGES: Final = {
    "": "any age",
    "<1h": "less than an hour",
    "<1d": "less than a day",
    ">1d": "more than a day",
    ">7d": "more than a week",
}
_SECONDS: Final = {"1h": 3600.0, "1d": 86400.0, "7d": 7 * 86400.0}
_TEXTS: Final = ("kind", "reason", "outcome", "client", "signal", "text", "owner", "group", "review")
REVIEWS: Final = {"": "any", "overdue": "overdue", "on_hold": "on hold", "unreviewed": "not on hold"}
NOBODY: Final = "-"
"""Stands for an owner that is nobody in particular."""
_MOST_LETTERS: Final = 200
_SIGNAL: Final = re.compile(r"[0-9]{1,3}")
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_PLACE: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What an address asks for, as written in it."""

    state: str = "waiting"
    age: str = ""
    newest_first: bool = False
    texts: Mapping[str, str]
    after: Mark | None = None
    before: Mark | None = None

    def selection(self, now: float) -> Selection:
        """Return the selection it means at `now`, Unix seconds."""
        since = now - _SECONDS[self.age[1:]] if self.age.startswith("<") else None
        until = now - _SECONDS[self.age[1:]] if self.age.startswith(">") else None
        signal, review, owner = (self.texts.get(name) for name in ("signal", "review", "owner"))
        texts = {name: value for name, value in self.texts.items() if name not in {"signal", "review", "owner"}}
        return Selection(
            states=STATES[self.state],
            since=since,
            until=until,
            signal=None if signal is None else int(signal),
            owner="" if owner == NOBODY else owner,
            overdue=True if review == "overdue" else None,
            on_hold={"on_hold": True, "unreviewed": False}.get(review or ""),
            unconfirmed=True if self.state == UNCONFIRMED else None,
            **texts,
        )

    @property
    def narrowed(self) -> bool:
        """Tell whether it asks for less than everything in its state."""
        return bool(self.texts or self.age)

    @property
    def offers_undecided(self) -> bool:
        """Tell whether what it asks for may be held, or in doubt, so that something can be decided about it."""
        return not {*WAITING}.isdisjoint(STATES[self.state])

    def fields(self) -> dict[str, str]:
        """Return the names and values of the address's query, without its place in the list."""
        named = {
            "state": "" if self.state == "waiting" else self.state,
            **{name: self.texts.get(name, "") for name in _TEXTS},
            "age": self.age,
            "order": "newest" if self.newest_first else "",
        }
        return {name: value for name, value in named.items() if value}

    def query(self) -> str:
        """Return the same as text."""
        return urlencode(self.fields())

    def at(self, *, after: Mark | None = None, before: Mark | None = None) -> str:
        """Return the query of another page of the same list."""
        return "&".join(
            part
            for part in (
                self.query(),
                urlencode({"after": written(after)}) if after else "",
                urlencode({"before": written(before)}) if before else "",
            )
            if part
        )

    def ordered(self, *, newest_first: bool) -> "Address":
        """Return the same list in another order, from its beginning."""
        return replace(self, newest_first=newest_first, after=None, before=None)


def read(query: Mapping[str, str], *, state: str = "waiting") -> Address:
    """Read the query of an address; `state` is for those that name none."""
    texts = {
        name: value
        for name in _TEXTS
        if (value := printable(query.get(name, "").strip())) and len(value) <= _MOST_LETTERS
    }
    if texts.get("kind") and not is_kind(texts["kind"]):
        del texts["kind"]
    if texts.get("outcome") and texts["outcome"] not in tuple(Outcome):
        del texts["outcome"]
    if texts.get("signal") and _SIGNAL.fullmatch(texts["signal"]) is None:
        del texts["signal"]
    if texts.get("review") not in (None, *REVIEWS):
        del texts["review"]
    named, age = query.get("state", state), query.get("age", "")
    return Address(
        state=named if named in STATES else state,
        age=age if age in AGES else "",
        newest_first=query.get("order") == "newest",
        texts=texts,
        after=mark(query.get("after", "")),
        before=mark(query.get("before", "")),
    )


def whole(text: str) -> int | None:
    """Read a whole number that every store can compare with; None for what is none."""
    return int(text) if _WHOLE.fullmatch(text) else None


def written(place: Mark) -> str:
    """Write a place in a list."""
    return f"{place.at!r}~{place.generation}~{place.ticket}"


def mark(text: str) -> Mark | None:
    """Read a place in a list; None for what is none."""
    at, _, rest = text.partition("~")
    generation, _, ticket = rest.partition("~")
    if not ticket or _PLACE.fullmatch(generation) is None:
        return None
    try:
        place = Mark(at=float(at), ticket=printable(ticket), generation=int(generation))
    except ValueError:
        return None
    return place if math.isfinite(place.at) else None

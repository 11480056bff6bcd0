"""When items that need a dependency may start: one breaker for one thing that handlers say is down (C11).

Pure: clock and randomness come in as arguments. No library fits: those at hand count calls in a row, whoever makes
them, while here only *different* items prove that the fault is not theirs; and they let a half-open breaker be tried by
whoever comes first, while here a probe must be an item that never took a worker along.

    closed ──enough different items say that it is down──► open ──its time is over, one fit item starts──► half-open
       ▲                                                    ▲                                                  │ │
       └────────────────── the probe succeeds ──────────────┼──────────────────────────────────────────────────┘ │
                                                            └───── the probe says that it is still down ─────────┘
"""

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

T = TypeVar("T")

_MAX_REMEMBERED: Final = 1024
"""Items that said so, and items that succeeded; the oldest give way."""
_MAX_KINDS: Final = 64
_PAUSE_SPREAD: Final = 2 / 3
"""Of a pause, how much is left to chance."""


class State(StrEnum):
    """Whether items that need the dependency may start."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    """One of them may, or does: it is the probe."""
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When breakers open, and for how long; durations in seconds."""

    items: int = 3
    """So many different items within `within` open it; so many that succeed refute one that goes on saying so."""
    within: float = 60.0
    pause: float = 30.0
    """The longest first pause before a probe, a third of it is the shortest; doubled when a probe finds it down."""
    pause_cap: float = 300.0
    says: int = 3
    """An item that says so for the n-th time, while its peers succeed, is charged."""
    after_cap: float = 3600.0
    """What a handler asks for is honoured up to this."""
    spread_cap: float = 3600.0
    """Over how long the starts of the held are spread at most, once it is back."""
    memory: float = 3600.0
    """A kind that nobody said to need the dependency for so long is taken to need it no more."""


class Breaker:
    """The breaker of one dependency. Every `now` is in seconds of one monotonic clock, every `jitter` in [0, 1)."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.state = State.CLOSED
        self.until = 0.0
        """While open: when the next probe may start."""
        self.why = ""
        self.said_at = 0.0
        """When somebody last said that it is down."""
        self._opened_at = 0.0
        self._closed_at: float | None = None
        self._pause = rules.pause
        self._probing = False
        self._first_is_back = False
        self._says: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._sayers: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._peers: OrderedDict[str, float] = OrderedDict()
        self._kinds: OrderedDict[str, float] = OrderedDict()

    # What may start

    def may_start(self, *, fit: bool, now: float) -> bool:
        """Tell whether an item that needs the dependency may start now.

        `fit` is one that never crashed. One that did may be the probe only when no fit one has come for another pause.
        """
        if self.state is State.CLOSED:
            return True
        return not self._probing and now >= self._turn(fit=fit)

    def start(self) -> bool:
        """Take note that an item starts that may; True when it is the probe, whose end must then be told."""
        if self.state is State.CLOSED:
            return False
        if self._probing:
            raise AssertionError("two probes at once")
        self._probing = True
        if self.state is State.OPEN:
            self.state, self.why = State.HALF_OPEN, "its time is over, one item tries"
        return True

    def hold(self, *, fit: bool, now: float, jitter: float, said_so: bool = False) -> float:
        """Return for how long an item that may not start is delayed, in seconds.

        One fit item, none of those that `said_so` themselves, is back when the next probe is due. The others come
        later, evenly over as long as the outage will have lasted by then: what came in while the dependency was down
        starts at about the rate that it came in, so that beside the usual load the dependency sees less than twice of
        that (case D33).
        """
        due = now if self._probing else max(now, self._turn(fit=fit))
        if fit and not said_so and not self._probing and not self._first_is_back:
            self._first_is_back = True
            return due - now
        spread = min(max(self._pause, due - self._opened_at), self._rules.spread_cap)
        return due - now + jitter * spread

    def _turn(self, *, fit: bool) -> float:
        return self.until if fit else self.until + self._pause

    # What items tell

    def say_down(self, item: str, kind: str, *, after: float, now: float, jitter: float, probe: bool = False) -> bool:
        """Take note that an item said that it is down; returns whether the item is to blame, and charged.

        It is when it says so again and again while its peers succeed; then what it says proves nothing any more.
        `after` in seconds is what it asked for, `probe` what `start` said of it.
        """
        self.said_at = now
        _put(self._kinds, kind, now, _MAX_KINDS)
        earlier, last = self._sayers.get(item, (0, now))
        _put(self._sayers, item, (earlier + 1, now), _MAX_REMEMBERED)
        peers = sum(moment >= last for name, moment in self._peers.items() if name != item)
        asked = now + min(after, self._rules.after_cap)
        if self.state is State.CLOSED:
            if earlier + 1 >= self._rules.says and peers >= self._rules.items:
                return True
            self._count(item, asked, now, jitter)
        elif probe:
            self._pause = min(self._pause * 2, self._rules.pause_cap)
            self._open(asked, now, jitter, "the probe says that it is still down")
        else:
            self.until = max(self.until, asked)
        return False

    def succeed(self, item: str, *, now: float, probe: bool = False) -> None:
        """Take note that an item succeeded which needs it; the probe's success alone closes the breaker."""
        self._sayers.pop(item, None)
        _put(self._peers, item, now, _MAX_REMEMBERED)
        if probe:
            self._probing = False
            self.state, self.why = State.CLOSED, "the probe succeeded"
            self._closed_at = now
            self._says.clear()

    def give_up(self) -> None:
        """Take note that the probe ended without a word about the dependency; the next fit item tries."""
        self._probing = False
        self._first_is_back = False

    # What it is about

    def is_needed_by(self, kind: str, now: float) -> bool:
        """Tell whether an item of this kind said so lately; while it is down, nobody who needs it can say so again."""
        last = self._kinds.get(kind)
        return last is not None and (self.state is not State.CLOSED or now - last < self._rules.memory)

    def is_idle(self, now: float) -> bool:
        """Tell whether nothing is lost when this breaker is forgotten."""
        return self.state is State.CLOSED and now - self.said_at >= self._rules.memory

    def _count(self, item: str, asked: float, now: float, jitter: float) -> None:
        _put(self._says, item, (now, asked), self._rules.items)
        while now - next(iter(self._says.values()))[0] > self._rules.within:
            self._says.popitem(last=False)
        if len(self._says) < self._rules.items:
            return
        again = self._closed_at is not None and now - self._closed_at <= self._rules.within
        if again:  # what a single probe told was not the whole truth
            self._pause = min(self._pause * 2, self._rules.pause_cap)
        else:
            self._pause, self._opened_at = self._rules.pause, now
        longest = max(asked for _, asked in self._says.values())
        self._open(longest, now, jitter, f"{len(self._says)} different items say that it is down")

    def _open(self, asked: float, now: float, jitter: float, why: str) -> None:
        # All nodes of a fleet open in one moment. With less than a factor of two between the shortest pause and the
        # longest they would go on probing in step, pause after pause, and all be away when the dependency is back.
        self.state, self.why = State.OPEN, why
        self.until = max(now + self._pause * (1 - _PAUSE_SPREAD * jitter), asked)
        self._probing = False
        self._first_is_back = False


def _put(table: OrderedDict[str, T], name: str, value: T, most: int) -> None:
    table.pop(name, None)
    table[name] = value
    if len(table) > most:
        table.popitem(last=False)

"""What items have in common that others have not; pure.

Owns the comparison: a trait is named when most of a group have it, at least twice as many as of others, and that is
hardly chance (the hypergeometric test, made stricter by the number of traits looked at). What everybody has is
therefore never named, however many of a group have it.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

LEAST: Final = 3
"""Items of a group that must share a trait: two are a coincidence."""
LEAST_SHARE: Final = 0.5
LEAST_RATIO: Final = 2.0
"""Times the share among others."""
MOST_CHANCE: Final = 0.01
"""How probable it may be that chance alone puts so many of those who have a trait into the group, of all traits."""
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
SIZES: Final = (*(step * _KIB for step in (1, 3, 10, 30, 100, 300)), *(step * _MIB for step in (1, 3, 10)))
"""Bytes above which an item may be called large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one ticket; None is not known, which counts as not having a trait."""

    kind: str | None = None
    client: str | None = None
    charset: str | None = None
    build: str | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """One thing that can be said of a ticket."""

    name: str
    """A field of `Facts`."""
    value: str | int
    """The field's value; of bytes what they are more than, where 0 is: none at all."""

    def is_known(self, facts: Facts) -> bool:
        """Tell whether it can be said if these facts have it."""
        return getattr(facts, self.name) is not None

    def of(self, facts: Facts) -> bool:
        """Tell whether these facts have it."""
        found = getattr(facts, self.name)
        if self.name != "bytes":
            return bool(found == self.value)
        return found is not None and (found > self.value if self.value else found == 0)

    @property
    def words(self) -> str:
        """It, after "are"."""
        match self.name:
            case "bytes":
                return f"over {_size(int(self.value))}" if self.value else "empty"
            case "client":
                return f"from client {self.value}"
            case "charset":
                return str(self.value).upper()
            case "build":
                return f"run by build {self.value}"
            case _:
                return f"of {self.name} {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A trait that the items of a group share and others do not."""

    trait: Trait
    has: int
    """Items of the group that have it."""
    of: int
    """Items of the group."""
    others_have: int
    others_of: int
    """Others of which it is known."""
    chance: float
    """Probability that it is chance, between 0 and `MOST_CHANCE`."""

    @property
    def sentence(self) -> str:
        """It in words."""
        return _told(self.has, self.of, (self.trait,), self.others_have, self.others_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Portrait:
    """The findings that the same items share, told together."""

    traits: tuple[Trait, ...]
    has: int
    of: int
    others_have: int
    others_of: int

    @property
    def sentence(self) -> str:
        """It in words: `8 of 9 are over 300 KiB, UTF-16LE and from client acme (2 of 800 others)`."""
        return _told(self.has, self.of, self.traits, self.others_have, self.others_of)


def find(
    group: Sequence[Facts], others: Sequence[Facts], names: Collection[str] = ("client", "charset", "build", "bytes")
) -> list[Finding]:
    """Return what the items of `group` share, the least probable first; in any order of items the same."""
    candidates = [trait for name in sorted(names) for trait in _traits(name, group)]
    found = [_compared(trait, group, others) for trait in candidates]
    named = [one for one in found if one is not None and one.chance * len(candidates) <= MOST_CHANCE]
    best: dict[str, Finding] = {}
    for one in sorted(named, key=_order):
        if one.trait.name == "bytes":  # of all bounds that tell them apart, one
            best.setdefault("bytes", one)
        else:
            best[f"{one.trait.name}={one.trait.value}"] = one
    return sorted(best.values(), key=_order)


def portray(group: Sequence[Facts], others: Sequence[Facts], findings: Sequence[Finding]) -> Portrait | None:
    """Put together what most of the group have at once; None where nothing was found."""
    together: tuple[Trait, ...] = ()
    for one in findings:
        if any(trait.name == one.trait.name for trait in together):
            continue
        more = (*together, one.trait)
        number = _count(group, more)
        if number >= LEAST and number >= LEAST_SHARE * len(group):
            together = more
    if not together:
        return None
    ordered = tuple(sorted(together, key=lambda trait: _ORDER.index(trait.name)))
    known = [facts for facts in others if all(trait.is_known(facts) for trait in ordered)]
    return Portrait(
        traits=ordered,
        has=_count(group, ordered),
        of=len(group),
        others_have=_count(known, ordered),
        others_of=len(known),
    )


def chance(*, has: int, of: int, others_have: int, others_of: int) -> float:
    """Return how probable it is that at least `has` of those who have a trait are among the `of` by chance."""
    total, having = of + others_of, has + others_have
    most = min(of, having)
    whole = _choices(total, of)
    terms = [_choices(having, k) + _choices(total - having, of - k) - whole for k in range(has, most + 1)]
    largest = max(terms, default=-math.inf)
    if largest == -math.inf:
        return 0.0
    return min(1.0, math.exp(largest) * math.fsum(math.exp(term - largest) for term in terms))


_ORDER: Final = ("bytes", "charset", "kind", "client", "build")


def _traits(name: str, group: Sequence[Facts]) -> list[Trait]:
    values = [value for facts in group if (value := getattr(facts, name)) is not None]
    if name == "bytes":
        return [Trait(name=name, value=bound) for bound in (0, *SIZES) if len(values) >= LEAST]
    return [Trait(name=name, value=value) for value in sorted({str(value) for value in values})]


def _compared(trait: Trait, group: Sequence[Facts], others: Sequence[Facts]) -> Finding | None:
    has = _count(group, (trait,))
    known = [facts for facts in others if trait.is_known(facts)]
    others_have = _count(known, (trait,))
    if has < LEAST or has < LEAST_SHARE * len(group):
        return None
    if not known or has * len(known) < LEAST_RATIO * others_have * len(group):
        return None
    probability = chance(has=has, of=len(group), others_have=others_have, others_of=len(known))
    return Finding(
        trait=trait, has=has, of=len(group), others_have=others_have, others_of=len(known), chance=probability
    )


def _count(among: Sequence[Facts], traits: Sequence[Trait]) -> int:
    return sum(all(trait.of(facts) for trait in traits) for facts in among)


def _order(one: Finding) -> tuple[float, int, str, int | str]:
    # Of two bounds that tell the same items apart, the greater one says more.
    value = one.trait.value
    return (one.chance, -one.has, one.trait.name, -value if isinstance(value, int) else value)


def _choices(of: int, take: int) -> float:
    """The logarithm of the number of ways to take so many."""
    if not 0 <= take <= of:
        return -math.inf
    return math.lgamma(of + 1) - math.lgamma(take + 1) - math.lgamma(of - take + 1)


def _told(has: int, of: int, traits: Sequence[Trait], others_have: int, others_of: int) -> str:
    *most, last = (trait.words for trait in traits)
    said = f"{', '.join(most)} and {last}" if most else last
    verb = "is" if of == 1 else "are"
    return f"{has} of {of} {verb} {said}; {others_have} of {others_of} others"


def _size(count: int) -> str:
    return f"{count // _KIB} KiB" if count < _MIB else f"{count // _MIB} MiB"

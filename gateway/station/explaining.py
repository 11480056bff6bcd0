"""Why a ticket is where it is: what it did, what it died of, what those that died alike share, whose it is.

Owns the sentences of `why`, which command line, desk and JSON API show alike, and their order: what is certain first.
Never writes.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gateway.contract.outcomes import CRASHES
from gateway.station import comparing, deaths, dossier, groups, holds, wording
from gateway.station.comparing import Comparison
from gateway.station.dossier import Dossier, Item, Run
from gateway.station.groups import Group, Note
from gateway.station.holding import ItemState
from gateway.station.holds import Hold
from gateway.station.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Toll:
    """The workers that one ticket took along."""

    deaths: int
    runs: int
    nodes: list[str]
    builds: list[str]

    @property
    def sentence(self) -> str | None:
        """It in words; None where no worker died."""
        if not self.deaths:
            return None
        where = f"on {wording.one_line(self.nodes[0])}" if len(self.nodes) == 1 else f"on {len(self.nodes)} nodes"
        told = [wording.one_line(build) for build in self.builds[:3]]
        under = f", under build {', '.join(told)}" if told else ""
        took = "took a worker along" if self.deaths == 1 else "took their workers along"
        return f"{self.deaths} of its {self.runs} runs {took}, {where}{under}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The answer, in parts and in words."""

    ticket: str
    kind: str
    state: str
    client: str | None
    item: Item | None
    toll: Toll
    group: Group | None
    comparison: Comparison | None
    """Of the group with others."""
    relatives: Sequence[str]
    """Groups that died of the same in another kind or with another outcome."""
    hold: Hold | None
    notes: Sequence[Note]
    lines: Sequence[str]
    """All of it in sentences."""


async def explain(store: Store, ticket: str) -> Why | None:
    """Return why a ticket is where it is; None when nobody ever reported it."""
    found = await dossier.find(store, ticket)
    if found is None:
        return None
    item = found.items[0] if found.items else None
    named = item.group if item is not None else None
    group = await groups.find_one(store, named) if named is not None else None
    comparison = await comparing.of_group(store, group.id, group.kind) if group is not None else None
    relatives = await groups.relatives(store, group) if group is not None else []
    async with store.reading() as transaction:
        hold = await holds.find(transaction, ticket)
    toll = _toll(found.runs)
    share = _share(await deaths.recent(store, time.time()), ticket)
    return Why(
        ticket=ticket,
        kind=found.kind,
        state=found.state,
        client=found.client,
        item=item,
        toll=toll,
        group=group,
        comparison=comparison,
        relatives=relatives,
        hold=hold,
        notes=await groups.find_notes(store, ticket=ticket, group=named),
        lines=[
            *_about(found, item),
            *(sentence for sentence in (toll.sentence, share) if sentence),
            *(_alike(group, comparison, relatives) if group is not None else ()),
            *_duty(item, hold),
        ],
    )


def document(why: Why) -> dict[str, Any]:
    """Return it as JSON has it."""
    compared = why.comparison
    return {
        "ticket": why.ticket,
        "kind": why.kind,
        "state": why.state,
        "client": why.client,
        "reason": why.item.reason if why.item is not None else None,
        "owner": why.item.owner if why.item is not None else None,
        "deadline": why.item.deadline if why.item is not None else None,
        "lines": list(why.lines),
        "deaths": asdict(why.toll),
        "group": None if why.group is None else of_group(why.group),
        "comparison": None if compared is None else of_comparison(compared),
        "relatives": list(why.relatives),
        "hold": None if why.hold is None else asdict(why.hold),
        "notes": [asdict(note) for note in why.notes],
    }


def of_group(group: Group) -> dict[str, Any]:
    """Return a group as JSON has it."""
    return {**asdict(group), "title": group.title}


def of_comparison(compared: Comparison) -> dict[str, Any]:
    """Return what a group shares as JSON has it."""
    return {
        "sentence": None if compared.portrait is None else compared.portrait.sentence,
        "findings": [
            {
                "trait": one.trait.name,
                "value": one.trait.value,
                "has": one.has,
                "of": one.of,
                "others_have": one.others_have,
                "others_of": one.others_of,
                "chance": one.chance,
                "sentence": one.sentence,
            }
            for one in compared.findings
        ],
        "compared": compared.compared,
        "with_others": compared.with_others,
    }


def _about(found: Dossier, item: Item | None) -> list[str]:
    of_client = f" of client {wording.one_line(found.client)}" if found.client else ""
    named = f"ticket {found.ticket} ({wording.one_line(found.kind)}){of_client}"
    last = found.runs[-1] if found.runs else None
    ended = f"its last run: {wording.sentence(last)}" if last is not None else "it was never started"
    if item is None:
        return [f"{named} is {found.state}, and never was in quarantine", ended]
    detail = f" ({wording.one_line(item.detail)})" if item.detail else ""
    came = f"generation {item.generation} came here {wording.clock(item.arrived_at)}"
    lines = [f"{named} is {found.state}: {came}, {wording.one_line(item.reason)}{detail}"]
    if item.state is not ItemState.HELD:
        who, why = wording.one_line(item.decided_by or "nobody"), wording.one_line(item.decision_reason or "")
        lines.append(f"it was {item.state} by {who}, {wording.clock(item.decided_at)}, because: {why}")
    return [*lines, ended]


def _toll(runs: Sequence[Run]) -> Toll:
    died = [run for run in runs if run.outcome in CRASHES]
    builds = (str(run.evidence["build"]) for run in died if run.evidence.get("build"))
    return Toll(
        deaths=len(died),
        runs=len(runs),
        nodes=sorted({run.node for run in died if run.node}) or (["an unknown node"] if died else []),
        builds=sorted(set(builds)),
    )


def _share(losses: deaths.Losses, ticket: str) -> str | None:
    mine = next((one for one in losses.killers if one.ticket == ticket), None)
    if mine is None or mine.deaths == losses.deaths:
        return (
            None
            if mine is None
            else f"no other item took a worker along within a day ({mine.deaths} deaths, all its own)"
        )
    return f"{mine.deaths} of the {losses.deaths} workers that died within a day died of it"


def _alike(group: Group, compared: Comparison | None, relatives: Sequence[str]) -> list[str]:
    title = wording.one_line(group.title)
    when = f"first {wording.clock(group.first_at)}, last {wording.clock(group.last_at)}"
    builds = ", ".join(f"{wording.one_line(build)} ({number})" for build, number in list(group.builds.items())[:3])
    under = f", under build {builds}" if builds else ""
    others = (
        "no other item died of this" if group.items == 1 else f"{group.items} items died of this, {group.waiting} wait"
    )
    lines = [f"group {group.id}: {title}; {others}; {when}{under}"]
    if compared is not None and compared.portrait is not None:
        told = compared.portrait.sentence
        lines.append(f"what they share: {wording.one_line(told)}")
        lines += [f"  {wording.one_line(one.sentence)}" for one in compared.findings if len(compared.findings) > 1]
    elif group.items >= 3:  # noqa: PLR2004 - below, nothing was to be expected
        assert compared is not None  # noqa: S101 - a group was compared
        lines.append(f"they share nothing that {compared.with_others} other tickets do not have as often")
    if relatives:
        lines.append(f"the same in other groups: {', '.join(relatives[:5])}")
    return lines


def _duty(item: Item | None, hold: Hold | None) -> list[str]:
    lines = []
    if hold is not None:
        lines.append(wording.one_line(hold.sentence, 1000))
    if item is not None and item.state is ItemState.HELD:
        until = "without a deadline"
        if item.deadline is not None:
            late = ", overdue" if item.deadline < time.time() and hold is None else ""
            until = f"to be decided by {wording.clock(item.deadline)}{late}"
        lines.append(f"it is {wording.owned(item.owner)}, {until}")
    return lines

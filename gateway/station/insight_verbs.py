"""The verbs that help to understand: groups, why, review, caseload, fleet.

Owns their arguments and what they print. The only one that writes is a signature under a record.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from gateway.station import (
    caseload,
    comparing,
    deaths,
    explaining,
    fleet,
    groups,
    record,
    roll_call,
    sign_offs,
    wording,
)
from gateway.station.arguments import add_filter, chosen, decision, verb
from gateway.station.caseload import Load
from gateway.station.decided import Unknown
from gateway.station.documents import of_fleet, written
from gateway.station.groups import Group
from gateway.station.holding import ItemState
from gateway.station.record import Record
from gateway.station.reviewing import Clash
from gateway.station.selection import WAITING
from gateway.station.store import Store

OK: Final = 0
REFUSED: Final = 1
VERBS: Final = frozenset({"groups", "why", "review", "caseload", "fleet"})


def add_verbs(verbs: Any) -> None:
    """Add the verbs to an argument parser's subcommands."""
    listing = verb(verbs, "groups", "items that died of the same, those with most undecided ones first")
    listing.add_argument("id", nargs="?", help="one group: what its items share, and what was noted about it")
    add_filter(listing)
    listing.add_argument("--all", action="store_true", help="count decided items, too")
    asking = verb(verbs, "why", "why a ticket is where it is, and what those that died alike share")
    asking.add_argument("ticket")
    reviewing = verb(verbs, "review", "the record of a review: everything that happened to a ticket, signed or not")
    reviewing.add_argument("ticket")
    reviewing.add_argument("--sign-off", action="store_true", help="sign it; `--reason` are the words under it")
    reviewing.add_argument("--digest", help="sign only if this is still the record's digest")
    reviewing.add_argument("--by", metavar="WHO", help="who signs")
    reviewing.add_argument("--reason", metavar="WORDS", help="what is signed: what was found out and decided")
    verb(verbs, "caseload", "how much waits for whom: unreviewed, overdue, on hold; and items that kill workers")
    verb(verbs, "fleet", "what each node last said of itself: slots, memory, recycling; who is silent")


async def run(store: Store, arguments: argparse.Namespace) -> int:
    """Do what the verb says and return the exit code."""
    match arguments.verb:
        case "groups" if arguments.id is not None:
            return await _group(store, arguments)
        case "groups":
            return await _groups(store, arguments)
        case "why":
            return await _why(store, arguments)
        case "caseload":
            return await _caseload(store, arguments)
        case "fleet":
            return await _fleet(store, arguments)
        case _:
            return await _review(store, arguments)


async def _groups(store: Store, arguments: argparse.Namespace) -> int:
    found = await groups.find(store, chosen(arguments, *(ItemState if arguments.all else WAITING)))
    if arguments.json:
        return _print([explaining.of_group(one) for one in found])
    for one in found:
        print(_line(one))
    if not found:
        print("no such item" if arguments.all else "nothing is held")
    return OK


async def _group(store: Store, arguments: argparse.Namespace) -> int:
    group = await groups.find_one(store, arguments.id)
    if group is None:
        return _fail(f"there is no group {arguments.id!r}")
    compared = await comparing.of_group(store, group.id, group.kind)
    notes = await groups.find_notes(store, group=group.id)
    relatives = await groups.relatives(store, group)
    if arguments.json:
        told = {"comparison": explaining.of_comparison(compared), "relatives": relatives}
        return _print({**explaining.of_group(group), **told, "notes": [asdict(note) for note in notes]})
    print(_line(group))
    for frame in group.frames:
        print(f"  {_safe(frame)}")
    if compared.portrait is not None:
        print(f"shared      {_safe(compared.portrait.sentence)}")
    for finding in compared.findings:
        print(f"  {_safe(finding.sentence)}")
    for build, number in group.builds.items():
        print(f"build       {_safe(build)}: {number}")
    for note in notes:
        print(f"note        {_safe(note.by)}, {wording.clock(note.at)}: {_safe(note.text)}")
    print(f"tickets     {' '.join(group.tickets)}")
    return OK


async def _why(store: Store, arguments: argparse.Namespace) -> int:
    why = await explaining.explain(store, arguments.ticket)
    if why is None:
        return _fail(f"no report about ticket {arguments.ticket!r} ever arrived")
    if arguments.json:
        return _print(explaining.document(why))
    for line in why.lines:
        print(_safe(line))
    for note in why.notes:
        print(f"note by {_safe(note.by)}, {wording.clock(note.at)}: {_safe(note.text)}")
    return OK


async def _review(store: Store, arguments: argparse.Namespace) -> int:
    if arguments.sign_off:
        if not (arguments.by or "").strip() or not (arguments.reason or "").strip():
            return _fail("nobody signs without --by and --reason")
        match await sign_offs.sign(store, arguments.ticket, decision(arguments), seen=arguments.digest):
            case Unknown():
                return _fail(f"no report about ticket {arguments.ticket!r} ever arrived")
            case Clash(sentence=sentence):
                return _fail(sentence)
            case signed:
                found: Record | None = signed.record
    else:
        found = await sign_offs.find(store, arguments.ticket)
    if found is None:
        return _fail(f"no report about ticket {arguments.ticket!r} ever arrived")
    if arguments.json:
        return _print(record.document(found))
    for entry in found.entries:
        late = "after sign-off  " if found.is_after_sign_off(entry) else ""
        print(f"{wording.clock(entry.at)}  {late}{_safe(entry.sentence)}")
    for one in found.sign_offs:
        print(f"{wording.clock(one.at)}  signed by {_safe(one.by)}: {_safe(one.words)} ({len(one.entries)} entries)")
    if not found.sign_offs:
        print(f"not signed; digest {found.digest}")
    elif not found.is_signed:
        changed = f"; {found.gone} of what was signed is known differently by now" if found.gone else ""
        print(f"not as it was signed{changed}; digest {found.digest}")
    return OK


async def _caseload(store: Store, arguments: argparse.Namespace) -> int:
    now = time.time()
    async with store.reading() as transaction:
        found = await caseload.loads(transaction, now)
    losses = await deaths.recent(store, now)
    if arguments.json:
        return _print({"owners": [asdict(load) for load in found], "deaths": asdict(losses)})
    _tell_loads(found)
    if losses.sentence is not None:
        print(f"{losses.sentence}: {' '.join(one.ticket for one in losses.killers)}")
    for rise in losses.rising:
        print(f"{rise.what} {_safe(rise.value)}: {rise.deaths} deaths in this hour, {rise.usual:.1f} are usual")
    return OK


async def _fleet(store: Store, arguments: argparse.Namespace) -> int:
    states, now = await fleet.find(store), time.time()
    if arguments.json:
        return _print(of_fleet(states, now))
    found = roll_call.nodes(states, now)
    for node in found:
        print(_safe(roll_call.sentence(node, now)))
    for state in roll_call.pressing(states, now):
        print(_safe(f"{state.node}: {state.event} {state.subject} {state.state}: {state.data.get('why') or ''}"))
    if not found:
        print("no node has said anything of itself")
    return OK


def _tell_loads(found: Sequence[Load]) -> None:
    for load in found:
        oldest = f", the oldest since {wording.clock(load.oldest)}" if load.oldest is not None else ""
        counted = f"{load.unreviewed} unreviewed, {load.overdue} overdue, {load.on_hold} on hold"
        print(f"{wording.owned(load.owner)}: {counted}{oldest}")


def _line(group: Group) -> str:
    when = f"{wording.clock(group.first_at)} to {wording.clock(group.last_at)}"
    return f"{group.id}  {group.waiting:>6} wait of {group.items}  {_safe(group.title)}  {when}"


def _print(document: object) -> int:
    print(written(document, indent=True))
    return OK


def _safe(text: str) -> str:
    return wording.one_line(text, 1000)


def _fail(sentence: str) -> int:
    print(_safe(sentence), file=sys.stderr)
    return REFUSED

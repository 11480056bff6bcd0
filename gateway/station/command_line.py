"""The reviewers' verbs on the command line.

Owns which there are, and what is printed of lists and tickets: for people with everything hostile escaped, or with
`--json` as one document. Decides nothing.
"""

import argparse
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from gateway.settings import StationSettings
from gateway.station import (
    alerts_verb,
    decide_verbs,
    dossier,
    escalations,
    escalations_verb,
    export_verb,
    insight_verbs,
    lineage,
    migrate_verb,
    operations_verb,
    reconcile_verb,
    rejections_verb,
    reset_verb,
    review_verbs,
    wording,
)
from gateway.station.arguments import add_decision, add_filter, chosen, verb
from gateway.station.documents import escalations_of, listed, shown, written
from gateway.station.dossier import Dossier
from gateway.station.holding import ItemState
from gateway.station.lineage import Descent
from gateway.station.selection import WAITING, Filter
from gateway.station.store import Store
from gateway.station.tombstones import countdown

_Verb = Callable[[Store, argparse.Namespace, StationSettings], Awaitable[int]]
OK: Final = 0
REFUSED: Final = 1
"""What was asked for did not happen; the message says why."""


def add_verbs(verbs: Any) -> None:
    """Add the verbs to an argument parser's subcommands."""
    listing = verb(verbs, "list", "items that wait for a decision, oldest first")
    add_filter(listing)
    states = listing.add_mutually_exclusive_group()
    states.add_argument("--all", action="store_true", help="decided ones, too")
    states.add_argument("--state", action="append", choices=list(ItemState), help="only in this state; may be repeated")
    showing = verb(verbs, "show", "one ticket: state, runs with their evidence, lineage, alerts, decisions")
    showing.add_argument("ticket")
    insight_verbs.add_verbs(verbs)
    decide_verbs.add_verbs(verbs)
    review_verbs.add_verbs(verbs)
    operations_verb.add_arguments(
        verb(verbs, "operations", "replay, resume or discard many, with a canary, paced, to be stopped")
    )
    resetting = verb(verbs, "reset", "give attempts back after an incident; counts first")
    add_decision(resetting)
    reset_verb.add_arguments(resetting)
    rejections_verb.add_arguments(verb(verbs, "rejections", "what door and consumers refused, newest first"))
    export_verb.add_arguments(verb(verbs, "export", "the audit log or the items, as JSON lines"))
    verb(verbs, "reconcile", "whether queue, store and journal agree; exit code 1 when not")
    migrate_verb.add_arguments(verb(verbs, "migrate", "bring the store's tables to this version; tells what was done"))
    alerts_verb.add_arguments(verbs.add_parser("alerts", help="try every way that alerts take"))
    escalations_verb.add_arguments(verbs.add_parser("escalations", help="what is handed over to people outside"))


async def run(arguments: argparse.Namespace, settings: StationSettings) -> int:
    """Do what the verb says and return the exit code."""
    try:
        code = await _run(arguments, settings)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough, such as `head`. What is left to print goes nowhere, at the process's end too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return code


async def _run(arguments: argparse.Namespace, settings: StationSettings) -> int:
    if arguments.verb == "migrate":
        return await migrate_verb.run(arguments, settings)
    if arguments.verb == "alerts":
        return await alerts_verb.run(arguments, settings)
    store = await Store.open(settings.store)
    try:
        return await _verb_of(arguments.verb)(store, arguments, settings)
    finally:
        await store.close()


def _verb_of(name: str) -> _Verb:
    """Return what does what a verb says."""
    own: dict[str, _Verb] = {
        "list": _list,
        "show": _show,
        "rejections": lambda store, arguments, _: rejections_verb.run(store, arguments),
        "reconcile": reconcile_verb.run,
        "escalations": lambda store, arguments, _: escalations_verb.run(store, arguments),
        "reset": reset_verb.run,
        "operations": operations_verb.run,
        "export": lambda store, arguments, _: export_verb.run(store, arguments),
        **dict.fromkeys(review_verbs.VERBS, lambda store, arguments, _: review_verbs.run(store, arguments)),
        **dict.fromkeys(insight_verbs.VERBS, lambda store, arguments, _: insight_verbs.run(store, arguments)),
    }
    return own.get(name, decide_verbs.run)


async def _list(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    states = tuple(ItemState(state) for state in arguments.state or (ItemState if arguments.all else WAITING))
    selected = chosen(arguments, *states)
    found = await dossier.find_chosen(store, selected)
    total = (await dossier.count_chosen(store, selected)).number
    if total > len(found):
        print(f"the oldest {len(found)} of {total}", file=sys.stderr)
    if arguments.json:
        return _print_json([listed(item, f"{settings.desk_link}/items/{item.ticket}") for item in found])
    for item in found:
        tried = f"{item.attempts} attempts" if item.attempts != 1 else "1 attempt"
        about = f"{item.ticket}  {_safe(item.kind)}  {item.state}  {_safe(item.reason)}"
        print(f"{about}  {tried}  {wording.clock(item.arrived_at)}")
    if not found:
        print("nothing is held" if selected == Filter(states=WAITING) else "no such item")
    return OK


async def _show(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    found = await dossier.find(store, arguments.ticket)
    if found is None:
        return _fail(f"no report about ticket {arguments.ticket!r} ever arrived")
    attached = await _attached(store, found)
    descents = await lineage.find(store, found.ticket)
    if arguments.json:
        link = f"{settings.desk_link}/items/{found.ticket}"
        handed_over = await escalations.find(store, found.ticket)
        document = shown(found, link, settings.item_retention, attached=attached, lineage=descents)
        return _print_json({**document, **escalations_of(handed_over)})
    print(f"ticket      {found.ticket} ({_safe(found.kind)})")
    counted = f"generation {found.generation}, {found.attempts} attempts"
    print(f"state       {found.state}, {counted}, {wording.clock(found.updated_at)}")
    for item in found.items:
        about = f"{item.state}, {_safe(item.reason)}" + (f" ({_safe(item.detail)})" if item.detail else "")
        print(f"item        generation {item.generation}: {about}, {item.size} bytes, {wording.clock(item.arrived_at)}")
        kept = wording.retained(item, countdown(found, item, settings.item_retention), time.time())
        if kept is not None:
            print(f"            {kept}")
    for one in attached:
        where = "in the depot" if one["reference"] else "in the body"
        print(f"attachment  {_safe(one['name'])}, {_safe(one['content_type'])}, {one['bytes']} bytes, {where}")
    for run in found.runs:
        print(f"run         {run.generation}.{run.attempt}  {wording.sentence(run)}")
        for name in ("log_tail", "stack", "traceback"):
            text = run.evidence.get(name)
            if text:
                print(f"  {name}:", *(f"    {_safe(line)}" for line in str(text).splitlines()[-20:]), sep="\n")
    _print_lineage(descents)
    for alert in found.alerts:
        unsent = "not sent yet" if alert.retired_at is None else "not sent, its channel is configured no more"
        sent = unsent if alert.sent_at is None else wording.clock(alert.sent_at)
        print(f"alert       {_safe(alert.channel)}, {alert.event}, {sent}")
    for escalation in await escalations.find(store, found.ticket):
        print(f"escalation  generation {escalation.generation}: {wording.handed_over(escalation)}")
    for act in found.acts:
        print(f"decision    {act.act} by {_safe(act.actor)}, {wording.clock(act.at)}, because: {_safe(act.reason)}")
    return OK


def _print_lineage(descents: Sequence[Descent]) -> None:
    for one in descents:
        sure = "unconfirmed" if one.confirmed_at is None else "confirmed"
        how = f"to {one.lane}, {'edited, ' if one.edited else ''}{sure}"
        print(f"replay      {one.replayed_from} -> {one.generation} by {_safe(one.by)}, {how}")
        for line in (one.difference or "").splitlines()[:20]:
            print(f"    {_safe(line)}")


async def _attached(store: Store, found: Dossier) -> list[dict[str, Any]]:
    newest = found.items[0] if found.items else None
    if newest is None or (newest.admission is not None and not newest.admission["attachments"]):
        return []
    from gateway.station.desk import enclosures  # noqa: PLC0415 - the preflight would make every verb slow to start

    return enclosures.listed(await enclosures.of(store, found))


def _safe(text: str) -> str:
    return wording.one_line(text, 1000)


def _print_json(value: object) -> int:
    print(written(value, indent=True))
    return OK


def _fail(sentence: str) -> int:
    print(wording.one_line(sentence, 1000), file=sys.stderr)
    return REFUSED

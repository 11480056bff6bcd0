"""The reviewers' verbs on the command line: list, show, replay, discard, reset, rejections, and what operators ask.

Owns what is printed: for people with everything hostile escaped, or with `--json` as one document. Decides nothing.
"""

import argparse
import os
import sys
import time
from typing import Any, Final

from gateway.settings import StationSettings
from gateway.station import decisions, dossier, migrate_verb, reconcile_verb, rejections_verb, reset_verb, wording
from gateway.station.decisions import Decision, Done, Doubtful, Taken, Unknown, Unsent
from gateway.station.documents import listed, shown, written
from gateway.station.dossier import Dossier
from gateway.station.holding import ItemState
from gateway.station.sender import Sender
from gateway.station.store import Store
from gateway.station.tombstones import countdown

OK: Final = 0
REFUSED: Final = 1
"""What was asked for did not happen; the message says why."""
_UNDECIDED: Final = (ItemState.HELD, ItemState.REPLAYING)


def add_verbs(verbs: Any) -> None:
    """Add the verbs to an argument parser's subcommands."""
    listing = _verb(verbs, "list", "items that wait for a decision, oldest first")
    listing.add_argument("--all", action="store_true", help="decided ones, too")
    showing = _verb(verbs, "show", "one ticket: state, runs with their evidence, alerts, decisions")
    showing.add_argument("ticket")
    for name, about in (
        ("replay", "send an item again, with a full budget and its history"),
        ("discard", "end an item for good; its body and history are kept"),
    ):
        writing = _verb(verbs, name, about)
        writing.add_argument("ticket")
        writing.add_argument("--by", required=True, type=_words, metavar="WHO", help="who decides")
        writing.add_argument("--reason", required=True, type=_words, metavar="WHY", help="why")
        if name == "replay":
            writing.add_argument("--resume", action="store_true", help="send again what a replay left in doubt")
    resetting = _verb(verbs, "reset", "give attempts back after an incident; counts first")
    resetting.add_argument("--by", required=True, type=_words, metavar="WHO", help="who decides")
    resetting.add_argument("--reason", required=True, type=_words, metavar="WHY", help="why")
    reset_verb.add_arguments(resetting)
    rejections_verb.add_arguments(_verb(verbs, "rejections", "what door and consumers refused, newest first"))
    _verb(verbs, "reconcile", "whether queue, store and journal agree; exit code 1 when not")
    migrate_verb.add_arguments(_verb(verbs, "migrate", "bring the store's tables to this version; tells what was done"))


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
    store = await Store.open(settings.store)
    try:
        match arguments.verb:
            case "list":
                return await _list(store, arguments, settings)
            case "show":
                return await _show(store, arguments, settings)
            case "rejections":
                return await rejections_verb.run(store, arguments)
            case "reconcile":
                return await reconcile_verb.run(store, arguments, settings)
            case "reset":
                return await reset_verb.run(store, arguments, settings)
            case _:
                return await _decide(store, arguments, settings)
    finally:
        await store.close()


async def _list(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    states = tuple(ItemState) if arguments.all else _UNDECIDED
    found, total = await dossier.find_items(store, states), (await dossier.count_items(store, states)).number
    if total > len(found):
        print(f"the oldest {len(found)} of {total}", file=sys.stderr)
    if arguments.json:
        return _print_json([listed(item, f"{settings.desk_link}/items/{item.ticket}") for item in found])
    for item in found:
        tried = f"{item.attempts} attempts" if item.attempts != 1 else "1 attempt"
        about = f"{item.ticket}  {_safe(item.kind)}  {item.state}  {_safe(item.reason)}"
        print(f"{about}  {tried}  {wording.clock(item.arrived_at)}")
    if not found:
        print("nothing is held" if not arguments.all else "nothing was ever held")
    return OK


async def _show(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    found = await dossier.find(store, arguments.ticket)
    if found is None:
        return _fail(f"no report about ticket {arguments.ticket!r} ever arrived")
    attached = await _attached(store, found)
    if arguments.json:
        return _print_json(
            shown(found, f"{settings.desk_link}/items/{found.ticket}", settings.item_retention, attached)
        )
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
    for alert in found.alerts:
        unsent = "not sent yet" if alert.retired_at is None else "not sent, its channel is configured no more"
        sent = unsent if alert.sent_at is None else wording.clock(alert.sent_at)
        print(f"alert       {_safe(alert.channel)}, {alert.event}, {sent}")
    for act in found.acts:
        print(f"decision    {act.act} by {_safe(act.actor)}, {wording.clock(act.at)}, because: {_safe(act.reason)}")
    return OK


async def _attached(store: Store, found: Dossier) -> list[dict[str, Any]]:
    newest = found.items[0] if found.items else None
    if newest is None or (newest.admission is not None and not newest.admission["attachments"]):
        return []
    from gateway.station.desk import enclosures  # noqa: PLC0415 - the preflight would make every verb slow to start

    return enclosures.listed(await enclosures.of(store, found))


async def _decide(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    decision = Decision(by=arguments.by, reason=arguments.reason)
    if arguments.verb == "discard":
        return _told(await decisions.discard(store, arguments.ticket, decision), arguments)
    sender = Sender(settings.broker_url)
    try:
        outcome = await decisions.replay(
            store, sender, settings.topology, arguments.ticket, decision, resume=arguments.resume
        )
    finally:
        await sender.close()
    return _told(outcome, arguments)


def _told(outcome: Done | Unknown | Taken | Unsent | Doubtful, arguments: argparse.Namespace) -> int:
    match outcome:
        case Done(ticket=ticket, generation=generation):
            done = "replayed" if arguments.verb == "replay" else "discarded"
            if arguments.json:
                return _print_json({"ticket": ticket, "generation": generation, "decision": done, "by": arguments.by})
            print(f"ticket {ticket} is {done}" + (f" as generation {generation}" if done == "replayed" else ""))
            return OK
        case Unknown(ticket=ticket):
            return _fail(f"ticket {ticket!r} was never in quarantine here")
        case Taken(sentence=sentence):
            return _fail(sentence)
        case Unsent(why=why):
            state = "still shows as replaying" if arguments.resume else "is held as before"
            return _fail(f"not replayed, the item {state}: {why}")
        case Doubtful(why=why):
            return _fail(
                f"sent, but not confirmed: {why}. The item shows as replaying; `replay --resume` sends it again,"
                " and the fence lets only one copy start"
            )


def _verb(verbs: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    return parser


def _words(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text.strip()


def _safe(text: str) -> str:
    return wording.one_line(text, 1000)


def _print_json(value: object) -> int:
    print(written(value, indent=True))
    return OK


def _fail(sentence: str) -> int:
    print(wording.one_line(sentence, 1000), file=sys.stderr)
    return REFUSED

"""The verbs about one item: replay, edit and replay, discard, restore.

Owns their arguments and what they print. Decides nothing.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, assert_never

import orjson

from gateway.contract.topology import Lane
from gateway.settings import StationSettings
from gateway.station import decisions, replays, wording
from gateway.station.arguments import add_decision, decision, verb
from gateway.station.decided import MEANINGS, Barred, DiscardCode, Done, Doubtful, Taken, Unknown, Unsent
from gateway.station.documents import written
from gateway.station.replays import Plan
from gateway.station.sender import Sender
from gateway.station.store import Store
from gateway.station.successor import Change
from gateway.tracing import Service, open_traces

OK: Final = 0
REFUSED: Final = 1
_EDITS: Final = ("body", "content_type", "text", "subject", "attributes")
_DONE: Final = {"replay": "replayed", "discard": "discarded", "restore": "held again"}

Answer = Done | Unknown | Taken | Barred | Unsent | Doubtful


def add_verbs(verbs: Any) -> None:
    """Add the verbs to an argument parser's subcommands."""
    replaying = verb(verbs, "replay", "send an item again, with a full budget and its history")
    replaying.add_argument("ticket")
    add_decision(replaying)
    replaying.add_argument("--resume", action="store_true", help="send again what a replay left in doubt")
    replaying.add_argument("--lane", choices=list(Lane), default=Lane.WORK, help="where to (default: work)")
    _add_generation(replaying)
    editing = replaying.add_argument_group("edit and replay", "the door's checks are run over what is sent")
    editing.add_argument("--body", metavar="FILE", help="another whole body; - is standard input")
    editing.add_argument("--content-type", metavar="TYPE", help="of that body")
    editing.add_argument("--text", metavar="FILE", help="another text in its place; - is standard input")
    editing.add_argument("--subject", help="another subject; of JSON tickets")
    editing.add_argument("--attributes", metavar="JSON", type=_object, help="other attributes; of JSON tickets")
    editing.add_argument("--dry-run", action="store_true", help="show what would change, and what the door would say")
    discarding = verb(verbs, "discard", "end an item for good; its body and history are kept")
    discarding.add_argument("ticket")
    add_decision(discarding)
    discarding.add_argument(
        "--code",
        choices=list(DiscardCode),
        default=DiscardCode.OTHER,
        metavar="CODE",
        help="; ".join(f"{code}: {meaning}" for code, meaning in MEANINGS.items()),
    )
    _add_generation(discarding)
    restoring = verb(verbs, "restore", "hold again what was discarded, within the restore window")
    restoring.add_argument("ticket")
    add_decision(restoring)


async def run(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    """Do what the verb says and return the exit code."""
    match arguments.verb:
        case "discard":
            code = DiscardCode(arguments.code)
            discarded = await decisions.discard(
                store, arguments.ticket, decision(arguments), code, generation=arguments.generation
            )
            return _told(discarded, arguments)
        case "restore":
            window = settings.restore_window
            return _told(
                await decisions.restore(store, arguments.ticket, decision(arguments), window=window), arguments
            )
        case _:
            return await _replay(store, arguments, settings)


async def _replay(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    plan = Plan(lane=Lane(arguments.lane), generation=arguments.generation, limit=settings.replay_limit)
    if any(getattr(arguments, name) is not None for name in _EDITS):
        try:
            prepared = await _edited(store, arguments, settings)
        except OSError as error:
            return _fail(f"cannot read {error.filename}: {error.strerror}")
        if not isinstance(prepared, Plan):
            return prepared
        plan = prepared
    elif arguments.dry_run:
        return _fail("nothing to try: name an edit, or use `operations replay` for a dry run of many")
    traces = open_traces(Service.STATION)
    sender = Sender(settings.broker_url, traces)
    try:
        if arguments.resume:
            outcome = await replays.resume(store, sender, settings.topology, arguments.ticket, decision(arguments))
        else:
            outcome = await replays.replay(
                store, sender, settings.topology, arguments.ticket, decision(arguments), plan=plan
            )
    finally:
        await sender.close()
        await traces.close()
    return _told(outcome, arguments)


async def _edited(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> Plan | int:
    """Return the plan of an edited replay, or the exit code where there is none to carry out."""
    # These bring the tokenizer along, which every other verb starts without.
    from gateway.station import edited_replay  # noqa: PLC0415
    from gateway.station.checks import Checks  # noqa: PLC0415
    from gateway.station.edits import Edit  # noqa: PLC0415

    edit = Edit(
        body=None if arguments.body is None else _read(arguments.body),
        content_type=arguments.content_type,
        text=None if arguments.text is None else _read(arguments.text).decode("utf-8", "replace"),
        subject=arguments.subject,
        attributes=arguments.attributes,
    )
    found = await edited_replay.prepare(
        store,
        Checks(settings),
        arguments.ticket,
        edit,
        lane=Lane(arguments.lane),
        generation=arguments.generation,
        limit=settings.replay_limit,
    )
    match found:
        case Plan(change=Change(difference=difference)) if arguments.dry_run:
            return _show_change(arguments, difference, None)
        case Plan():
            return found
        case edited_replay.Refused(fails=fails, difference=difference):
            if arguments.dry_run:
                _show_change(arguments, difference, fails.sentence)
            return _fail(f"not replayed, the door would not let it in: {fails.sentence}")
        case _:
            return _told(found, arguments)


def _told(outcome: Answer, arguments: argparse.Namespace) -> int:
    match outcome:
        case Done(ticket=ticket, generation=generation):
            done = _DONE[arguments.verb]
            if arguments.json:
                document = {"ticket": ticket, "generation": generation, "decision": done, "by": arguments.by}
                print(written(document, indent=True))
                return OK
            print(f"ticket {ticket} is {done}" + (f" as generation {generation}" if arguments.verb == "replay" else ""))
            return OK
        case Unknown(ticket=ticket):
            return _fail(f"ticket {ticket!r} was never in quarantine here")
        case Taken(sentence=sentence):
            return _fail(sentence)
        case Barred(why=why):
            return _fail(f"ticket {arguments.ticket} is not {_DONE[arguments.verb]}: {why}")
        case Unsent(why=why):
            state = "still shows as replaying" if arguments.resume else "is held as before"
            return _fail(f"not replayed, the item {state}: {why}")
        case Doubtful(why=why):
            return _fail(
                f"sent, but not confirmed: {why}. The item shows as replaying; `replay --resume` sends it again,"
                " and the fence lets only one copy start"
            )
        case _:
            assert_never(outcome)


def _show_change(arguments: argparse.Namespace, difference: str, refused: str | None) -> int:
    if arguments.json:
        print(written({"ticket": arguments.ticket, "difference": difference, "refused": refused}, indent=True))
        return OK
    print(*(wording.one_line(line, 1000) for line in difference.splitlines()), sep="\n")
    if refused is None:
        print("the door would let it in; nothing was changed")
    return OK


def _read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"this is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("write a JSON object")
    return found


def _add_generation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--generation", type=int, metavar="N", help="only if this is the generation that is held")


def _fail(sentence: str) -> int:
    print(wording.one_line(sentence, 1000), file=sys.stderr)
    return REFUSED

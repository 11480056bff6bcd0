"""The verb `operations`: many items at once, counted first, done by the station that serves.

Owns its arguments and what it prints. Decides nothing.
"""

import argparse
import asyncio
import sys
from collections import Counter
from typing import Any, Final

from gateway.contract.topology import Lane
from gateway.settings import StationSettings
from gateway.station import candidates, operations, progress, wording
from gateway.station.arguments import add_decision, add_filter, chosen, decision
from gateway.station.candidates import TooMany
from gateway.station.decided import DiscardCode
from gateway.station.documents import of_line, of_operation, written
from gateway.station.operations import DEFAULT_PACE, MAX_PACE, Kind, NotNow, Operation, Request, State, TokenTaken
from gateway.station.progress import Outcome
from gateway.station.store import Store

OK: Final = 0
REFUSED: Final = 1
_SHOWN: Final = 20
_LOOK: Final = 0.5
_OVER: Final = frozenset({State.ENDED, State.STOPPED, State.HALTED})
_OPEN: Final = (Outcome.WAITING, Outcome.PENDING)
_ABOUT: Final = {
    Kind.REPLAY: "replay many",
    Kind.RESUME: "send again what replays have left in doubt, where the fence lets only one copy start",
    Kind.DISCARD: "discard many",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it can be asked for."""
    acts = parser.add_subparsers(dest="act", required=True, metavar="WHAT")
    for kind in Kind:
        about = f"{_ABOUT[kind]}: counts, says what cannot be done and why, and changes nothing until it is started"
        making = _what(acts, kind, about)
        add_decision(making)
        making.add_argument("tickets", nargs="*", metavar="TICKET", help="these; none: all that the filter means")
        add_filter(making)
        making.add_argument(
            "--pace", type=_pace, default=DEFAULT_PACE, metavar="N", help="items a second (default: 20)"
        )
        if kind.sends:
            making.add_argument(
                "--canary", type=_count, default=0, metavar="K", help="K first, the others if these succeed"
            )
        if kind is Kind.REPLAY:
            making.add_argument("--lane", choices=list(Lane), default=Lane.WORK, help="where to (default: work)")
        if kind is Kind.DISCARD:
            making.add_argument("--code", choices=list(DiscardCode), default=DiscardCode.OTHER, metavar="CODE")
        making.add_argument("--token", help="asked again with the same token, it is the same operation")
        agreed = making.add_mutually_exclusive_group()
        agreed.add_argument("--yes", action="store_true", help="start it, whatever the count")
        agreed.add_argument("--expect", type=_count, metavar="N", help="start it if it concerns exactly N items")
        making.add_argument("--wait", action="store_true", help="follow it until every item has ended")
    _what(acts, "list", "the newest operations")
    showing = _what(acts, "show", "one operation and what became of its items")
    showing.add_argument("id")
    showing.add_argument("--outcome", action="append", choices=list(Outcome), help="only such items; may be repeated")
    for name, about in (
        ("start", "have a draft done"),
        ("stop", "give no further item its turn"),
        ("continue", "go on with what was stopped, or after a canary that failed"),
    ):
        changing = _what(acts, name, about)
        changing.add_argument("id")
        add_decision(changing)
        if name != "stop":
            changing.add_argument("--wait", action="store_true", help="follow it until every item has ended")


async def run(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    """Do what was asked for and return the exit code."""
    match arguments.act:
        case "list":
            return await _list(store, arguments)
        case "show":
            return await _show(store, arguments, arguments.id)
        case "start":
            found = await operations.start(store, arguments.id, decision(arguments))
        case "stop":
            found = await operations.stop(store, arguments.id, decision(arguments))
        case "continue":
            found = await operations.proceed(store, arguments.id, decision(arguments))
        case _:
            return await _make(store, arguments, settings)
    return await _follow(store, arguments, arguments.id, found)


async def _make(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    # The checks bring the tokenizer along, which every other verb starts without.
    from gateway.station.checks import Checks  # noqa: PLC0415

    act = Kind(arguments.act)
    selected = candidates.meant(act, chosen(arguments, tickets=tuple(dict.fromkeys(arguments.tickets))))
    request = Request(
        act=act,
        by=arguments.by,
        chosen=selected.document(),
        lane=Lane(getattr(arguments, "lane", Lane.WORK)),
        code=DiscardCode(arguments.code) if act is Kind.DISCARD else None,
        pace=arguments.pace,
        canary=getattr(arguments, "canary", 0),
        token=arguments.token,
    )
    try:
        found = await candidates.find(
            store, act, selected, limit=settings.replay_limit, check=Checks(settings).why_refused
        )
    except TooMany as error:
        return _fail(str(error))
    made = await operations.draft(store, request, found)
    if isinstance(made, TokenTaken):
        return _fail(f"the token stands for another request, operation {made.operation}")
    one, _ = made
    ready = sum(candidate.why is None for candidate in found)
    if not arguments.json:
        for why, number in Counter(candidate.why for candidate in found if candidate.why).most_common(_SHOWN):
            print(f"{number:>8}  not: {_safe(why)}")
        print(f"{ready} of {len(found)} items can be {act.past}")
    if not arguments.yes and arguments.expect is None:
        if arguments.json:
            return await _show(store, arguments, one.id)
        print(f"nothing was changed: `operations start {one.id}` does it, or ask again with --expect {ready}")
        return OK
    started = await operations.start(store, one.id, decision(arguments), expect=arguments.expect)
    return await _follow(store, arguments, one.id, started)


async def _follow(store: Store, arguments: argparse.Namespace, name: str, found: Operation | NotNow | None) -> int:
    match found:
        case None:
            return _fail(f"there is no operation {name}")
        case NotNow(sentence=sentence):
            return _fail(sentence)
        case Operation():
            if getattr(arguments, "wait", False):
                return await _wait(store, arguments, name)
            return await _show(store, arguments, name)


async def _wait(store: Store, arguments: argparse.Namespace, name: str) -> int:
    told = ""
    while True:
        one = await operations.find(store, name)
        counted = await progress.count(store, name)
        if one is None:
            return _fail(f"there is no operation {name}")
        said = _sentence(one, counted)
        if said != told and not arguments.json:
            print(said, flush=True)
            told = said
        is_open = one.state is State.ENDED and any(counted[outcome] for outcome in _OPEN)
        if one.state in _OVER and not is_open:
            if arguments.json:
                await _show(store, arguments, name)
            failed = counted[Outcome.QUARANTINED] + counted[Outcome.UNCONFIRMED] + counted[Outcome.WAITING]
            return REFUSED if failed else OK
        await asyncio.sleep(_LOOK)


async def _list(store: Store, arguments: argparse.Namespace) -> int:
    found = await operations.newest(store)
    counted = {one.id: await progress.count(store, one.id) for one in found}
    if arguments.json:
        return _print_json([of_operation(one, counted[one.id]) for one in found])
    for one in found:
        print(_sentence(one, counted[one.id]))
    if not found:
        print("there was no operation")
    return OK


async def _show(store: Store, arguments: argparse.Namespace, name: str) -> int:
    one = await operations.find(store, name)
    if one is None:
        return _fail(f"there is no operation {name}")
    outcomes = [Outcome(outcome) for outcome in arguments.outcome or ()] if arguments.act == "show" else []
    counted = await progress.count(store, name)
    lines = await progress.lines(store, name, outcomes=outcomes)
    if arguments.json:
        return _print_json({**of_operation(one, counted), "items": [of_line(line) for line in lines]})
    print(_sentence(one, counted))
    if arguments.act == "show":
        for line in lines:
            why = f", {_safe(line.why)}" if line.why else ""
            print(f"{line.position:>8}  {_safe(line.ticket)}  generation {line.generation}  {line.outcome}{why}")
        if len(lines) == progress.MAX_LISTED:
            print(f"the first {len(lines)} of {one.total}; --outcome narrows it down", file=sys.stderr)
    return OK


def _sentence(one: Operation, counted: dict[Outcome, int]) -> str:
    parts = ", ".join(f"{number} {outcome}" for outcome, number in counted.items() if number)
    note = f" ({_safe(one.note)})" if one.note else ""
    return f"{one.id}  {one.act} of {one.total}  {one.state}{note}: {parts or 'no items'}"


def _what(acts: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = acts.add_parser(name, help=about, description=about)
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document")
    return parser


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        pace = 0.0
    if not 0 < pace <= MAX_PACE:
        raise argparse.ArgumentTypeError(f"write a number of items a second, at most {MAX_PACE:g}")
    return pace


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("write a whole number")
    return int(text)


def _safe(text: str) -> str:
    return wording.one_line(text, 1000)


def _print_json(value: object) -> int:
    print(written(value, indent=True))
    return OK


def _fail(sentence: str) -> int:
    print(_safe(sentence), file=sys.stderr)
    return REFUSED

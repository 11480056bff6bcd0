"""The verb `rejections`: lists, groups and supposes; `rejections admit` lets one in anyway.

Owns its arguments and what it prints. Decides nothing.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from gateway.contract.rules import Rule
from gateway.station import passes, rejections, what_if, wording
from gateway.station.arguments import add_decision, moment
from gateway.station.documents import written
from gateway.station.passes import Given, NotGiven
from gateway.station.rejections import GROUPINGS, Group, Outlook, Refusal, Selection
from gateway.station.store import Store
from gateway.station.what_if import Supposition

OK: Final = 0
REFUSED: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--kind", help="only of this kind")
    parser.add_argument("--client", help="only of this client")
    parser.add_argument("--rule", choices=sorted(Rule), metavar="RULE", help="only those that broke this rule")
    parser.add_argument("--since", type=moment, metavar="WHEN", help="since then: 2h, or 2026-11-30T12:00")
    parser.add_argument("--until", type=moment, metavar="WHEN", help="until then")
    views = parser.add_mutually_exclusive_group()
    views.add_argument("--group", type=_groupings, metavar="BY", help=f"count them by some of {', '.join(GROUPINGS)}")
    views.add_argument(
        "--by-rule",
        action="store_const",
        const=("rule", "client"),
        dest="group",
        help="as --group rule,client",
    )
    views.add_argument(
        "--if",
        action="append",
        dest="supposed",
        metavar="LIMIT=VALUE",
        help="how many would have passed: max_tokens=200000, lossy_text=off; may be repeated",
    )
    acts = parser.add_subparsers(dest="act", metavar="admit")
    about = "let one in anyway: its client sends the same again within a day"
    admitting = acts.add_parser("admit", help=about, description=about)
    admitting.add_argument("request", help="the id of the refused request, as the list and the client's answer have it")
    add_decision(admitting)
    admitting.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document")


async def run(store: Store, arguments: argparse.Namespace) -> int:
    """Do what was asked for and return the exit code."""
    if arguments.act == "admit":
        return await _admit(store, arguments)
    names = ("kind", "client", "rule", "since", "until")
    selection = Selection(**{name: getattr(arguments, name) for name in names})
    if arguments.supposed:
        try:
            supposition = what_if.suppose(arguments.supposed)
        except ValueError as error:
            print(f"--if {error}", file=sys.stderr)
            return REFUSED
        return _tell_outlook(await rejections.outlook(store, selection, supposition), supposition, arguments)
    if arguments.group:
        return _tell_groups(await rejections.group(store, selection, arguments.group), arguments)
    found, number = await rejections.find(store, selection)
    if number > len(found):
        print(f"the newest {len(found)} of {number}; --group counts all", file=sys.stderr)
    return _tell(found, arguments)


async def _admit(store: Store, arguments: argparse.Namespace) -> int:
    match await passes.give(store, arguments.request, by=arguments.by, reason=arguments.reason):
        case NotGiven(sentence=sentence):
            print(wording.one_line(f"not admitted: {sentence}", 1000), file=sys.stderr)
            return REFUSED
        case Given(granted=granted):
            if arguments.json:
                print(written({**asdict(granted), "request": arguments.request}, indent=True))
                return OK
            print(
                f"request {_safe(arguments.request)} may come in: no refused body is kept, so client"
                f" {_safe(granted.client)} sends the same again before {wording.clock(granted.expires_at)}.",
                f"It comes in once, as ticket {granted.id} unless it has an id of its own, marked, by the isolation"
                " lane; `show` of that ticket tells who let it in and why.",
                sep="\n",
            )
            return OK


def _tell(found: Sequence[Refusal], arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(written([asdict(refusal) for refusal in found], indent=True))
        return OK
    for refusal in found:
        said = ", ".join(map(_safe, refusal.rules)) or "no rule named"
        size = f"{refusal.bytes} bytes" if refusal.bytes is not None else "size unknown"
        who = _safe(refusal.client or "past the door")
        print(f"{wording.clock(refusal.at)}  {_safe(refusal.ticket)}  {_safe(refusal.kind)}  {who}  {said}  {size}")
    if not found:
        print("nothing was refused")
    return OK


def _tell_groups(groups: Sequence[Group], arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(written([asdict(one) for one in groups], indent=True))
        return OK
    for one in groups:
        named = "  ".join(_safe(value or "past the door") for value in one.by.values())
        print(f"{one.refusals:>8}  {named}  {wording.clock(one.first_at)} to {wording.clock(one.last_at)}")
    if not groups:
        print("nothing was refused")
    return OK


def _tell_outlook(found: Sequence[Outlook], supposition: Supposition, arguments: argparse.Namespace) -> int:
    totals = {name: sum(getattr(one, name) for one in found) for name in ("passes", "refused", "unknown")}
    if arguments.json:
        modes = {rule.value: mode.value for rule, mode in supposition.modes.items()}
        supposed: dict[str, Any] = {**supposition.limits, **modes}
        print(written({"supposed": supposed, **totals, "by": [asdict(one) for one in found]}, indent=True))
        return OK
    for one in found:
        who = f"{_safe(one.kind)}  {_safe(one.client or 'past the door')}"
        lacking = ", ".join(f"{_safe(fact)} {number}" for fact, number in sorted(one.missing.items()))
        cannot = f", {one.unknown} cannot be judged (not on record: {lacking})" if one.unknown else ""
        print(f"{who}: {one.passes} would have passed, {one.refused} not{cannot}")
    told = f"{totals['passes']} would have passed, {totals['refused']} not, {totals['unknown']} cannot be judged"
    print(f"of {sum(totals.values())} refusals {told}")
    return OK


def _groupings(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not set(found) <= set(GROUPINGS):
        raise argparse.ArgumentTypeError(f"write some of {', '.join(GROUPINGS)}, separated by commas")
    return found


def _safe(text: str) -> str:
    return wording.one_line(text, 1000)

"""The verbs beside decisions: assign, hold, release, note.

Owns their arguments and what they print. Decides nothing.
"""

import argparse
import sys
from dataclasses import asdict
from typing import Any, Final, assert_never

from gateway.station import duties, reviewing, wording
from gateway.station.arguments import add_decision, decision, verb, words
from gateway.station.decided import Unknown
from gateway.station.documents import written
from gateway.station.reviewing import Clash, Noted
from gateway.station.store import Store

OK: Final = 0
REFUSED: Final = 1
VERBS: Final = frozenset({"assign", "hold", "release", "note"})


def add_verbs(verbs: Any) -> None:
    """Add the verbs to an argument parser's subcommands."""
    assigning = verb(verbs, "assign", "give an item to somebody to review")
    assigning.add_argument("ticket")
    whose = assigning.add_mutually_exclusive_group(required=True)
    whose.add_argument("--to", type=_owner, metavar="OWNER", help="a person or a team")
    whose.add_argument("--back", action="store_true", help="to the owner of its kind, as the policy file says")
    assigning.add_argument(
        "--from", dest="seen", metavar="OWNER", help="only if it is still this one's; \"\" is nobody's"
    )
    add_decision(assigning)
    holding = verb(verbs, "hold", "have a ticket wait, wherever it is: nobody decides about it until it is released")
    holding.add_argument("ticket")
    add_decision(holding)
    releasing = verb(verbs, "release", "end the hold of a ticket")
    releasing.add_argument("ticket")
    add_decision(releasing)
    noting = verb(verbs, "note", "write something down about a ticket, or about a group with all that is still to come")
    about = noting.add_mutually_exclusive_group(required=True)
    about.add_argument("ticket", nargs="?")
    about.add_argument("--group", metavar="GROUP", help="the id of a group, as `groups` lists it")
    noting.add_argument("--by", required=True, type=words, metavar="WHO", help="who says so")
    noting.add_argument("--reason", required=True, type=words, metavar="TEXT", help="the note")


async def run(store: Store, arguments: argparse.Namespace) -> int:
    """Do what the verb says and return the exit code."""
    match arguments.verb:
        case "assign":
            done = await reviewing.assign(
                store, arguments.ticket, arguments.to, decision(arguments), seen=arguments.seen
            )
        case "hold":
            done = await reviewing.hold(store, arguments.ticket, decision(arguments))
        case "release":
            done = await reviewing.release(store, arguments.ticket, decision(arguments))
        case _ if arguments.group is not None:
            done = await reviewing.note_group(store, arguments.group, arguments.reason, by=arguments.by)
        case _:
            done = await reviewing.note(store, arguments.ticket, arguments.reason, by=arguments.by)
    return _told(done, arguments)


def _told(done: Noted | Clash | Unknown, arguments: argparse.Namespace) -> int:
    match done:
        case Noted() if arguments.json:
            print(written({"verb": arguments.verb, "by": arguments.by, **asdict(done)}, indent=True))
            return OK
        case Noted(owner=owner):
            print(_DONE[arguments.verb].format(about=done.ticket or done.group, owner=wording.owned(owner or "")))
            return OK
        case Clash(sentence=sentence):
            return _fail(sentence)
        case Unknown(ticket=ticket):
            return _fail(_UNKNOWN.get(arguments.verb, _NEVER).format(ticket=ticket))
        case _:
            assert_never(done)


_DONE: Final = {
    "assign": "ticket {about} is {owner}",
    "hold": "ticket {about} is on hold: no replay, no discard, by nobody, until `release`; what runs goes on running",
    "release": "ticket {about} is on hold no more",
    "note": "noted about {about}",
}
_NEVER: Final = "nothing of {ticket!r} was ever reported here"
_UNKNOWN: Final = {
    "hold": "{ticket!r} can be no ticket's id",
    "assign": "ticket {ticket!r} was never in quarantine here",
}


def _owner(text: str) -> str:
    try:
        name = duties.owner(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return words(name)


def _fail(sentence: str) -> int:
    print(wording.one_line(sentence, 1000), file=sys.stderr)
    return REFUSED

"""The verb `escalations`: what was handed over to people outside, and the note that somebody there has taken it on.

Owns its arguments and what it prints.
"""

import argparse
import sys
from dataclasses import asdict
from typing import Any, Final

from gateway.station import escalations, wording
from gateway.station.documents import written
from gateway.station.escalations import Escalation, NotOpen
from gateway.station.store import Store

OK: Final = 0
REFUSED: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs below this one."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    _json(verbs.add_parser("list", help="those whose item nobody has decided about, oldest first"))
    acknowledging = _json(verbs.add_parser("ack", help="somebody outside has taken it on"))
    acknowledging.add_argument("ticket")
    acknowledging.add_argument(
        "--reference", required=True, type=_words, metavar="REF", help="what it is called there; its client is shown it"
    )
    acknowledging.add_argument("--by", required=True, type=_words, metavar="WHO", help="who says so")


async def run(store: Store, arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    if arguments.what == "list":
        return _list(await escalations.find_open(store), as_json=arguments.json)
    outcome = await escalations.acknowledge(store, arguments.ticket, reference=arguments.reference, by=arguments.by)
    match outcome:
        case NotOpen(why=why):
            print(wording.one_line(why, 1000), file=sys.stderr)
            return REFUSED
        case Escalation():
            told = (
                written(asdict(outcome), indent=True)
                if arguments.json
                else f"{_named(outcome)}: {wording.handed_over(outcome)}"
            )
            print(told)
            return OK


def _list(found: list[Escalation], *, as_json: bool) -> int:
    if as_json:
        print(written([asdict(one) for one in found], indent=True))
        return OK
    for one in found:
        print(f"{_named(one)}  {wording.one_line(one.reason)}  {wording.handed_over(one)}")
    if not found:
        print("nothing is handed over")
    return OK


def _named(one: Escalation) -> str:
    return (
        f"{wording.one_line(one.ticket)}  {wording.one_line(one.kind)}  {wording.one_line(one.client or 'no client')}"
    )


def _json(parser: Any) -> Any:
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    return parser


def _words(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text.strip()

"""What the reviewers' verbs have in common on a command line: who and why, and which items are meant.

Owns how these are written. The meaning of a filter is `gateway.station.selection`.
"""

import argparse
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gateway.contract import knobs
from gateway.contract.outcomes import Outcome, Reason
from gateway.station.decided import Decision
from gateway.station.holding import ItemState
from gateway.station.selection import MAX_TEXT, Filter


def verb(verbs: Any, name: str, about: str) -> argparse.ArgumentParser:
    """Add a verb that can answer with one JSON document."""
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    return parser


def add_decision(parser: argparse.ArgumentParser) -> None:
    """Add who and why, without which nothing is changed."""
    parser.add_argument("--by", required=True, type=words, metavar="WHO", help="who decides")
    parser.add_argument("--reason", required=True, type=words, metavar="WHY", help="why")


def decision(arguments: argparse.Namespace) -> Decision:
    """Return who and why."""
    return Decision(by=arguments.by, reason=arguments.reason)


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Add what narrows a selection of items down. The reason of an item is not the `--reason` of a decision."""
    several = "; may be repeated"
    parser.add_argument("--kind", action="append", type=_short, help=f"only of this kind{several}")
    parser.add_argument(
        "--because",
        action="append",
        metavar="REASON",
        type=_short,
        help=f"only held for this reason{several}: {', '.join(Reason)}",
    )
    parser.add_argument(
        "--outcome", action="append", choices=sorted(Outcome), metavar="OUTCOME", help=f"only after such a run{several}"
    )
    parser.add_argument("--signal", type=int, metavar="N", help="only where this signal killed a worker")
    parser.add_argument("--build", type=_short, help="only after a run of this handler build")
    parser.add_argument("--client", action="append", type=_short, help=f"only of this client{several}")
    parser.add_argument("--since", type=moment, metavar="WHEN", help="only arrived since then: 2h, or 2026-11-30T12:00")
    parser.add_argument("--until", type=moment, metavar="WHEN", help="only arrived until then")
    parser.add_argument("--text", type=_short, help="only with this in ticket id or in why it is here")
    parser.add_argument("--owner", action="append", help=f'only of this owner; "" is nobody{several}')
    parser.add_argument("--group", action="append", type=_short, help=f"only of this group, by its id{several}")
    parser.add_argument(
        "--on-hold", action=argparse.BooleanOptionalAction, default=None, help="only what is on hold, or is not"
    )
    parser.add_argument("--overdue", action="store_true", default=None, help="only what should be decided by now")
    parser.add_argument(
        "--unconfirmed", action="store_true", default=None, help="only what was sent, and never confirmed"
    )


def chosen(arguments: argparse.Namespace, *states: ItemState, tickets: tuple[str, ...] = ()) -> Filter:
    """Return the filter that the arguments name, among items in these states."""
    found = Filter(
        kinds=tuple(arguments.kind or ()),
        reasons=tuple(arguments.because or ()),
        outcomes=tuple(arguments.outcome or ()),
        signal=arguments.signal,
        build=arguments.build,
        clients=tuple(arguments.client or ()),
        since=arguments.since,
        until=arguments.until,
        text=arguments.text,
        owners=tuple(arguments.owner or ()),
        groups=tuple(arguments.group or ()),
        on_hold=arguments.on_hold,
        overdue=arguments.overdue,
        unconfirmed=arguments.unconfirmed,
        tickets=tickets,
    )
    return replace(found, states=states) if states else found


def moment(text: str) -> float:
    """Read how long ago, or a date with or without time, in UTC unless it says otherwise; return Unix seconds."""
    try:
        return datetime.now(UTC).timestamp() - knobs.duration(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("write 30m, 2h, 2026-11-30 or 2026-11-30T12:00:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def words(text: str) -> str:
    """Read a text that must say something."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text.strip()


def _short(text: str) -> str:
    if not 0 < len(text) <= MAX_TEXT:
        raise argparse.ArgumentTypeError(f"write 1 to {MAX_TEXT} characters")
    return text

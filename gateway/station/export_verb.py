"""The verb `export`: the audit log or the items as JSON lines on standard output.

Owns its arguments. The lines are `gateway.station.export`.
"""

import argparse
from typing import Any, Final

from gateway.station import export
from gateway.station.acts import Act
from gateway.station.arguments import add_filter, chosen, moment
from gateway.station.documents import written
from gateway.station.export import AuditFilter
from gateway.station.holding import ItemState
from gateway.station.store import Store

OK: Final = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what can be exported, and what narrows it down."""
    sorts = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    acts = _sort(sorts, "audit", "every act of a person: who, what, when, why")
    acts.add_argument("--actor", help="only of this person")
    acts.add_argument("--act", choices=list(Act), metavar="ACT", help=f"only such acts: {', '.join(Act)}")
    acts.add_argument("--ticket", help="only about this ticket")
    acts.add_argument("--operation", help="only as part of this operation")
    acts.add_argument("--since", type=moment, metavar="WHEN", help="only since then: 2h, or 2026-11-30T12:00")
    acts.add_argument("--until", type=moment, metavar="WHEN", help="only until then")
    items = _sort(sorts, "items", "what is or was held")
    add_filter(items)
    items.add_argument("--state", action="append", choices=list(ItemState), help="only in this state; may be repeated")
    items.add_argument("--bodies", action="store_true", help="with their bodies, in base64")


async def run(store: Store, arguments: argparse.Namespace) -> int:
    """Print what was asked for, a line each, and return the exit code."""
    if arguments.what == "audit":
        names = ("actor", "act", "ticket", "operation", "since", "until")
        lines = export.acts(store, AuditFilter(**{name: getattr(arguments, name) for name in names}))
    else:
        states = tuple(ItemState(state) for state in arguments.state or ItemState)
        lines = export.held(store, chosen(arguments, *states), bodies=arguments.bodies)
    async for line in lines:
        print(written(line))
    return OK


def _sort(sorts: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = sorts.add_parser(name, help=about, description=about)
    # Lines are all that it can print; every verb takes the flag.
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="as always: a document a line")
    return parser

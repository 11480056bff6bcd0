"""The verb `reset`: attempts given back in bulk. Counts first, and changes nothing until it is told how much.

Owns its arguments and what it prints.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from gateway.contract.outcomes import CHARGED
from gateway.settings import StationSettings
from gateway.station import pardons, replays, wording
from gateway.station.arguments import moment
from gateway.station.decided import Decision, Done
from gateway.station.documents import of_reset, written
from gateway.station.pardons import Candidate, NoFence, Selection
from gateway.station.replays import Plan
from gateway.station.sender import Sender
from gateway.station.store import Store
from gateway.tracing import Service, open_traces

OK: Final = 0
REFUSED: Final = 1
_SHOWN: Final = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments, those of every decision aside."""
    parser.add_argument(
        "--quarantined", action="store_true", help="what is in quarantine, in place of what is on its way"
    )
    parser.add_argument("--kind", help="only tickets of this kind")
    parser.add_argument(
        "--outcome", action="append", choices=sorted(CHARGED), help="only after such a run; may be repeated"
    )
    parser.add_argument("--node", help="only after a run on this node")
    parser.add_argument(
        "--since", type=moment, metavar="WHEN", help="only after a run since then: 2h, or 2026-11-30T12:00"
    )
    parser.add_argument("--until", type=moment, metavar="WHEN", help="only after a run until then")
    agreed = parser.add_mutually_exclusive_group()
    agreed.add_argument("--yes", action="store_true", help="do it, whatever the count")
    agreed.add_argument("--expect", type=int, metavar="N", help="do it if it concerns exactly N items")


async def run(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    """Count, and where that was agreed to, give back; return the exit code."""
    selection = Selection(
        kind=arguments.kind,
        outcomes=tuple(arguments.outcome or ()),
        node=arguments.node,
        since=arguments.since,
        until=arguments.until,
    )
    try:
        found = await (pardons.in_quarantine if arguments.quarantined else pardons.in_flight)(store, selection)
    except NoFence as error:
        print(error, file=sys.stderr)
        return REFUSED
    if arguments.expect is not None and arguments.expect != len(found):
        print(f"{arguments.expect} expected, {len(found)} found: nothing was changed", file=sys.stderr)
        return REFUSED
    if not arguments.yes and arguments.expect is None:
        return _tell(arguments, found, None, [])
    decision = Decision(by=arguments.by, reason=arguments.reason)
    if arguments.quarantined:
        done, failed = await _replay(store, found, decision, settings)
    else:
        done, failed = await pardons.mark(store, found, decision), []
    return _tell(arguments, found, done, failed)


async def _replay(
    store: Store, found: Sequence[Candidate], decision: Decision, settings: StationSettings
) -> tuple[list[Candidate], list[str]]:
    done: list[Candidate] = []
    failed: list[str] = []
    traces = open_traces(Service.STATION)
    sender = Sender(settings.broker_url, traces)
    try:
        for candidate in found:
            plan = Plan(generation=candidate.generation, limit=settings.replay_limit)
            outcome = await replays.replay(store, sender, settings.topology, candidate.ticket, decision, plan=plan)
            if isinstance(outcome, Done):
                done.append(candidate)
            else:
                failed.append(
                    f"{candidate.ticket}: {getattr(outcome, 'sentence', None) or getattr(outcome, 'why', '')}"
                )
    finally:
        await sender.close()
        await traces.close()
    return done, failed


def _tell(
    arguments: argparse.Namespace, found: Sequence[Candidate], done: Sequence[Candidate] | None, failed: Sequence[str]
) -> int:
    code = REFUSED if failed else OK
    if arguments.json:
        print(written(of_reset(found, done, failed), indent=True))
        return code
    where = "in quarantine" if arguments.quarantined else "on their way"
    if done is None:
        for candidate in found[:_SHOWN]:
            about = f"{candidate.ticket}  {wording.one_line(candidate.kind, 200)}  {candidate.state}"
            print(f"{about}  {candidate.charged} charged")
        if len(found) > _SHOWN:
            print(f"... and {len(found) - _SHOWN} more; --json lists all")
        print(f"{len(found)} items {where}; nothing was changed: add --expect {len(found)}, or --yes")
        return code
    for sentence in failed:
        print(wording.one_line(sentence, 1000), file=sys.stderr)
    when = "" if arguments.quarantined else "; each begins anew at its next claim, after the wait that it is in"
    gone = len(found) - len(done) - len(failed)
    print(f"{len(done)} items got their attempts back{when}" + (f"; {gone} had ended meanwhile" if gone else ""))
    return code

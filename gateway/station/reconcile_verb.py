"""The verb `reconcile`: looks once whether queue, store and journal agree, and tells.

Owns what it prints. A queue in which items wait is looked at twice, so that one that is just being emptied is no
mismatch.
"""

import argparse
import asyncio
import time
from dataclasses import asdict
from typing import Final

from gateway.settings import StationSettings
from gateway.station import wording
from gateway.station.agreement import compare
from gateway.station.documents import written
from gateway.station.reconciler import asker, look_at
from gateway.station.store import Store

OK: Final = 0
DISAGREE: Final = 1
_AGAIN_AFTER: Final = 5.0
"""Seconds, in which a keeper that is alive stores something."""


async def run(store: Store, arguments: argparse.Namespace, settings: StationSettings) -> int:
    """Look and tell; exit code 1 when something cannot be explained."""
    ask, patience = asker(settings.broker_url, settings.topology), settings.reconcile_patience
    look, before = await look_at(store, await ask(), patience=patience, now=time.time()), None
    if look.depths is not None and look.depths.quarantine:
        await asyncio.sleep(_AGAIN_AFTER)
        look, before = await look_at(store, await ask(), patience=patience, now=time.time()), look
    found = compare(look, before)
    if arguments.json:
        depths = None if look.depths is None else asdict(look.depths)
        document = {"agree": not found, "findings": [asdict(finding) for finding in found], "depths": depths}
        print(written(document, indent=True))
        return DISAGREE if found else OK
    for finding in found:
        print(f"{finding.mismatch}  {wording.one_line(finding.sentence, 1000)}")
        for ticket in finding.tickets:
            print(f"  {wording.one_line(ticket, 1000)}")
    if look.depths is None:
        print("the broker does not answer: only what the store alone tells was judged")
    elif not found:
        print("queue, store and journal agree")
    return DISAGREE if found else OK

"""The verb `alerts test`: one marked message on each way that alerts take, and which of them worked.

Owns its arguments and what it prints. Needs neither store nor a running station.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Sequence
from typing import Final

from gateway.contract.ids import uuid7
from gateway.settings import StationSettings
from gateway.station import wiring, wording
from gateway.station.channels import Channel, Notice
from gateway.station.documents import written
from gateway.station.escalations import ESCALATION
from gateway.station.holding import AlertEvent
from gateway.station.sender import Sender

OK: Final = 0
FAILED: Final = 1
PATIENCE: Final = 25.0
"""Seconds for the slowest way; each has a shorter deadline of its own."""
_LASTS: Final = 60.0
"""Seconds that a mirror shows it for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs below this one."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    testing = verbs.add_parser("test", help="send a marked message on each way and say which worked")
    testing.add_argument("--by", default="an operator", metavar="WHO", help="whom the message names")
    testing.add_argument("--escalation", action="store_true", help="to people outside, too")
    testing.add_argument("--json", action="store_true", help="one JSON document instead of lines")


async def run(arguments: argparse.Namespace, settings: StationSettings) -> int:
    """Send and tell; return the exit code: 0 when all of them worked, 1 when one did not."""
    sender = Sender(settings.broker_url)
    alerting = wiring.channels(settings, sender)
    notice = _notice(arguments.by, f"{settings.desk_link}/")
    tries: dict[str, Awaitable[object]] = {
        channel.name: channel.send(notice) for channel in _wanted(alerting.channels, outside=arguments.escalation)
    }
    tries |= {mirror.name: mirror.show([notice]) for mirror in alerting.mirrors}
    try:
        answers = await asyncio.gather(*(_within(tried) for tried in tries.values()))
    finally:
        for channel in alerting.channels:
            await channel.close()
        for mirror in alerting.mirrors:
            await mirror.close()
        await sender.close()
    errors = dict(zip(tries, answers, strict=True))
    if arguments.json:
        print(written({name: {"sent": why is None, "error": why} for name, why in errors.items()}, indent=True))
    else:
        for name, why in errors.items():
            print(f"{name:24} {'sent' if why is None else 'FAILED: ' + wording.one_line(why, 1000)}")
    sys.stdout.flush()
    return OK if not any(errors.values()) else FAILED


def _wanted(channels: Sequence[Channel], *, outside: bool) -> list[Channel]:
    return [channel for channel in channels if outside or channel.name != ESCALATION]


def _notice(by: str, link: str) -> Notice:
    now = time.time()
    key = f"lazaretto:test:{uuid7()}"
    return Notice(
        event=AlertEvent.TEST,
        key=key,
        title="Test: this is no alert",
        text=f"This is a test by {wording.one_line(by)} of the way that alerts take. Nothing has happened. {link}",
        fields={"by": by, "dedup_key": key, "link": link},
        began_at=now,
        over_at=now + _LASTS,
    )


async def _within(tried: Awaitable[object]) -> str | None:
    """Return why it failed, None where it worked."""
    try:
        async with asyncio.timeout(PATIENCE):
            await tried
    except TimeoutError:
        return f"no answer within {PATIENCE:g} s"
    except Exception as error:  # noqa: BLE001 - whatever goes wrong with one way, the others are told of
        return str(error) or type(error).__name__
    return None

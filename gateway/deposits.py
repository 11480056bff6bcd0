"""What a door leaves in the depot before it publishes: attachments, off the loop, within a deadline.

Owns the threads that wait for disk or network, and what a door knows of the depot's health. Only ever adds: what no
ticket came to refer to is for the station's sweep, which can tell.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final

from gateway.contract import logs
from gateway.contract.envelope import Envelope
from gateway.contract.references import folder_of
from gateway.depot import DepotDown, open_depot
from gateway.metrics import Metrics
from gateway.preflight.attachments import Attachment
from gateway.preflight.withdrawal import withdraw

log = logging.getLogger("gateway.deposits")

_THREADS: Final = 4
"""Of one door process. One that hangs in a dead disk holds up a fourth of what has attachments, and nothing else."""
_QUEUED: Final = 64
"""Deposits that wait or run; beyond them the next one is refused at once."""


class Deposits:
    """The depot as one door uses it."""

    def __init__(self, place: str, metrics: Metrics, *, above: int, deadline: float) -> None:
        """Contents of more than `above` bytes do not travel in messages; `deadline` in seconds for one ticket's."""
        self._depot = open_depot(place, patience=deadline)
        self._metrics = metrics
        self._above = above
        self._deadline = deadline
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="deposits")
        self._cutter = ThreadPoolExecutor(1, thread_name_prefix="withdrawals")
        self._outstanding: set[Future[None]] = set()
        self.reachable = True
        """Whether the last deposit succeeded."""

    def close(self) -> None:
        """Drop what waits; a thread that hangs is left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._cutter.shutdown(wait=False, cancel_futures=True)

    async def withdraw(
        self, envelope: Envelope, attachments: Sequence[Attachment]
    ) -> tuple[Envelope, Mapping[str, bytes]]:
        """Take out of an admitted ticket what is too large to travel; return the ticket, and what is to be stored."""
        if envelope.admission is None or all(len(attachment.content) <= self._above for attachment in attachments):
            return envelope, {}
        work = partial(_withdrawn, envelope, attachments, self._above)
        return await asyncio.get_running_loop().run_in_executor(self._cutter, work)

    async def put(self, folder: str, contents: Mapping[str, bytes]) -> bool:
        """Store contents for good; False when that cannot be said within the deadline. Raises nothing."""
        if len(self._outstanding) >= _QUEUED:
            return self._failed("busy", folder)
        storing = self._threads.submit(self._depot.put, folder, contents)
        self._outstanding.add(storing)
        storing.add_done_callback(self._outstanding.discard)
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._deadline):
                await asyncio.wrap_future(storing)
        except DepotDown as error:
            return self._failed("down", folder, error)
        except TimeoutError:
            return self._failed("timed_out", folder)
        self.reachable = True
        self._metrics.deposits.labels(result="stored").inc()
        self._metrics.deposit_seconds.observe(asyncio.get_running_loop().time() - started)
        return True

    def _failed(self, result: str, folder: str, error: DepotDown | None = None) -> bool:
        self.reachable = False
        self._metrics.deposits.labels(result=result).inc()
        logs.event(log, "not_stored", logging.WARNING, folder=folder, result=result, error=error)
        return False


def _withdrawn(
    envelope: Envelope, attachments: Sequence[Attachment], above: int
) -> tuple[Envelope, Mapping[str, bytes]]:
    folder = folder_of(envelope.ticket, envelope.body)
    taken = withdraw(envelope.body, envelope.content_type, attachments, folder=folder, above=above)
    if taken is None or envelope.admission is None:
        return envelope, {}
    return replace(envelope, body=taken.body, admission=replace(envelope.admission, stored=folder)), taken.contents

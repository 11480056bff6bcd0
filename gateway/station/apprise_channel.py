"""Alerts to anybody's service: one Apprise URL is one channel.

Owns the threads in which Apprise blocks, and by when it must have answered. A thread that a service holds for ever is
left behind; it keeps neither the station from ending nor others from being told.
"""

import asyncio
import contextlib
import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import apprise

from gateway.station.channels import ChannelFailed, ChannelUnusable, Manner, Notice
from gateway.station.holding import AlertEvent

NOTIFY_DEADLINE: Final = 15.0
"""Seconds for one call; a service's own timeouts are shorter, but begin anew with every byte that it gets."""
MAX_STUCK: Final = 4
"""Threads of one channel that may be left behind at a time; from then on it fails without another one."""


_KINDS: Final = {
    AlertEvent.QUARANTINED: apprise.NotifyType.FAILURE,
    AlertEvent.RESOLVED: apprise.NotifyType.SUCCESS,
    AlertEvent.SUSPECT: apprise.NotifyType.WARNING,
    AlertEvent.REFUSALS_SURGED: apprise.NotifyType.WARNING,
    AlertEvent.MISMATCH: apprise.NotifyType.WARNING,
    AlertEvent.REVIEW_OVERDUE: apprise.NotifyType.WARNING,
    AlertEvent.STORM: apprise.NotifyType.FAILURE,
    AlertEvent.STORM_LIFTED: apprise.NotifyType.SUCCESS,
    AlertEvent.TEST: apprise.NotifyType.INFO,
}


class AppriseChannel:
    """One Apprise URL: Slack, mail, PagerDuty, a plain JSON hook, ..."""

    manner: Final = Manner.FEW
    at_once: Final = 1

    def __init__(self, url: str) -> None:
        scheme = url.partition("://")[0] if "://" in url else "scheme-less"
        # The URL holds secrets; a name has to stay the same when URLs are reordered, and must not tell them.
        self.name = f"apprise:{scheme}:{hashlib.sha256(url.encode()).hexdigest()[:8]}"
        # Without deadlines of its own: for those Apprise keeps a pool, whose threads hold up the end of the process.
        self._service = apprise.Apprise(asset=apprise.AppriseAsset(async_mode=False, service_timeout=0))
        self._threads: list[threading.Thread] = []
        if not self._service.add(url):
            raise ChannelUnusable(f"Apprise cannot read the {scheme} URL")

    async def send(self, notice: Notice) -> None:
        """Notify in a thread, since Apprise blocks; raises ChannelFailed."""
        kind = _KINDS[notice.event]
        answer = self._call(
            partial(
                self._service.notify,
                title=notice.title,
                body=notice.text,
                notify_type=kind,
                body_format=apprise.NotifyFormat.TEXT,
            )
        )
        try:
            async with asyncio.timeout(NOTIFY_DEADLINE):
                taken = await answer
        except TimeoutError as error:
            raise ChannelFailed(f"no answer within {NOTIFY_DEADLINE:g} s") from error
        except Exception as error:
            # A plugin of a third party may raise anything; the outbox keeps what it said and tries again.
            raise ChannelFailed(f"{type(error).__name__}: {error}") from error
        if not taken:
            raise ChannelFailed("the service did not take it")

    async def close(self) -> None:
        """Leave what is stuck behind."""

    def _call(self, notify: Callable[[], Any]) -> asyncio.Future[Any]:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= MAX_STUCK:
            raise ChannelFailed(f"{MAX_STUCK} earlier calls have not come back")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def work() -> None:
            try:
                tell = partial(_resolve, answer, notify())
            except Exception as error:  # noqa: BLE001 - told to whoever waits
                tell = partial(_fail, answer, error)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(tell)

        # No pool: its threads would be joined at the end of the process, however long they are stuck.
        thread = threading.Thread(target=work, name=self.name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return answer


def channels(urls: Sequence[str]) -> list[AppriseChannel]:
    """Return a channel for each URL; raises ChannelUnusable."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    return [AppriseChannel(url) for url in urls]


def _resolve(answer: asyncio.Future[Any], taken: Any) -> None:
    if not answer.done():
        answer.set_result(taken)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)

"""What a node does again and again beside its items, and goes on doing whatever happens to it once.

Owns that no rhythm ends unheard: a node that no longer beats looks dead to its neighbours, though it takes items.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from gateway.contract.logs import event

log = logging.getLogger("consumer.rhythm")

PAUSE_SECONDS: Final = 1.0
"""Before a rhythm that broke off begins anew."""


async def keep(rhythm: Callable[[], Awaitable[None]], *, pause: float = PAUSE_SECONDS) -> NoReturn:
    """Keep up a rhythm that goes on for ever, over faults that it does not know; `pause` in seconds."""
    while True:
        try:
            await rhythm()
        except Exception as error:
            event(log, "rhythm.broken", logging.ERROR, rhythm=rhythm.__qualname__, error=error)
            log.exception("rhythm.broken_trace")
        await asyncio.sleep(pause)

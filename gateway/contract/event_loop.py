"""Which event loop doors and fleet nodes run on.

Owns that choice: uvloop is an extra, so nothing may depend on it.
"""

import asyncio
import importlib
import importlib.util
from collections.abc import Callable
from typing import Literal

Wanted = Literal["auto", "asyncio", "uvloop"]
Factory = Callable[[], asyncio.AbstractEventLoop] | None
"""Makes loops; None for those that asyncio makes by itself."""


class NotInstalled(Exception):
    """The loop that the settings name is not there."""


def factory(wanted: Wanted) -> Factory:
    """Return what makes the loops; raises NotInstalled."""
    if wanted == "asyncio":
        return None
    if importlib.util.find_spec("uvloop") is None:
        if wanted == "auto":
            return None
        raise NotInstalled("LAZARETTO_EVENT_LOOP: uvloop is not installed; it is the extra `fast`")
    made: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return made

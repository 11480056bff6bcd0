"""What is done before a worker, or an inline node, leaves in order: the handler's exit hooks, one after the other.

Owns what becomes of a hook that fails. How long they may take is the supervisor's to say.
"""

import atexit
import inspect
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from consumer.handler import exit_hooks
from consumer.worker.printed import write_out

_log = logging.getLogger("consumer.worker")


def say_goodbye(finish: Callable[[Any], Any]) -> None:
    """Call every exit hook; `finish` gets what an `async def` one returns."""
    for hook in exit_hooks():
        try:
            result = hook()
            if inspect.isawaitable(result):
                finish(result)
        except BaseException:  # noqa: BLE001 - whatever it raises, the worker is leaving anyway
            _complain(hook)


def leave() -> NoReturn:
    """End this process as an interpreter ends, but for tidying up its memory.

    Freeing what is shared with the mold would first copy it, page by page: a third of a second for the vocabulary
    alone, in which the worker's successor waits for its turn. `multiprocessing` ends its children the same way.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - waits for threads, as at any other end
    atexit._run_exitfuncs()  # noqa: SLF001 - the same for what libraries have registered
    write_out()
    os._exit(0)


async def farewell() -> None:
    """Do the same in a loop that runs already."""
    for hook in exit_hooks():
        try:
            result = hook()
            if inspect.isawaitable(result):
                await result
        except Exception:  # noqa: BLE001 - a node that stops goes on stopping
            _complain(hook)


def _complain(hook: Any) -> None:
    """One that fails does not keep the next one from its turn."""
    _log.exception("an exit hook failed: %s", getattr(hook, "__qualname__", hook))

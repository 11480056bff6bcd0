"""One order, from the ticket's bytes to the handler's own account of how it went.

Owns the meaning of what a handler raises. Whatever a ticket or a handler does short of ending the process becomes a
`Finished` record; only `SystemExit` passes through, for it ends the process.
"""

import asyncio
import inspect
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from msgspec.structs import replace

from consumer.bounds import MAX_NUMBER
from consumer.handler import DependencyDown, Line, Reject, Retry, Run, Ticket
from consumer.pipe import Finished, Measured, Order
from consumer.worker.loading import Handler
from consumer.worker.reading import Inadmissible, Reader
from gateway.contract.outcomes import Outcome
from gateway.contract.text import clip, clip_tail

MAX_MESSAGE: Final = 1024
MAX_TRACEBACK: Final = 8192
_MAX_NAME: Final = 256
_OURS: Final = {__file__, asyncio.base_events.__file__, asyncio.futures.__file__, asyncio.tasks.__file__}


def prepare(order: Order, reader: Reader, line: Line, measured: Callable[[Measured], None]) -> Run | Finished:
    """Read the ticket and return the handler's `Run`, or the refusal of an item that came past the door (C16).

    `measured` is told what was found before anything can die of it.
    """
    try:
        match reader.read(order, measured):
            case Ticket() as ticket:
                trace = order.trace_headers
                return Run(ticket=ticket, generation=order.generation, attempt=order.attempt, line=line, trace=trace)
            case Inadmissible(detail=detail, rule=rule, violations=violations):
                return Finished(
                    run=order.run,
                    outcome=Outcome.INADMISSIBLE,
                    code=rule,
                    message=clip(detail, MAX_MESSAGE),
                    violations=violations,
                )
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - the ticket's own doing, like an exception of its handler
        return account(order.run, error)


def run_to_end(handler: Handler, run: Run, name: str, loop: asyncio.AbstractEventLoop) -> Finished:
    """Call the handler, `async def` on the worker's `loop`, and return its account of the run called `name`."""
    try:
        if handler.is_async:
            loop.run_until_complete(handler.call(run))
        else:
            result = handler.call(run)
            if inspect.isawaitable(result):
                loop.run_until_complete(awaited(result))
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - extension modules raise panics that are no Exception
        return replace(account(name, error), gave_up=run.knows_of_loss)
    else:
        return Finished(run=name, outcome=Outcome.SUCCEEDED, gave_up=run.knows_of_loss)


async def awaited(result: Any) -> None:
    """Await whatever can be awaited."""
    await result


def account(run: str, error: BaseException) -> Finished:
    """Return what an exception that left a handler says about its run."""
    error_type = _name(type(error))
    match error:
        case Reject():
            return Finished(run=run, outcome=Outcome.REJECTED, code="Reject", message=_text(error.reason, MAX_MESSAGE))
        case DependencyDown():
            name = _text(error.name, MAX_MESSAGE // 2)
            return Finished(
                run=run,
                outcome=Outcome.DEPENDENCY,
                code="DependencyDown",
                message=f"dependency {name} is down",
                after=_seconds(error.after),
                dependency=name,
            )
        case Retry():
            return Finished(
                run=run,
                outcome=Outcome.FAILED,
                code="Retry",
                message=_text(error.reason, MAX_MESSAGE),
                after=_seconds(error.after),
            )
        case _:
            outcome = Outcome.MEMORY if _is_memory(error) else Outcome.FAILED
    message, trace = _words(error)
    return Finished(
        run=run,
        outcome=outcome,
        code="memory:error" if outcome is Outcome.MEMORY else error_type,
        message=message,
        error_type=error_type,
        traceback=trace,
        last=outcome is Outcome.MEMORY,
    )


def _words(error: BaseException) -> tuple[str, str]:
    """Message and traceback; what goes wrong with one is no reason to lose the other."""
    message = _text(error, MAX_MESSAGE)
    try:
        trace = clip_tail(
            "".join(traceback.format_exception(type(error), error, _own(error.__traceback__), limit=-20)), MAX_TRACEBACK
        )
    except Exception as second:  # noqa: BLE001 - memory may still be short while the frames are alive
        trace = f"({type(second).__name__} while the traceback was written)"
    return message, trace


def _text(value: Any, limit: int) -> str:
    """What a handler hands over, as text; an object whose own `__str__` raises is no reason to lose the rest."""
    try:
        return clip(str(value), limit)
    except Exception as second:  # noqa: BLE001
        return f"({type(second).__name__} while its message was asked for)"


def _own(trace: TracebackType | None) -> TracebackType | None:
    """Leave out the frames that lead to the handler; they are the same for everyone."""
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in _OURS:
        trace = trace.tb_next
    return trace


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_memory(inner) for inner in error.exceptions)
    return isinstance(error, MemoryError)


def _name(kind: type[BaseException]) -> str:
    plain = kind.__module__ in ("builtins", "__main__")
    return clip(kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}", _MAX_NAME)


def _seconds(after: Any) -> float | None:
    """A handler may hand on whatever a provider's header said; what is no delay is none."""
    try:
        seconds = float(after)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(seconds, float(MAX_NUMBER)) if 0 <= seconds < float("inf") else None

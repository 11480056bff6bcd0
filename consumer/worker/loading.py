"""Finding the handler that a setting names, and naming its build.

Owns the words in which a handler that cannot be loaded is reported. Runs the handler's module, nothing else.
"""

import hashlib
import importlib
import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consumer.handler import Run
from gateway.contract.text import clip, clip_tail

_MAX_TRACEBACK = 8192
_BUILD_DIGITS = 12
_MAX_VERSION = 64


class HandlerUnavailable(Exception):
    """The handler could not be loaded; `traceback` is its module's own, if it got that far."""

    def __init__(self, message: str, *, trace: str = "") -> None:
        super().__init__(message)
        self.traceback = trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A handler that was found, and the build that evidence names."""

    call: Callable[[Run], Any]
    build: str
    is_async: bool


def load(spec: str) -> Handler:
    """Import `package.module:function` and return it; raises `HandlerUnavailable` for whatever goes wrong."""
    module_name, colon, name = spec.partition(":")
    if not colon or not module_name or not name:
        raise HandlerUnavailable(f"a handler is named package.module:function, not {spec!r}")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise HandlerUnavailable(
                f"there is no module {error.name} for the handler {spec}; it is looked for on the consumer's sys.path"
            ) from error
        raise _failed(spec, error) from error
    except BaseException as error:  # a module may call sys.exit or raise anything; either way it is not loaded
        raise _failed(spec, error) from error
    module = found
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise HandlerUnavailable(f"the module {module_name} has no {name} (handler {spec})") from error
    if not callable(found):
        raise HandlerUnavailable(f"{spec} is a {type(found).__name__}, not a function")
    is_async = inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(type(found).__call__)
    return Handler(call=found, build=_build(spec, module), is_async=is_async)


def _failed(spec: str, error: BaseException) -> HandlerUnavailable:
    trace = clip_tail("".join(traceback.format_exception(error)), _MAX_TRACEBACK)
    return HandlerUnavailable(f"the handler {spec} failed to load: {type(error).__name__}: {error}", trace=trace)


def _build(spec: str, module: Any) -> str:
    """Version where the module states one, and a digest of its source: the same code has the same build."""
    version = clip(str(getattr(module, "__version__", "")).strip(), _MAX_VERSION)
    try:
        digest = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()[:_BUILD_DIGITS]
    except OSError:
        digest = "unknown"
    return f"{spec}@{version}+{digest}" if version else f"{spec}@{digest}"

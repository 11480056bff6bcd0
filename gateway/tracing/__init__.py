"""Spans of OpenTelemetry, or none: what door, fleet and station say of a ticket's way to whoever collects traces.

Owns the seam and the decision whether there is anything behind it, which is the standard environment's alone. Loads
nothing of OpenTelemetry unless a trace is asked for. Never fails a ticket, never makes one wait, never ends a program.
"""

import importlib.util
import os
import socket
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

from gateway.contract.trace_context import TraceContext
from gateway.tracing.conventions import Error, Operation

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_NEEDED: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class Service(StrEnum):
    """What a program is called in traces, unless OTEL_SERVICE_NAME has another name for it."""

    DOOR = "lazaretto-door"
    NODE = "lazaretto-node"
    STATION = "lazaretto-station"


class TracesUnavailable(Exception):
    """Traces are asked for and cannot be had; the text says what to change."""


class Span(Protocol):
    """One operation under way."""

    @property
    def context(self) -> TraceContext:
        """What goes along with whatever follows from it."""

    def end(self, attributes: Mapping[str, Any], error: Error | None = None) -> None:
        """Say how it ended; `attributes` are what was not known when it began."""


class Traces(Protocol):
    """Where spans go; two implementations: `Off`, and `gateway.tracing.otlp`."""

    @property
    def is_on(self) -> bool:
        """Whether anything is made of what is said here: who is in a hurry asks once, and then never again."""

    def begin(self, operation: Operation, parent: TraceContext, *, at: float | None = None) -> Span:
        """Begin what follows from `parent`; `at` in Unix seconds where it began earlier. Raises nothing."""

    async def close(self) -> None:
        """Send what has ended and is not sent yet, within two seconds; what is not out by then is lost."""


class _Unseen:
    """An operation that nobody looks at."""

    __slots__ = ("context",)

    def __init__(self, context: TraceContext) -> None:
        self.context = context

    def end(self, attributes: Mapping[str, Any], error: Error | None = None) -> None:
        """Say it to nobody."""


class Off:
    """No spans: whatever context comes is passed on as it came."""

    is_on: Final = False

    def begin(self, operation: Operation, parent: TraceContext, *, at: float | None = None) -> Span:  # noqa: ARG002
        """Begin what nobody looks at."""
        return _Unseen(parent)

    async def close(self) -> None:
        """Nothing is held."""


OFF: Final = Off()


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Tell whether traces are asked for; raises TracesUnavailable where what is asked for is not to be had.

    The variables are those of OpenTelemetry's specification. But it takes an endpoint to turn traces on, where the
    specification would have them sent to a collector on this machine.
    """
    named = {name: environment.get(name, "").strip() for name in (*_ENDPOINTS, *_PROTOCOLS)}
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_disabled or exporter == "none" or not any(named[name] for name in _ENDPOINTS):
        return False
    if exporter != "otlp":
        raise TracesUnavailable(f"OTEL_TRACES_EXPORTER={exporter}: traces go out as otlp, or not at all (none)")
    protocol = next((named[name] for name in _PROTOCOLS if named[name]), _PROTOCOL)
    if protocol != _PROTOCOL:
        raise TracesUnavailable(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol}: traces go out over {_PROTOCOL} alone")
    if not all(map(_is_installed, _NEEDED)):
        endpoint = next(name for name in _ENDPOINTS if named[name])
        raise TracesUnavailable(f"{endpoint} is set, and OpenTelemetry is not installed; it is the extra `otel`")
    return True


def open_traces(service: Service, instance: str = "") -> Traces:
    """Return where this process's spans go, as the environment says; raises TracesUnavailable.

    To be called after the last fork: what sends them is a thread. `instance` tells the processes of a program apart.
    """
    if not are_wanted(os.environ):
        return OFF
    from gateway.tracing.otlp import OtlpTraces  # noqa: PLC0415 - 13 MB that only those pay who want them

    try:
        return OtlpTraces.open(service, instance or f"{socket.gethostname()}:{os.getpid()}")
    except ValueError as error:
        raise TracesUnavailable(f"OpenTelemetry makes nothing of its environment: {error}") from error


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # not even what it lies in
        return False

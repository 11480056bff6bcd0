"""The standard environment says whether there are traces, and nothing of the library is loaded before it does."""

import subprocess
import sys

import pytest

from gateway.contract.trace_context import UNTRACED, TraceContext
from gateway.tracing import OFF, TracesUnavailable, are_wanted
from gateway.tracing.conventions import serving
from tests.support.program import ROOT

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
OF_TRACES = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}


@pytest.mark.parametrize("environment", [ENDPOINT, OF_TRACES, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "otlp"}])
def test_an_endpoint_turns_traces_on(environment: dict[str, str]) -> None:
    assert are_wanted(environment)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {"OTEL_SERVICE_NAME": "door", "OTEL_TRACES_SAMPLER": "always_on"},
        {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"},
        {**OF_TRACES, "OTEL_SDK_DISABLED": "True"},
    ],
)
def test_without_one_or_told_not_to_there_are_none(environment: dict[str, str]) -> None:
    assert not are_wanted(environment)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"OTEL_TRACES_EXPORTER": "console"}, "OTEL_TRACES_EXPORTER=console"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"),
    ],
)
def test_another_way_out_than_the_one_that_there_is_is_refused_by_name(other: dict[str, str], named: str) -> None:
    with pytest.raises(TracesUnavailable, match=named):
        are_wanted({**ENDPOINT, **other})


def test_without_the_extra_it_is_said_which_one_is_missing() -> None:
    script = (
        "import sys; from importlib.machinery import PathFinder\n"
        "class Without(PathFinder):\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        return None if name.startswith('opentelemetry') else super().find_spec(name, path, target)\n"
        "sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]\n"
        "from gateway.tracing import TracesUnavailable, are_wanted\n"
        "try: are_wanted({'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://collector:4318'})\n"
        "except TracesUnavailable as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set" in said
    assert "the extra `otel`" in said


@pytest.mark.parametrize("context", [UNTRACED, TraceContext("00-aa-bb-01"), TraceContext("whatever", "it=is")])
async def test_off_passes_a_context_on_as_it_came(context: TraceContext) -> None:
    span = OFF.begin(serving("POST", "/v1/tickets", "/v1/tickets"), context)
    span.end({})
    assert span.context == context
    await OFF.close()

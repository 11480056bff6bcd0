"""Who may import whom. The arrows are the architecture; changing one needs a decision record, not a green test."""

import ast
import re
import subprocess
import sys

import pytest

from tests.architecture.source import ROOT, Module, calls, full_calls, imports_of, modules, within

PURE = (
    "consumer.claim",
    "consumer.fence.answers",
    "consumer.fence.entry",
    "consumer.fleet",
    "consumer.judgement",
    "consumer.intentions",
    "consumer.isolation",
    "consumer.recycle",
    "consumer.storm",
    "consumer.verdict",
    "gateway.admission",
    "gateway.station.agreement",
    "gateway.station.surge",
    "gateway.station.what_if",
    "gateway.tracing.conventions",
)
"""Decisions: facts in, a value out."""

WORLD = ("asyncio", "time", "os", "io", "socket", "subprocess", "threading", "multiprocessing", "pathlib", "logging")
"""Where a pure module would meet a clock, the system or the network."""


def _offences(found: dict[str, set[str]]) -> str:
    return "; ".join(f"{name} imports {', '.join(sorted(names))}" for name, names in found.items() if names)


def _pure() -> list[Module]:
    return [module for module in modules() if module.name in PURE]


def test_the_reader_sees_every_way_to_import() -> None:
    source = "import a.b\nfrom c import d\nfrom e.f import g as h\ndef late():\n    import i\n"
    assert imports_of(ast.parse(source)) == {"a.b", "c.d", "e.f.g", "i"}


def test_a_prefix_is_a_package_not_a_spelling() -> None:
    assert within("gateway.contract.ids", "gateway.contract")
    assert not within("gateway.contracts", "gateway.contract")


def test_gateway_never_imports_consumer() -> None:
    assert not _offences({module.name: module.imports_from("consumer") for module in modules("gateway")})


def test_consumer_imports_of_gateway_only_what_both_share() -> None:
    shared = ("contract", "amqp", "preflight", "depot", "one_hop", "tracing")
    allowed = tuple(f"gateway.{part}" for part in shared)
    found = {
        module.name: {name for name in module.imports_from("gateway") if not within(name, *allowed)}
        for module in modules("consumer")
    }
    assert not _offences(found)


def test_the_contract_imports_nothing_of_ours_and_only_orjson_of_others() -> None:
    allowed = {*sys.stdlib_module_names, "orjson"}
    found = {
        module.name: {
            name
            for name in module.imports()
            if name.partition(".")[0] not in allowed and not within(name, "gateway.contract")
        }
        for module in modules("gateway.contract")
    }
    assert found
    assert not _offences(found)


def test_preflight_imports_of_ours_only_the_contract_and_the_verdict_on_its_facts() -> None:
    found = {
        module.name: {
            name
            for name in module.imports_from("gateway", "consumer")
            if not within(name, "gateway.preflight", "gateway.admission", "gateway.contract")
        }
        for module in modules("gateway.preflight")
    }
    assert not _offences(found)


def test_the_edge_to_the_broker_imports_of_ours_only_the_contract() -> None:
    found = {
        module.name: {
            name
            for name in module.imports_from("gateway", "consumer")
            if not within(name, "gateway.amqp", "gateway.contract")
        }
        for module in modules("gateway.amqp")
    }
    assert found
    assert not _offences(found)


def test_the_depot_imports_of_ours_only_the_contract_and_is_alone_with_its_library() -> None:
    found = {
        module.name: {
            name
            for name in module.imports_from("gateway", "consumer")
            if not within(name, "gateway.depot", "gateway.contract")
        }
        for module in modules("gateway.depot")
    }
    assert found
    assert not _offences(found)
    strangers = {module.name: module.imports_from("obstore") for module in modules()}
    del strangers["gateway.depot.objects"]
    assert not _offences(strangers)


def test_tracing_imports_of_ours_only_the_contract_and_is_alone_with_its_library() -> None:
    found = {
        module.name: {
            name
            for name in module.imports_from("gateway", "consumer")
            if not within(name, "gateway.tracing", "gateway.contract", "gateway.__version__")
        }
        for module in modules("gateway.tracing")
    }
    assert found
    assert not _offences(found)
    strangers = {module.name: module.imports_from("opentelemetry") for module in modules()}
    del strangers["gateway.tracing.otlp"]
    assert not _offences(strangers)


def test_the_worker_side_imports_only_what_a_worker_needs() -> None:
    carried = ("consumer.bounds", "consumer.usage")  # what records of the pipe are made of
    ours = ("consumer.worker", "consumer.pipe", *carried, "consumer.handler")
    allowed = (*ours, "gateway.preflight", "gateway.contract", "gateway.depot")
    found = {
        module.name: {name for name in module.imports_from("consumer", "gateway") if not within(name, *allowed)}
        | module.imports_from("aio_pika", "aiormq", "aiohttp", "sqlalchemy")
        for module in modules("consumer.worker")
    }
    assert found
    assert not _offences(found)


def test_decisions_import_only_the_standard_library_the_contract_and_each_other() -> None:
    # orjson is the contract's codec: as pure as the standard library's.
    allowed = ("gateway.contract", "consumer.policy", "orjson", *PURE)
    found = {
        module.name: {
            name
            for name in module.imports()
            if name.partition(".")[0] not in sys.stdlib_module_names and not within(name, *allowed)
        }
        for module in _pure()
    }
    assert found
    assert not _offences(found)


def test_decisions_have_no_clock_and_touch_nothing() -> None:
    found = {module.name: module.imports_from(*WORLD) for module in _pure()}
    assert not _offences(found)
    looking = {"open", "now", "utcnow", "today", "print", "input"}
    assert not [(module.name, name, line) for module in _pure() for name, line in calls(module) if name in looking]


def _callers(names: set[str], *, outside: set[str]) -> list[str]:
    return [
        f"{module.name}:{line} {name}"
        for module in modules("consumer")
        if module.name not in outside
        for name, line in calls(module)
        if name in names
    ]


def test_only_settlement_acknowledges_in_the_consumer() -> None:
    assert not _callers({"acknowledge"}, outside={"consumer.settlement"})
    # The frame itself is the session's to send; the example shows a consumer that does without all of this.
    assert not _callers({"ack", "basic_ack"}, outside={"consumer.session", "consumer.examples.plain"})


def test_nothing_goes_back_to_the_broker_unpublished() -> None:
    assert not _callers({"nack", "reject", "recover", "basic_nack", "basic_reject", "basic_recover"}, outside=set())


def test_only_spawn_and_the_mold_fork_in_the_consumer() -> None:
    forking = re.compile(r"os\.(fork|forkpty|posix_spawnp?|spawn\w+)|subprocess\.\w+|(\w+\.)?create_subprocess_\w+")
    elsewhere = [
        f"{module.name}:{line} {name}"
        for module in modules("consumer")
        if module.name not in {"consumer.spawn", "consumer.worker.mold"}
        for name, line in full_calls(module)
        if forking.fullmatch(name)
    ]
    assert not elsewhere


def test_no_connection_mends_itself_unseen() -> None:
    hidden = {"connect_robust", "RobustConnection", "process"}
    found = [
        f"{module.name}:{line} {name}"
        for module in modules()
        if module.name != "gateway.preflight.inflation"  # Brotli's decoder has a `process` of its own
        for name, line in calls(module)
        if name in hidden
    ]
    assert not found


@pytest.mark.parametrize(
    ("package", "heavy"),
    [
        ("gateway.contract", ("aiohttp", "aio_pika", "aiormq", "tiktoken", "sqlalchemy", "pydantic")),
        ("gateway.depot", ("aiohttp", "aio_pika", "aiormq", "tiktoken", "sqlalchemy", "pydantic", "obstore")),
        ("gateway.tracing", ("aiohttp", "aio_pika", "aiormq", "tiktoken", "sqlalchemy", "pydantic", "opentelemetry")),
        ("consumer.handler", ("aiohttp", "aio_pika", "aiormq", "tiktoken", "sqlalchemy", "pydantic")),
        ("consumer.pipe", ("aiohttp", "aio_pika", "aiormq", "tiktoken", "sqlalchemy", "pydantic")),
    ],
)
def test_what_both_sides_share_loads_nothing_heavy(package: str, heavy: tuple[str, ...]) -> None:
    script = f"import sys, {package}; print(sorted(set({heavy!r}) & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_only_modules_of_settings_know_the_library_that_reads_them() -> None:
    found = {module.name for module in modules() if module.imports_from("pydantic_settings")}
    assert found == {"consumer.settings", "gateway.settings"}

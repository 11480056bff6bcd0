"""compose.yaml and the Dockerfile say what runs: checked by running each service's command, without Docker."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway import __version__
from gateway.embedded import EmbeddedBroker, free_port
from tests.architecture.source import ROOT
from tests.support.program import Programs
from tests.support.waiting import eventually

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("door", "station", "consumer-work", "consumer-suspects")
PORTS = re.compile(r"(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)")


def _instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions with their arguments, continuation lines joined."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def _here(service: dict[str, Any], broker: EmbeddedBroker, prefix: str, data: Path) -> dict[str, str]:
    """Return the service's environment, moved from its container to this machine."""
    port = free_port()
    moved = {name: PORTS.sub(f"127.0.0.1:{port}", value) for name, value in service["environment"].items()}
    return {
        **moved,
        "LAZARETTO_BROKER_URL": broker.url,
        "LAZARETTO_DATA": str(data),
        "LAZARETTO_PREFIX": prefix,
        "LAZARETTO_QUEUE_SETTLE": "0s",
    }


def test_the_services_are_the_programs_and_a_pinned_broker() -> None:
    assert set(SERVICES) == {"rabbitmq", *OURS}
    assert re.fullmatch(r"rabbitmq:4\.\d+\.\d+", SERVICES["rabbitmq"]["image"])


@pytest.mark.parametrize("name", OURS)
def test_each_program_runs_unprivileged_from_one_image_and_is_watched(name: str) -> None:
    service = SERVICES[name]
    assert service["image"] == f"lazaretto:{__version__}"
    assert service["user"] == "10001:10001"
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["depends_on"]["rabbitmq"]["condition"] == "service_healthy"


def test_nothing_is_published_beyond_loopback() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("name", OURS)
def test_each_command_accepts_its_settings_and_finds_its_broker(
    name: str, broker: EmbeddedBroker, programs: Programs, prefix: str, tmp_path: Path
) -> None:
    service = SERVICES[name]
    program, *arguments = service["command"]
    assert program == "python"
    checked = programs.python(name, *arguments, "--check", env=_here(service, broker, prefix, tmp_path))
    assert checked.wait(60) == 0, checked.log
    assert re.search(r"broker.*\d+\.\d+", checked.log)


@pytest.mark.parametrize("name", OURS)
def test_each_health_check_turns_green_on_the_running_program(
    name: str, broker: EmbeddedBroker, programs: Programs, prefix: str, tmp_path: Path
) -> None:
    service = SERVICES[name]
    environment = _here(service, broker, prefix, tmp_path)
    address = next(value for key, value in environment.items() if PORTS.fullmatch(value))
    running = programs.python(name, *service["command"][1:], env=environment)
    _, program, *check = service["healthcheck"]["test"]
    assert program == "python"
    moved = [PORTS.sub(address, argument) for argument in check]

    def healthy() -> bool:
        assert running.exit_code is None, running.tail()
        return programs.python("health", *moved).wait(30) == 0

    eventually(healthy, 40)


def test_the_image_runs_as_a_user_without_privileges_that_compose_names_too() -> None:
    instructions = _instructions()
    last_stage = instructions[max(i for i, (word, _) in enumerate(instructions) if word == "FROM") :]
    users = [rest for word, rest in last_stage if word == "USER"]
    assert users == ["lazaretto"]
    assert any("useradd" in rest and "--uid 10001" in rest for word, rest in last_stage if word == "RUN")


def test_the_image_is_built_from_the_lock_and_python_3_11() -> None:
    instructions = _instructions()
    assert {rest.split()[0] for word, rest in instructions if word == "FROM"} == {"python:3.11-slim"}
    run = [rest for word, rest in instructions if word == "RUN"]
    for lock in ("requirements.lock", "requirements-build.lock"):
        assert any(f"--require-hashes -r {lock}" in rest for rest in run)
    installing = [command for rest in run for command in rest.split("&&") if "/pip " in command]
    assert len(installing) == 4
    # Whatever is not pinned cannot be fetched.
    assert all("--require-hashes" in command or "--no-index" in command for command in installing)
    assert all("--no-build-isolation" in command for command in installing if "pip wheel" in command)


def test_what_the_image_copies_exists_and_is_sent_to_the_builder() -> None:
    ignore = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    copied = [
        source
        for word, rest in _instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert copied
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert [source for source in copied if f"!{source.removeprefix('./')}" not in ignore] == []

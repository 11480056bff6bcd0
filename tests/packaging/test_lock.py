"""The lock files pin everything with hashes, agree with each other, and name no place to download from."""

import re
import tomllib
from importlib import metadata

import pytest

from tests.architecture.source import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
LOCKS = (
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-build.lock",
    "requirements-fuzz.lock",
    "requirements-peers.lock",
)


def _pins(name: str) -> dict[str, str]:
    """Return version by normalised name; fail on a line that pins nothing or a pin without a hash."""
    text = (ROOT / name).read_text("utf-8").replace("\\\n", " ")
    pins = {}
    for line in text.splitlines():
        if line and not line.lstrip().startswith("#"):
            pinned = re.fullmatch(r"([a-z0-9-]+)==(\S+)( +--hash=sha256:[0-9a-f]{64})+ *", line)
            assert pinned is not None, f"{name}: {line[:80]}"
            pins[pinned[1]] = pinned[2]
    return pins


def _wanted(requirements: list[str]) -> set[str]:
    return {
        re.split(r"[<>=!~ \[]", requirement, maxsplit=1)[0].lower().replace(".", "-") for requirement in requirements
    }


def test_everything_the_project_asks_for_is_pinned() -> None:
    extras = PROJECT["optional-dependencies"]
    assert _wanted(PROJECT["dependencies"]) - _pins("requirements.lock").keys() == set()
    assert extras.keys() == {"brotli", "dev", "fast", "otel", "zstd"}
    for name in extras.keys() - {"dev"}:
        assert _wanted(extras[name]) - _pins("requirements.lock").keys() == set()
    assert _wanted(extras["dev"]) - _pins("requirements-dev.lock").keys() == set()
    assert _pins("requirements-fuzz.lock").keys() == {"atheris"}
    asked = [line for line in (ROOT / "requirements-peers.in").read_text("utf-8").splitlines() if line[0] != "#"]
    assert asked
    assert _wanted(asked) - _pins("requirements-peers.lock").keys() == set()
    assert _wanted(PYPROJECT["build-system"]["requires"]) == _pins("requirements-build.lock").keys()


def test_tests_run_on_the_versions_that_are_shipped() -> None:
    for name in ("requirements.lock", "requirements-build.lock"):
        shipped = _pins(name)
        assert shipped
        assert shipped.items() - _pins("requirements-dev.lock").items() == set()


def test_what_is_installed_here_is_what_is_pinned() -> None:
    installed = {name: metadata.version(name) for name in _pins("requirements-dev.lock")}
    assert installed == _pins("requirements-dev.lock")


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_place_to_download_from(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert not re.search(
        r"://|--(extra-)?index-url|--find-links|--trusted-host|^#.*/(tmp|home|root|opt)/", text, re.MULTILINE
    )

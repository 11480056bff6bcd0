"""Sizes, names and words: what keeps the house pleasant, checked so that nobody has to remember it."""

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, modules

JUNK = {"utils", "util", "common", "helpers", "helper", "misc", "base", "types", "core", "manager", "stuff"}
SOURCES = ("gateway", "consumer", "tests", "scripts", "benchmarks")


def _tracked() -> list[Path]:
    """Every file that git would commit: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        # At a desk somebody may have unpacked an archive; CI always has a checkout, and must not pass without looking.
        (pytest.fail if os.environ.get("CI") else pytest.skip)("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def _python_files() -> list[Path]:
    return [path for package in SOURCES for path in sorted((ROOT / package).rglob("*.py"))]


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_no_file_is_longer_than_400_lines() -> None:
    assert {str(path.relative_to(ROOT)): _lines(path) for path in _python_files() if _lines(path) > 400} == {}


def test_half_of_all_modules_are_shorter_than_120_lines() -> None:
    assert statistics.median(_lines(module.path) for module in modules()) < 120


def test_no_file_or_folder_is_a_junk_drawer() -> None:
    names = {path: {path.stem, *path.relative_to(ROOT).parts[:-1]} for path in _python_files()}
    assert [str(path.relative_to(ROOT)) for path, parts in names.items() if parts & JUNK] == []


def test_no_file_has_the_name_of_a_standard_module() -> None:
    taken = set(sys.stdlib_module_names) - {"__future__"}
    shadowing = [path for path in _python_files() if not path.stem.startswith("__") and path.stem in taken]
    assert [str(path.relative_to(ROOT)) for path in shadowing] == []


def test_nothing_is_left_for_later() -> None:
    later = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error")) + r")\b")
    found = [str(path.relative_to(ROOT)) for path in _python_files() if later.search(path.read_text("utf-8"))]
    assert found == []


def test_nothing_names_a_registry_host_or_a_path_of_one_machine() -> None:
    hosts = ("py" + "pi.org", "python" + "hosted.org", "deb." + "debian", "npm" + "js.org", "snapshot." + "debian")
    places = ("/wo" + "rk/", "/ro" + "ot/", "/opt/wh" + "eels", "file:///" + "opt")
    forbidden = re.compile("|".join(re.escape(text) for text in (*hosts, *places)))
    found = []
    for path in _tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a binary file names nothing
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in forbidden.finditer(text)]
    assert found == []


def test_every_module_says_what_it_owns() -> None:
    silent = [module.name for module in modules() if module.text.strip() and '"""' not in module.text[:200]]
    assert silent == []

"""`make test` tries a few failures once more, alone, and says which passed only then; what fails twice is red."""

import subprocess
import sys
from pathlib import Path

from tests.support.program import ROOT

ONCE = """
from pathlib import Path

def test_that_passes_alone():
    mark = Path(__file__).with_name("been-here")
    first = not mark.exists()
    mark.touch()
    assert not first

def test_that_always_passes():
    Path(__file__).with_name("others").open("a").write("x")
"""
ALWAYS = "def test_that_never_passes():\n    assert False\n"
FOUR = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_many(n):\n    assert False\n"


def _run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text, "utf-8")
    return subprocess.run(
        [sys.executable, "-m", "scripts.run_tests", "-q", "--rootdir", str(folder), "test_it.py"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_passes_alone_is_named_as_unsteady_and_nothing_else_runs_again(tmp_path: Path) -> None:
    ended = _run(tmp_path, ONCE)

    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.endswith("unsteady, passed only alone:\n  test_it.py::test_that_passes_alone\n")
    assert (tmp_path / "others").read_text("utf-8") == "x"


def test_what_fails_twice_is_red(tmp_path: Path) -> None:
    ended = _run(tmp_path, ALWAYS)

    assert ended.returncode == 1
    assert ended.stdout.count("1 failed") == 2
    assert "unsteady" not in ended.stdout


def test_many_failures_are_no_accident(tmp_path: Path) -> None:
    ended = _run(tmp_path, FOUR)

    assert ended.returncode == 1
    assert "once more" not in ended.stdout


def test_tests_that_cannot_be_read_are_red_at_once(tmp_path: Path) -> None:
    ended = _run(tmp_path, "import nothing_of_this_name\n")

    assert ended.returncode not in {0, 1}
    assert "once more" not in ended.stdout

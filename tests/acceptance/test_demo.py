"""What `make demo` runs: the whole story holds, it leaves nothing, and it would say so if something did not hold."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.demo import farewell
from tests.acceptance.findings import FINDINGS
from tests.acceptance.report import Report
from tests.acceptance.status_page import Sight, untruth
from tests.support.house import call
from tests.support.program import ROOT, Programs
from tests.support.waiting import eventually

NOTHING_LEFT = "Nothing is left of it: no process, no port, no file."
needs_broker = [pytest.mark.usefixtures("broker"), pytest.mark.timeout(330)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The demo, run to its end from some other folder, on a terminal; its desk is looked at before Ctrl-C."""
    folder = tmp_path_factory.mktemp("elsewhere")
    ours, its = os.openpty()
    with (
        (folder / "stderr").open("w+") as complaints,
        subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.demo", "--stay"],
            cwd=folder,
            env={**{name: value for name, value in os.environ.items() if name != "CI"}, "PYTHONPATH": str(ROOT)},
            stdin=its,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        ) as demo,
    ):
        assert demo.stdout is not None
        try:
            said = []
            for line in demo.stdout:
                said.append(line)
                if stays := re.search(r"The desk is at .* the page of 9417 at (\S+);", line):
                    said.append(f"page of 9417: {call('GET', stays[1]).status}\n")
                    demo.send_signal(signal.SIGINT)
            demo.wait(60)
        finally:
            demo.terminate()  # it clears its stage; nothing where it has ended
            os.close(ours)
            os.close(its)
        complaints.seek(0)
        return subprocess.CompletedProcess(demo.args, demo.returncode, "".join(said), complaints.read())


class TestTheStory:
    pytestmark = needs_broker

    def test_it_happens(self, told: subprocess.CompletedProcess[str]) -> None:
        assert told.returncode == 0, told.stdout + told.stderr
        assert told.stderr == ""

    @pytest.mark.parametrize("title", [title for title, _ in FINDINGS])
    def test_each_promise_is_reported_as_held(self, told: subprocess.CompletedProcess[str], title: str) -> None:
        assert f"  ok    {title}\n" in told.stdout

    def test_its_desk_can_be_looked_at_until_ctrl_c(self, told: subprocess.CompletedProcess[str]) -> None:
        assert "page of 9417: 200" in told.stdout.splitlines()

    def test_its_last_line_says_that_nothing_is_left(self, told: subprocess.CompletedProcess[str]) -> None:
        assert told.stdout.splitlines()[-1] == NOTHING_LEFT


@pytest.mark.usefixtures("broker")
@pytest.mark.timeout(120)
def test_ctrl_c_in_the_middle_leaves_nothing_running(programs: Programs, tmp_path: Path) -> None:
    demo = programs.python("demo", "-m", "tests.acceptance.demo", env={"TMPDIR": str(tmp_path)})
    demo.wait_for_log("customers write", 60)
    demo.signal(signal.SIGINT)
    assert demo.wait(60) == 130
    assert demo.log.splitlines()[-1] == NOTHING_LEFT
    eventually(lambda: not demo.family())
    assert list(tmp_path.glob("lazaretto-demo-*")) == []
    assert re.search(r"the desk is at http://127\.0\.0\.1:\d+/ until", demo.log)


def test_its_last_words_have_the_desks_address_and_whether_it_is_still_there() -> None:
    at = "http://d/"
    assert "was at http://d/ while this ran; `make demo ARGS=--stay`" in farewell(at, asked=False, stays=False)
    assert "was at http://d/ and does not stay" in farewell(at, asked=True, stays=False)
    assert "is at http://d/ " in farewell(at, asked=True, stays=True)


def test_a_check_that_raises_is_named_and_makes_the_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    def refuted() -> str:
        raise AssertionError("it died four times")

    def unreadable() -> str:
        evidence: dict[str, str] = {}
        return evidence["peak_rss"]

    report = Report()
    for look in (lambda: "seen", refuted, unreadable):
        report.check(f"promise of {look.__name__}", look)
    assert report.end() == 1
    assert report.broken == ["promise of refuted", "promise of unreadable"]
    assert "it died four times" in capsys.readouterr().out


def _seen(*steps: tuple[int, str, int]) -> list[Sight]:
    return [
        Sight(generation=generation, state=state, attempts=attempts, at=0.0) for generation, state, attempts in steps
    ]


def test_an_order_of_states_that_can_be_true_is_believed() -> None:
    story = [(0, "accepted", 0), (0, "running", 1), (0, "retrying", 1), (0, "running", 2), (0, "quarantined", 2)]
    assert untruth(_seen(*story, (1, "accepted", 0), (1, "done", 1))) is None


@pytest.mark.parametrize(
    "steps",
    [
        [(0, "running", 2), (0, "retrying", 1)],
        [(0, "retrying", 1), (1, "running", 1)],
        [(1, "running", 1), (0, "quarantined", 3)],
        [(0, "quarantined", 3), (0, "running", 3)],
        [(0, "quarantined", 3), (0, "quarantined", 4)],
        [(0, "gone", 1)],
    ],
)
def test_an_order_of_states_that_cannot_be_true_is_not_believed(steps: list[tuple[int, str, int]]) -> None:
    assert untruth(_seen(*steps)) is not None

"""Which licensed starts of a dead node never began: said only where that is certain."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.fence import Conflict, Pulse, StoreFence
from consumer.fence.slate import Slate, Slates
from consumer.verdict import end_at_claim
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.journal import Verdict
from gateway.contract.outcomes import Reason, Stamp

LIFE = "node-1#00c0ffee"
FIRST = Stamp(generation=0, attempt=1, interruptions=0)
AGAIN = Stamp(generation=0, attempt=1, interruptions=1)

_BEGINS = """
import sys
from pathlib import Path
from consumer.fence.slate import Slates
from gateway.contract.outcomes import Stamp
slate = Slates(Path(sys.argv[1])).open(sys.argv[2])
for ticket in sys.argv[3:]:
    slate.begin(ticket, Stamp(generation=0, attempt=1, interruptions=0))
print("begun", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def slates(tmp_path: Path) -> Slates:
    return Slates(tmp_path / "slates")


def opened(slates: Slates) -> Slate:
    slate = slates.open(LIFE)
    assert slate is not None
    return slate


@pytest.fixture
def node(slates: Slates, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _BEGINS, str(tmp_path / "slates"), LIFE, "begun-1", "begun-2"]
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


def test_a_killed_node_leaves_behind_what_had_begun_and_what_had_not(
    slates: Slates, node: subprocess.Popen[str]
) -> None:
    assert not slates.never_began(LIFE, "licensed", FIRST)  # it lives, and may still begin it
    node.send_signal(signal.SIGKILL)
    node.wait()
    assert slates.never_began(LIFE, "licensed", FIRST)
    assert slates.never_began(LIFE, "begun-1", AGAIN)
    assert not slates.never_began(LIFE, "begun-1", FIRST)
    assert not slates.never_began(LIFE, "begun-2", FIRST)
    assert not slates.never_began("node-1#another", "licensed", FIRST)


def test_what_another_boot_has_left_tells_nothing(slates: Slates, node: subprocess.Popen[str], tmp_path: Path) -> None:
    node.kill()
    node.wait()
    (path,) = (tmp_path / "slates").iterdir()
    content = path.read_bytes()
    path.write_bytes(b"0" * 36 + content[36:])
    assert not slates.never_began(LIFE, "licensed", FIRST)


def test_a_slate_that_misses_a_start_is_given_up(slates: Slates, tmp_path: Path) -> None:
    slate = opened(slates)
    (path,) = (tmp_path / "slates").iterdir()
    limit = 36 + 16  # room for one start, as on a disk that is full
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        slate.begin("first", FIRST)
        whole = slate.is_whole
        slate.begin("second", FIRST)
        os._exit(0 if whole and not slate.is_whole else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not path.exists()
    slate.close()
    assert not slates.never_began(LIFE, "licensed", FIRST)


def test_decided_starts_leave_their_places_to_others(slates: Slates, tmp_path: Path) -> None:
    slate = opened(slates)
    for number in range(1000):
        slate.begin(f"t{number}", FIRST)
        slate.decided(f"t{number}", FIRST)
    (path,) = (tmp_path / "slates").iterdir()
    assert path.stat().st_size == 36 + 16
    slate.begin("open", FIRST)
    slate.close()
    assert slates.never_began(LIFE, "t998", FIRST)
    assert not slates.never_began(LIFE, "open", FIRST)


def test_a_node_that_has_decided_all_takes_its_slate_along(slates: Slates, tmp_path: Path) -> None:
    slate = opened(slates)
    slate.begin("t", FIRST)
    slate.decided("t", FIRST)
    slate.close()
    assert not list((tmp_path / "slates").iterdir())


async def test_another_ticket_under_the_id_of_one_that_runs_does_not_wipe_its_start_off(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    fence, later = await StoreFence.open(url), await StoreFence.open(url)
    await fence.beat(LIFE, "work", Pulse(beat=1.0, every=5.0))
    for ticket in ("taken", "other"):
        await fence.license(ticket, FIRST, holder=LIFE, now=1.0, digest="d")
    fence.begin("taken", FIRST)
    given_back = end_at_claim(
        Envelope(ticket=TicketId("taken"), kind="k", body=b"", content_type="text/plain", attempt=1),
        Verdict.QUARANTINE,
        Reason.ATTEMPTS_EXHAUSTED,
        "",
    )
    assert isinstance(await fence.decide("taken", FIRST, given_back, digest="another"), Conflict)
    fence.begin("other", FIRST)
    await fence.close()
    assert not later.never_began(LIFE, "taken", FIRST)
    assert not later.never_began(LIFE, "other", FIRST)
    assert later.never_began(LIFE, "licensed", FIRST)
    await later.close()


def test_slates_of_lives_that_ended_long_ago_are_swept(
    slates: Slates, node: subprocess.Popen[str], tmp_path: Path
) -> None:
    (path,) = (tmp_path / "slates").iterdir()
    os.utime(path, (1, 1))
    slates.sweep(silent_since=2)
    assert path.exists()  # idle, not over
    node.kill()
    node.wait()
    os.utime(path, (1, 1))
    slates.sweep(silent_since=1)
    assert path.exists()
    slates.sweep(silent_since=2)
    assert not path.exists()


def test_where_no_slate_can_be_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Slates(tmp_path / "file").open(LIFE) is None

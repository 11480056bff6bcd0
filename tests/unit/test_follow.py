"""What `make up` shows of its broker ends with the broker."""

import subprocess
import sys
from pathlib import Path

import psutil

from tests.support.program import ROOT
from tests.support.waiting import eventually


def test_following_ends_with_a_process_that_nobody_has_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.touch()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    eventually(lambda: psutil.Process(ended.pid).status() == psutil.STATUS_ZOMBIE)
    command = [sys.executable, "-m", "scripts.follow", str(ended.pid), str(log)]
    assert subprocess.run(command, cwd=ROOT, timeout=20, check=False).returncode == 3
    ended.wait()

"""Runs one benchmark with tiny numbers, as a person would, and reads what it reports."""

import json
import subprocess
import sys
from typing import Any

from tests.support.program import ROOT


def figures(*arguments: str) -> dict[str, Any]:
    """Return the figures of `python -m benchmarks ...`; fails with what it complained of."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "--tiny", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found

"""`python -m scripts.run_tests [what pytest takes]`: the suite, and alone once more the few that failed in a crowd.

The suite kills processes and cuts links beside each other on every core there is, so now and then a test meets a
machine that stood still. Up to `A_FEW` that failed are tried once more, one by one. What fails again is red; what
passes is named at the end as unsteady, with its failure above: it may be a fault that shows one time in a hundred.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

A_FEW: Final = 3
"""More than this is no accident."""
_SOME_FAILED: Final = 1
"""The exit code of pytest that says so; all others mean that it could not do its work."""


def main(argv: list[str]) -> int:
    """Run the tests that `argv` selects; returns pytest's exit code, or 0 where all pass at the second try."""
    with TemporaryDirectory() as folder:
        ended = _pytest("-o", f"cache_dir={folder}", *argv)
        failed = _failed(Path(folder))
    if ended != _SOME_FAILED or not 0 < len(failed) <= A_FEW:
        return ended
    print(f"\nonce more, alone: {len(failed)} that failed", flush=True)
    ended = _pytest(*failed)
    if ended == 0:
        print("unsteady, passed only alone:", *failed, sep="\n  ", flush=True)
    return ended


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def _failed(cache: Path) -> list[str]:
    """Return the ids of the tests that failed, as pytest has noted them in its cache."""
    noted = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(noted.read_text("utf-8"))) if noted.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

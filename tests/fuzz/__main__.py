"""`python -m tests.fuzz TARGET [--seconds N]`: searches for bytes that break a claim of `tests.fuzz.targets`.

Needs atheris, which `make fuzz` installs beside everything else. What it learns stays in `.lazaretto/fuzz`; an input
that breaks a claim is left there as `crash-...`, ends the search with an error, and belongs into the suite.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gateway.preflight"]):
    from tests.fuzz.targets import TARGETS

from tests.fuzz.seeds import SEEDS

_SHORTEST = 2
"""Bytes that choose the variant."""


def main() -> None:
    """Search until the time is over or a claim is broken; ends the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    chosen = parser.parse_args()
    corpus = Path(".lazaretto/fuzz").absolute() / chosen.target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[chosen.target]):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [f"-max_total_time={chosen.seconds}", "-max_len=8192", "-timeout=5", "-rss_limit_mb=2048"]
    atheris.Setup(
        [sys.argv[0], str(corpus), f"-artifact_prefix={corpus}/", *options], _long_enough(TARGETS[chosen.target])
    )
    atheris.Fuzz()


def _long_enough(claim: Callable[[bytes], None]) -> Callable[[bytes], None]:
    return lambda data: claim(data) if len(data) >= _SHORTEST else None


if __name__ == "__main__":
    main()

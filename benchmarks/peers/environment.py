"""The virtual environment in which peers run: `.venv/peers`, made by `make peers` from requirements-peers.lock.

Looks, and never installs. What is not exactly what the lock pins is not used: its figures would be of something else.
"""

import re
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from benchmarks.peers import on_redis
from benchmarks.peers.registry import BULLMQ, Peer
from benchmarks.programs import ROOT

VENV: Final = ROOT / ".venv" / "peers"
LOCK: Final = ROOT / "requirements-peers.lock"
MEASURED: Final = ("aio-pika", "celery", "dramatiq", "fastapi", "faststream", "taskiq", "taskiq-aio-pika", "uvicorn")
"""Packages whose versions belong to the figures."""


Chosen = Mapping[str, tuple[Peer, ...]]
"""Peers by benchmark."""


def python(venv: Path = VENV) -> Path:
    """Return the interpreter, there or not."""
    return venv / "bin" / "python"


def pins(lock: str) -> dict[str, str]:
    """Return version by package of a lock file's text."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s\\]+)", lock, re.MULTILINE))


def versions(venv: Path = VENV) -> dict[str, str]:
    """Return version by package of what is installed there; empty when nothing is."""
    folders = [str(folder) for folder in venv.glob("lib/python3*/site-packages")]
    found = distributions(path=folders) if folders else ()
    return {re.sub(r"[-_.]+", "-", package.name).lower(): package.version for package in found}


def why_unusable(venv: Path = VENV, wanted: Mapping[str, str] | None = None) -> str | None:
    """Return why no peer can run, for a person; None when `venv` has all that the lock (or `wanted`) pins."""
    if not python(venv).is_file():
        return "the peers' virtual environment is not there"
    missing = (pins(LOCK.read_text("utf-8")) if wanted is None else wanted).items() - versions(venv).items()
    if missing:
        return f"the peers' virtual environment lacks {', '.join(sorted(map('=='.join, missing)))}"
    return None


def runnable(chosen: Chosen, venv: Path = VENV) -> tuple[Chosen, str | None]:
    """Return those of `chosen` that can run, and why others cannot."""
    why = why_unusable(venv) if any(chosen.values()) else None
    if why:
        return dict.fromkeys(chosen, ()), why
    without = on_redis.why_missing() if any(BULLMQ in peers for peers in chosen.values()) else None
    if without:
        chosen = {name: tuple(peer for peer in peers if peer != BULLMQ) for name, peers in chosen.items()}
    return chosen, without

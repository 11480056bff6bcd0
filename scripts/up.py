"""`make up`: a private broker, then the programs of the Procfile, in the foreground; Ctrl-C ends them in reverse order.

Owns that order, because each program refuses to start without its broker and needs it to drain; and the rule that
nothing it started outlives it, even when it is killed. Never looks into the programs: it knows their command lines.
"""

import argparse
import ctypes
import os
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import honcho.manager
from honcho.environ import parse_procfile

from gateway.contract import knobs
from gateway.embedded import BrokerNotStartedError, EmbeddedBroker
from gateway.embedded.node import DEFAULT_DATA, DEFAULT_URL, Node

ROOT: Final = Path(__file__).resolve().parents[1]
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)  # loaded before any fork

SPARE: Final = 15.0
"""Seconds a program gets beyond its drain grace before honcho kills it; honcho's own limit is 5 s in all."""

ASKED: Final = (130, 143)
"""What honcho returns after SIGINT and SIGTERM."""


def main(argv: list[str]) -> int:
    """Run everything until Ctrl-C; return 0 then, else the exit code of the program that ended first."""
    parser = argparse.ArgumentParser(prog="python -m scripts.up")
    parser.add_argument(
        "--broker-port", type=int, default=Node.at(DEFAULT_URL, Path()).port, help="of the private node (%(default)s)"
    )
    options = parser.parse_args(argv)
    os.chdir(ROOT)
    try:
        table = knobs.read_table(os.environ)
        grace = knobs.duration(os.environ.get("LAZARETTO_DRAIN_GRACE") or table.get("drain_grace", 30))
    except ValueError as error:
        return _complain(2, str(error))
    honcho.manager.KILL_WAIT = grace + SPARE
    manager = honcho.manager.Manager()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    with ExitStack() as stack:
        if not (os.environ.get("LAZARETTO_BROKER_URL") or table.get("broker_url")):
            data = Path(os.environ.get("LAZARETTO_DATA") or str(table.get("data") or DEFAULT_DATA))
            broker = EmbeddedBroker(data, port=options.broker_port)
            _say(f"starting a private RabbitMQ node at {broker.node.address}")
            try:
                stack.enter_context(broker)
            except BrokerNotStartedError as error:
                return _complain(3, f"no broker: {error}")
            environment["LAZARETTO_BROKER_URL"] = broker.url
            # Shows what the node has to say, and ends with it: honcho then ends the rest, as with any other program.
            log = shlex.quote(str(broker.node.log / "broker.log"))
            follow = f"exec {shlex.quote(sys.executable)} -m scripts.follow {broker.pids['wrapper']} {log}"
            manager.add_process("broker", follow, env=environment)
        for name, command in parse_procfile((ROOT / "Procfile").read_text("utf-8")).processes.items():
            manager.add_process(name, _ending_with_its_parent(command), env=environment)
        # A process of its own, for honcho forks and must find no thread alive.
        greeting = subprocess.Popen([sys.executable, "-m", "scripts.greet"], start_new_session=True)
        stack.callback(greeting.wait)
        stack.callback(greeting.terminate)
        os.register_at_fork(after_in_child=_die_with_parent)
        manager.loop()
    return 0 if manager.returncode in ASKED else manager.returncode or 1


def _say(line: str) -> None:
    sys.stdout.write(f"up: {line}\n")
    sys.stdout.flush()


def _complain(code: int, line: str) -> int:
    sys.stderr.write(f"up: {line}\n")
    return code


def _ending_with_its_parent(command: str) -> str:
    """Return the shell command that gets SIGTERM when its honcho process ends, however that ends."""
    return f"exec setpriv --pdeathsig TERM sh -c {shlex.quote(command)}"


def _die_with_parent() -> None:
    """Let honcho's own processes end with this one: they ignore every signal that could be caught."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # before honcho listens for it: the node is starting and ends with this process
        sys.exit(0)

"""`make up`: a private broker, then the programs of the Procfile, in the foreground; Ctrl-C ends them in reverse order.

Owns that order, because each program refuses to start without its broker and needs it to drain. Never looks into the
programs: it knows their command lines.
"""

import os
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
SPARE: Final = 15.0
"""Seconds a program gets beyond its drain grace before honcho kills it; honcho's own limit is 5 s in all."""


def main() -> int:
    """Run everything until Ctrl-C; return 0 then, else the exit code of the program that ended first."""
    os.chdir(ROOT)
    try:
        table = knobs.read_table(os.environ)
        grace = knobs.duration(os.environ.get("LAZARETTO_DRAIN_GRACE") or table.get("drain_grace", 30))
    except ValueError as error:
        sys.stderr.write(f"up: {error}\n")
        return 2
    named = os.environ.get("LAZARETTO_BROKER_URL") or table.get("broker_url")
    honcho.manager.KILL_WAIT = grace + SPARE
    manager = honcho.manager.Manager()
    with ExitStack() as stack:
        if named:
            sys.stdout.write("up: using the broker that LAZARETTO_BROKER_URL names\n")
        else:
            data = Path(os.environ.get("LAZARETTO_DATA") or str(table.get("data") or DEFAULT_DATA))
            broker = EmbeddedBroker(data, port=Node.at(DEFAULT_URL, data).port)
            sys.stdout.write(f"up: starting a private RabbitMQ node at {broker.node.address}\n")
            sys.stdout.flush()
            try:
                stack.enter_context(broker)
            except BrokerNotStartedError as error:
                sys.stderr.write(f"up: no broker: {error}\n")
                return 3
            # Shows what the node has to say, and ends with it: honcho then ends the rest, as with any other program.
            log = broker.node.log / "broker.log"
            manager.add_process("broker", f"exec tail -q -n 0 -F --pid={broker.pids['wrapper']} '{log}'")
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"}
        environment["PYTHONUNBUFFERED"] = "1"
        for name, command in parse_procfile((ROOT / "Procfile").read_text("utf-8")).processes.items():
            manager.add_process(name, command, env=environment)
        # A process of its own, for honcho forks and must find no thread alive.
        greeting = subprocess.Popen([sys.executable, "-m", "scripts.greet"], start_new_session=True)
        stack.callback(greeting.wait)
        stack.callback(greeting.terminate)
        manager.loop()
    return 0 if manager.returncode in {130, 143} else manager.returncode or 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # before honcho listens for it: the node is starting and ends with this process
        sys.exit(0)

"""What the story plays on: a private broker, door, station and two consumers, started by the commands users type.

Owns the order of start and end, and the promise that nothing of it stays: no process, no port, no file. Knows the
programs by their command lines, HTTP answers and logs alone.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import psutil

from gateway.embedded import EmbeddedBroker, free_port
from tests.acceptance.handlers import RECORD, Note, read_notes
from tests.acceptance.webhook import Webhook
from tests.support.house import Answer, call
from tests.support.program import ROOT, Program, Programs
from tests.support.waiting import eventually

FIRST_BUILD: Final = "tests.acceptance.handlers:handle"
REPAIRED_BUILD: Final = "tests.acceptance.handlers:handle_repaired"
WORKERS: Final = 3
SHORTENED: Final = {"LAZARETTO_BACKOFF_BASE": "1s"}
"""The one setting that is not about addresses: by default a first retry waits up to 30 s."""

_READY_WITHIN: Final = 60.0
_END_WITHIN: Final = 45.0
"""Seconds; a drain may take its default grace of 30 s."""


class Stage:
    """Everything under one folder, on free ports."""

    def __init__(self, folder: Path) -> None:
        self.record_path: Final = folder / "handlers.jsonl"
        self.broker: Final = EmbeddedBroker(folder)
        self.webhook: Final = Webhook()
        self.door_port: Final = free_port()
        self.desk_port: Final = free_port()
        self._folder = folder
        self._log_folder = folder / "logs"
        self._log_folder.mkdir()
        self._programs = Programs(self._log_folder)
        self._ports = {"broker": self.broker.node.port, "door": self.door_port, "desk": self.desk_port}
        self._ports["webhook"] = self.webhook.port
        self.consumers: dict[str, Program] = {}

    @property
    def env(self) -> dict[str, str]:
        """The settings of every program."""
        return {
            "LAZARETTO_BROKER_URL": self.broker.url,
            "LAZARETTO_DATA": str(self._folder / "data"),
            "LAZARETTO_DOOR": f"127.0.0.1:{self.door_port}",
            "LAZARETTO_DESK": f"127.0.0.1:{self.desk_port}",
            "LAZARETTO_ALERT_URLS": f"json://127.0.0.1:{self.webhook.port}/alerts",
            RECORD: str(self.record_path),
            **SHORTENED,
        }

    @property
    def desk(self) -> str:
        """The address of the reviewers' pages."""
        return f"http://127.0.0.1:{self.desk_port}/"

    # Start and end

    def open(self) -> None:
        """Start everything; returns when a ticket would be taken and run."""
        self.webhook.start()
        self.broker.start()
        self.door = self._start("door", "gateway")
        self.station = self._start("station", "gateway.station", "serve")
        self._start_consumers(FIRST_BUILD)
        for port in (self.door_port, self.desk_port):
            eventually(lambda: self._answers(f"http://127.0.0.1:{port}/readyz"), _READY_WITHIN)  # noqa: B023  at once
        self._await_consumers()

    def deploy(self, build: str) -> dict[str, int | None]:
        """Replace both consumers as a roll-out does, SIGTERM first; return exit codes, by lane."""
        old = dict(self.consumers)
        for program in old.values():
            program.signal(signal.SIGTERM)
        codes: dict[str, int | None] = {lane: program.wait(_END_WITHIN) for lane, program in old.items()}
        self._start_consumers(build)
        self._await_consumers()
        return codes

    def close(self) -> list[str]:
        """End everything, in bounded time; return a sentence for whatever would not go."""
        complaints = []
        try:
            self._programs.close()
        except AssertionError as failure:
            complaints.append(str(failure))
        nodes = self.broker.pids  # its helpers are no children of ours
        self.broker.stop()
        self.webhook.stop()
        left = {child.pid for child in psutil.Process().children(recursive=True)}
        left |= {pid for pid in nodes.values() if psutil.pid_exists(pid)}
        complaints += [f"process {pid} is left" for pid in sorted(left)]
        complaints += [f"the {name}'s port {port} is taken" for name, port in self._ports.items() if _listens(port)]
        return complaints

    def tails(self) -> str:
        """Return what the programs said last."""
        return "\n".join(program.tail(15) for program in self._programs.started)

    def _start(self, name: str, *module_and_arguments: str) -> Program:
        # The first words let the program hear of it, should this process be killed before it can say so.
        argv = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", *module_and_arguments]
        return self._programs.start(name, argv, self.env, self._folder)

    def _start_consumers(self, build: str) -> None:
        lanes = {"work": ("--workers", str(WORKERS)), "suspects": ("--lane", "suspects")}
        for lane, arguments in lanes.items():
            self.consumers[lane] = self._start(lane, "consumer", "--handler", build, *arguments)

    def _await_consumers(self) -> None:
        for program in self.consumers.values():
            program.wait_for_log("consumer.consuming", _READY_WITHIN)

    @staticmethod
    def _answers(url: str) -> bool:
        try:
            return call("GET", url, within=5.0).status == 200
        except OSError:
            return False

    # Questions, as clients, reviewers and handlers would ask them

    def post(self, path: str, content_type: str, body: bytes) -> Answer:
        """Send one request to the door."""
        return call("POST", f"http://127.0.0.1:{self.door_port}{path}", body, Content_Type=content_type)

    def status(self, ticket: str) -> dict[str, Any]:
        """Return what a client's status page shows."""
        answer = call("GET", f"http://127.0.0.1:{self.door_port}/v1/tickets/{ticket}")
        assert answer.status == 200, f"the status page of {ticket} answered {answer.status}"
        return answer.body

    def dossier(self, ticket: str) -> dict[str, Any]:
        """Return what `show --json` prints, from the desk, which answers at once."""
        answer = call("GET", f"http://127.0.0.1:{self.desk_port}/api/items/{ticket}")
        assert answer.status == 200, f"the desk's page of {ticket} answered {answer.status}"
        return answer.body

    def until(self, ticket: str, *states: str, within: float = 60.0) -> dict[str, Any]:
        """Wait until a ticket's status is one of `states`, and return it."""
        asked = f"{ticket} is {' or '.join(states)}"
        return eventually(lambda: self._in(ticket, states), within, saying=asked) or {}

    def _in(self, ticket: str, states: tuple[str, ...]) -> dict[str, Any] | None:
        found = self.status(ticket)
        return found if found["state"] in states else None

    def verb(self, *arguments: str) -> str:
        """Run one of the reviewers' commands and return what it printed; it must succeed."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LAZARETTO_")}
        done = subprocess.run(
            [sys.executable, "-m", "gateway.station", *arguments],
            env={**inherited, "PYTHONPATH": str(ROOT), **self.env},
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, f"`gateway.station {' '.join(arguments)}` says: {done.stderr.strip()}"
        return done.stdout

    def document(self, *arguments: str) -> Any:
        """Run a reviewers' command with `--json` and return its document."""
        return json.loads(self.verb(*arguments, "--json"))

    def notes(self, ticket: str | None = None, what: str | None = None) -> list[Note]:
        """Return what the handlers noted, of one ticket or of all."""
        return [
            note for note in read_notes(self.record_path) if ticket in (None, note.ticket) and what in (None, note.what)
        ]


def _listens(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
    return False

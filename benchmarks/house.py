"""One installation for one benchmark: a private broker on a free port, temporary data, and the programs on it.

Owns start, end and the settings that differ from the defaults. Asks the product only what a client or reviewer can.
"""

import http.client
import json
import sys
import tempfile
import threading
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any, Final, Self

from benchmarks.handlers import RECORD, Note, Record
from benchmarks.programs import Program, cpu_seconds
from benchmarks.waiting import BenchmarkFailed, until
from gateway.contract.topology import Lane
from gateway.embedded import EmbeddedBroker, free_port

_HANDS: Final = 8
"""Threads that submit beside each other."""
ENDED: Final = frozenset({"done", "quarantined", "discarded"})
SHORTENED: Final = {
    "LAZARETTO_DELAY_UNIT": "50ms",
    "LAZARETTO_QUEUE_SETTLE": "0",
    "LAZARETTO_BACKOFF_BASE": "200ms",
    "LAZARETTO_BACKOFF_CAP": "1s",
    "LAZARETTO_LOST_GRACE": "500ms",
    "LAZARETTO_RECLAIM_MARGIN": "500ms",
}
"""Waits on purpose, by default up to half a minute each: they are no cost, and would hide it. Nothing else is set."""


class House:
    """Everything under a temporary folder; leaving the context ends what was started and removes it."""

    def __init__(self, **env: str) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="lazaretto-benchmark-")
        self.folder: Final = Path(self._temporary.name)
        self.broker: Final = EmbeddedBroker(self.folder)
        self.door_port: Final = free_port()
        self.desk_port: Final = free_port()
        self._record_path = self.folder / "record.jsonl"
        self._record = Record(self._record_path)
        self._programs: list[Program] = []
        self._here = threading.local()
        self._doors: list[http.client.HTTPConnection] = []
        self._env = env

    def __enter__(self) -> Self:
        """Start the broker."""
        try:
            self.broker.start()
        except BaseException:
            self._temporary.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End every program in reverse order, then the broker; remove the folder."""
        try:
            for program in reversed(self._programs):
                if not program.ended:
                    program.terminate()
            for program in reversed(self._programs):
                program.stop()
        finally:
            for program in self._programs:
                program.kill()
            for door in self._doors:
                door.close()
            self.broker.stop()
            self._temporary.cleanup()

    @property
    def env(self) -> dict[str, str]:
        """The settings of every program."""
        return {
            "LAZARETTO_BROKER_URL": self.broker.url,
            "LAZARETTO_DATA": str(self.folder / "data"),
            "LAZARETTO_DOOR": f"127.0.0.1:{self.door_port}",
            "LAZARETTO_DESK": f"127.0.0.1:{self.desk_port}",
            RECORD: str(self._record_path),
            **SHORTENED,
            **self._env,
        }

    # Programs

    def start(self, *module_and_arguments: str, python: str = sys.executable, **env: str) -> Program:
        """Start `python -m ...` with this house's settings, and with others in `env`; `python` is a peer's own."""
        return self.run(python, "-m", *module_and_arguments, **env)

    def run(self, *command: str, **env: str) -> Program:
        """Start a command that is no Python module in the same way."""
        log = self.folder / f"{len(self._programs)}.log"
        program = Program(*command, env={**self.env, **env}, log=log)
        self._programs.append(program)
        return program

    def door(self) -> Program:
        """Start a door and wait until it admits."""
        program = self.start("gateway")
        self.until_ready(program, self.door_port)
        return program

    def open(self) -> None:
        """Start door and station, both at once, and wait until they admit and keep."""
        station = self.start("gateway.station", "serve")
        self.door()
        self.until_ready(station, self.desk_port)

    def node(
        self, lane: Lane = Lane.WORK, *, handler: str = "handle", workers: int = 2, inline: bool = False, **env: str
    ) -> Program:
        """Start a fleet node without waiting for it."""
        sized = ("--workers", str(workers)) if lane is Lane.WORK else ()
        where = ("--isolation", "inline") if inline else ()
        return self.start(
            "consumer", "--handler", f"benchmarks.handlers:{handler}", "--lane", lane.value, *sized, *where, **env
        )

    def until_ready(self, program: Program, port: int, path: str = "/readyz") -> None:
        """Wait until a program answers 200; raises BenchmarkFailed with the end of its log."""

        def ready() -> bool:
            if program.ended:
                raise BenchmarkFailed(f"it ended at once:\n{program.tail()}")
            try:
                return _get(port, path)[0] == http.client.OK
            except OSError:
                return False

        until(ready, 30.0, f"port {port} answers {path}: {program.tail()}")

    def broker_cpu_seconds(self) -> float:
        """Processor time of the broker so far."""
        return cpu_seconds(self.broker.pids["server"])

    # Tickets

    def submit(self, ticket: str, kind: str) -> None:
        """Bring one ticket to the door; anything but 202 is BenchmarkFailed."""
        status, answer = self.offer(ticket, kind)
        if status != http.client.ACCEPTED:
            raise BenchmarkFailed(f"the door answered {status} to {ticket}: {answer}")

    def offer(self, ticket: str, kind: str) -> tuple[int, dict[str, Any]]:
        """Bring one ticket to the door, return status and answer; raises OSError or HTTPException without one."""
        document = json.dumps({"id": ticket, "kind": kind, "body": "a printer is on fire on the third floor"})
        try:
            return self._ask("POST", "/v1/tickets", document)
        except (OSError, http.client.HTTPException):
            self._connection().close()  # the next one begins anew
            raise

    def submit_all(self, tickets: Sequence[str], kind: str) -> None:
        """Bring many tickets, in no order: one confirm is not waited for before the next is asked for."""
        with ThreadPoolExecutor(_HANDS) as hands:
            list(hands.map(self.submit, tickets, repeat(kind)))

    def ended(self) -> AbstractSet[str]:
        """Return the tickets whose handler has come to its end, by its own note."""
        return self._record.ended()

    def status(self, ticket: str) -> dict[str, Any]:
        """Return what the door tells a client."""
        return self._ask("GET", f"/v1/tickets/{ticket}", None)[1]

    def dossier(self, ticket: str) -> dict[str, Any]:
        """Return what the desk tells a reviewer; empty while it knows nothing."""
        status, answer = _get(self.desk_port, f"/api/items/{ticket}")
        return answer if status == http.client.OK else {}

    def ends(self, tickets: list[str], within: float) -> dict[str, dict[str, Any]]:
        """Wait until every ticket has ended and return their statuses; those that have not are returned as they are."""
        found: dict[str, dict[str, Any]] = {}

        def all_ended() -> bool:
            for ticket in tickets:
                if found.get(ticket, {}).get("state") not in ENDED:
                    found[ticket] = self.status(ticket)
                    if found[ticket].get("state") not in ENDED:
                        return False
            return True

        try:
            until(all_ended, within, "")
        except BenchmarkFailed:
            found = {ticket: self.status(ticket) for ticket in tickets}
        return found

    def notes(self) -> list[Note]:
        """Return what handlers noted, oldest first."""
        return self._record.notes()

    def _ask(self, method: str, path: str, body: str | None) -> tuple[int, dict[str, Any]]:
        door = self._connection()
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            door.request(method, path, body, headers)
            response = door.getresponse()
        except ConnectionError:  # idle for longer than the door keeps a connection; tickets here have ids of their own
            door.close()
            door.request(method, path, body, headers)
            response = door.getresponse()
        return response.status, json.loads(response.read())

    def _connection(self) -> http.client.HTTPConnection:
        """Return this thread's connection to the door."""
        door: http.client.HTTPConnection | None = getattr(self._here, "door", None)
        if door is None:
            door = self._here.door = http.client.HTTPConnection("127.0.0.1", self.door_port, timeout=30)
            self._doors.append(door)
        return door


def _get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    status, raw = _raw(port, path)
    return status, json.loads(raw) if raw.startswith(b"{") else {}


def text(port: int, path: str) -> str:
    """Return what a program on this machine answers, as text."""
    return _raw(port, path)[1].decode("utf-8", "replace")


def _raw(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()

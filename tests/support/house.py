"""The whole house for one test: door, station and fleet nodes as real processes on one broker, with quick settings.

Talks to it as users do: HTTP, the command line, the broker. Counts as an auditor would: accepted = done + quarantined +
discarded, by id.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from gateway.embedded import free_port
from tests.support.handlers import GATE, STARTS, Start, read_starts
from tests.support.program import ENVIRONMENT, OF_ITS_OWN, Program, Programs
from tests.support.waiting import eventually

ENDED = {"done", "quarantined", "discarded"}
HANDLER = "tests.support.handlers:handle"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, whatever its status."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]


def call(method: str, url: str, body: bytes | None = None, within: float = 30.0, **headers: str) -> Answer:
    """Make one HTTP call; header names have underscores for hyphens. Raises OSError when nobody answers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, method=method, headers=named)
    try:
        with urllib.request.urlopen(request, timeout=within) as response:
            raw, status, got = response.read(), response.status, dict(response.headers)
    except urllib.error.HTTPError as error:
        with error:
            raw, status, got = error.read(), error.code, dict(error.headers)
    parsed = json.loads(raw) if "json" in got.get("Content-Type", "") else {"text": raw.decode("utf-8", "replace")}
    return Answer(status, parsed, got)


def _is_uuid(ticket: str) -> bool:
    return len(ticket) == 36 and ticket.count("-") == 4


@dataclass
class House:
    """One installation under a prefix and data folder of its own."""

    programs: Programs
    broker_url: str
    prefix: str
    folder: Path
    extra: dict[str, str] = field(default_factory=dict)
    door_port: int = field(default_factory=free_port)
    desk_port: int = field(default_factory=free_port)

    @property
    def env(self) -> dict[str, str]:
        """The environment of every program of this house."""
        return {
            "LAZARETTO_BROKER_URL": self.broker_url,
            "LAZARETTO_PREFIX": self.prefix,
            "LAZARETTO_DATA": str(self.folder / "data"),
            "LAZARETTO_DOOR": f"127.0.0.1:{self.door_port}",
            "LAZARETTO_DESK": f"127.0.0.1:{self.desk_port}",
            "LAZARETTO_DELAY_UNIT": "50ms",
            "LAZARETTO_QUEUE_SETTLE": "0",
            "LAZARETTO_BACKOFF_BASE": "100ms",
            "LAZARETTO_BACKOFF_CAP": "400ms",
            "LAZARETTO_LOST_GRACE": "500ms",
            "LAZARETTO_RECLAIM_MARGIN": "500ms",
            "LAZARETTO_MEMORY_LIMIT": "160MiB",
            "LAZARETTO_DRAIN_GRACE": "5s",
            "LAZARETTO_BEAT": "300ms",
            STARTS: str(self.starts_path),
            GATE: str(self.gate_path),
            **self.extra,
        }

    @property
    def starts_path(self) -> Path:
        """The handlers' own record of their starts."""
        return self.folder / "starts.jsonl"

    @property
    def gate_path(self) -> Path:
        """The folder of opened gates."""
        return self.folder / "gates"

    def open_gate(self, kind: str) -> None:
        """Let runs of this kind (`wait.x`, `stubborn.x`) come to their end."""
        self.gate_path.mkdir(exist_ok=True)
        (self.gate_path / kind).touch()

    # Programs

    def door(self, **env: str) -> Program:
        """Start a door and wait until it is ready."""
        program = self.programs.python("door", "-m", "gateway", env={**self.env, **env})
        self._until_ready(program, f"http://127.0.0.1:{self.door_port}/readyz")
        return program

    def station(self, **env: str) -> Program:
        """Start a station and wait until it is ready."""
        program = self.programs.python("station", "-m", "gateway.station", "serve", env={**self.env, **env})
        self._until_ready(program, f"http://127.0.0.1:{self.desk_port}/readyz")
        return program

    def fleet(self, lane: str = "work", *, workers: int = 2, handler: str = HANDLER, **env: str) -> Program:
        """Start a fleet node without waiting for it."""
        sized = ("--workers", str(workers)) if lane == "work" else ()
        return self.programs.python(
            lane, "-m", "consumer", "--handler", handler, "--lane", lane, *sized, env={**self.env, **env}
        )

    def node(self, lane: str = "work", *, workers: int = 2, handler: str = HANDLER, **env: str) -> Program:
        """Start a fleet node and wait until it consumes."""
        program = self.fleet(lane, workers=workers, handler=handler, **env)
        program.wait_for_log("consumer.consuming")
        return program

    def open(self, *, workers: int = 2, handler: str = HANDLER) -> tuple[Program, Program, Program, Program]:
        """Start door, station and a node for each lane, all ready; the nodes start while the others do."""
        work, suspects = self.fleet(workers=workers, handler=handler), self.fleet("suspects", handler=handler)
        door, station = self.door(), self.station()
        for node in (work, suspects):
            node.wait_for_log("consumer.consuming")
        self.warm_up()
        return door, station, work, suspects

    def warm_up(self) -> None:
        """Let a node settle its first delivery: it takes one at a time until then (P15)."""
        self.until(self.accepted("good"), "done")

    @staticmethod
    def kill_family(node: Program) -> None:
        """SIGKILL a node with its mold and workers at once, as the kernel does with a pod."""
        for process in node.family():
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        node.kill9()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the reviewers' verbs to its end."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OF_ITS_OWN)}
        return subprocess.run(
            [sys.executable, "-m", "gateway.station", *arguments],
            env={**inherited, **ENVIRONMENT, **self.env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def show(self, ticket: str) -> dict[str, Any]:
        """Return what the station knows of a ticket, from its desk, once it has heard of it at all."""
        return self._known(f"http://127.0.0.1:{self.desk_port}/api/items/{ticket}")

    # Tickets

    def submit(self, kind: str, ticket: str | None = None, text: str = "hello", **headers: str) -> Answer:
        """Submit one ticket as JSON."""
        document = {"kind": kind, "body": text, **({} if ticket is None else {"id": ticket})}
        url = f"http://127.0.0.1:{self.door_port}/v1/tickets"
        return call("POST", url, json.dumps(document).encode(), 30.0, Content_Type="application/json", **headers)

    def runs(self, ticket: str) -> list[str]:
        """Return the outcomes of a ticket's runs, oldest first."""
        return [run["outcome"] for run in self.show(ticket)["runs"]]

    def reason(self, ticket: str) -> str:
        """Return why a ticket is in quarantine; the journal may come before the item itself."""
        return str(eventually(lambda: self.show(ticket)["reason"], saying=f"{ticket} is held"))

    def evidence(self, ticket: str, runs: int, of: str) -> list[Any]:
        """Return one piece of evidence for each of a ticket's `runs`; the journal may come after the item itself."""

        def told() -> list[Any]:
            found = [run["evidence"] for run in self.show(ticket)["runs"]]
            return [known[of] for known in found] if len(found) == runs and all(of in known for known in found) else []

        return eventually(told, saying=f"{of} of {runs} runs of {ticket}")

    def accepted(self, kind: str, ticket: str | None = None, text: str = "hello") -> str:
        """Submit one ticket and return its id; it must be accepted."""
        answer = self.submit(kind, ticket, text)
        assert answer.status == 202, answer
        return str(answer.body["id"])

    def status(self, ticket: str) -> dict[str, Any]:
        """Return what the door tells a client about a ticket, once it has heard of it at all."""
        return self._known(f"http://127.0.0.1:{self.door_port}/v1/tickets/{ticket}")

    def starts(self, ticket: str | None = None) -> list[Start]:
        """Return the starts of one ticket, or of all that the test has named, oldest first."""
        found = read_starts(self.starts_path)
        return [start for start in found if (start.ticket == ticket if ticket else not _is_uuid(start.ticket))]

    def until(self, ticket: str, state: str, within: float = 40.0) -> dict[str, Any]:
        """Wait until a ticket is in `state` and return its status."""
        url = f"http://127.0.0.1:{self.door_port}/v1/tickets/{ticket}"

        def reached() -> dict[str, Any] | None:
            answer = call("GET", url)
            assert answer.status in {200, 404}, answer  # 404: put on the broker by somebody else, not yet heard of
            return answer.body if answer.body.get("state") == state else None

        return eventually(reached, within, saying=f"{ticket} is {state}") or {}

    def balance(self, accepted: Iterable[str], within: float = 30.0) -> Counter[str]:
        """Wait until every accepted ticket has ended, by id, and return how; nothing may be missing."""
        wanted = set(accepted)
        ends: dict[str, str] = {}

        def all_ended() -> bool:
            for ticket in sorted(wanted - ends.keys()):
                state = self.status(ticket)["state"]
                if state not in ENDED:
                    return False
                ends[ticket] = state
            return True

        eventually(all_ended, within, saying=f"all of {len(wanted)} accepted tickets have ended; so far {len(ends)}")
        return Counter(ends.values())

    @staticmethod
    def _known(url: str) -> dict[str, Any]:
        """Return what `url` tells of a ticket. A report comes after what it reports: until the first, 404 is right."""

        def told() -> Answer | None:
            answer = call("GET", url)
            assert answer.status in {200, 404}, answer
            return answer if answer.status == 200 else None

        answer = eventually(told, saying=f"a report about the ticket of {url}")
        assert answer is not None
        return answer.body

    @staticmethod
    def _until_ready(program: Program, url: str) -> None:
        def ready() -> bool:
            if program.exit_code is not None:
                raise AssertionError(f"{program.name} ended with {program.exit_code}:\n{program.tail()}")
            try:
                return call("GET", url, within=30.0).status == 200
            except OSError:
                return False

        try:
            eventually(ready, 30.0, saying=f"{program.name} is ready")
        except AssertionError as failure:
            failure.add_note(program.tail())
            raise

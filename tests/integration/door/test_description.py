"""The description of the door holds for a door that runs: whatever it says is valid is taken, and nothing else is."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from tests.architecture.source import ROOT
from tests.integration.door.conftest import StartDoor
from tests.integration.door.key_file import KeyFile, bearing
from tests.integration.door.running import TICKET, RunningDoor

_OF_HTTP_ITSELF = frozenset({"content-length", "content-type", "date", "connection"})


async def _schemathesis(door: RunningDoor, folder: Path, *options: str, examples: int) -> None:
    """Have every check made with as many examples for each operation, beside those that follow from its schemas.

    They are the same in every run.
    """
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{door.url}/openapi.json", "--checks", "all"),
        *("--max-examples", str(examples), "--generation-deterministic", "--continue-on-failure", "--no-color"),
        *options,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.integration.door.schemathesis_hooks",
        },
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await program.communicate()

    assert program.returncode == 0, said.decode()
    assert "request_failed" not in door.program.log


async def test_schemathesis_finds_nothing(start: StartDoor, tmp_path: Path) -> None:
    async with await start(status_wait="500ms") as door:  # or each question for news of no ticket is let wait its time
        await _schemathesis(door, tmp_path, examples=15)


async def test_schemathesis_finds_nothing_where_keys_are_needed(start: StartDoor, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys")
    key = keys.add("acme")
    async with await start(keys=str(keys.path), status_wait="500ms") as door:
        bearer = f"Authorization:{bearing(key)['Authorization']}"
        await _schemathesis(door, tmp_path, "--header", bearer, "--phases", "coverage,fuzzing", examples=3)


async def test_every_header_of_an_answer_is_described(start: StartDoor, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys")
    ours, poor = (
        bearing(keys.add("acme", requests="100/s", size="100MiB/s")),
        bearing(keys.add("poor", requests="1/1h")),
    )
    async with await start(keys=str(keys.path)) as door:
        document = (await door.ask("GET", "/openapi.json")).document
        key = {**ours, "Idempotency-Key": "once"}
        first = await door.ask("POST", "/v1/tickets", json=TICKET, headers=key)
        path = str(first.headers["Location"])
        tag = (await door.ask("GET", path, headers=ours)).headers["ETag"]
        asked: list[tuple[str, str, dict[str, Any], int]] = [
            ("POST", "/v1/tickets", {"json": TICKET, "headers": key}, 202),
            ("POST", "/v1/tickets", {"json": {**TICKET, "subject": "other"}, "headers": key}, 422),
            ("POST", "/v1/tickets", {"json": TICKET}, 401),
            ("POST", "/v1/tickets", {"data": b"{", "headers": {**ours, "Content-Type": "application/json"}}, 400),
            ("POST", "/v1/tickets", {"data": b"{", "headers": {**ours, "Content-Type": "image/png"}}, 415),
            ("POST", "/v1/tickets", {"json": TICKET, "headers": {**ours, "Accept": "image/png"}}, 406),
            ("POST", "/v1/tickets", {"data": b" " * 600_000, "headers": ours}, 413),
            ("POST", "/v1/tickets:check", {"json": TICKET, "headers": ours}, 200),
            ("GET", path, {"headers": ours}, 200),
            ("GET", path, {"headers": {**ours, "If-None-Match": tag}}, 304),
            ("GET", f"{path}?wait=never", {"headers": ours}, 400),
            ("GET", path, {"headers": poor}, 404),
            ("GET", path, {"headers": poor}, 429),
            ("GET", "/v1/limits", {}, 200),
            ("GET", "/healthz", {}, 200),
            ("GET", "/metrics", {}, 200),
        ]
        for method, at, options, status in asked:
            answer = await door.ask(method, at, **options)
            template = at.partition("?")[0] if not at.startswith(path) else "/v1/tickets/{id}"
            described = document["paths"][template][method.lower()]["responses"]

            assert answer.status == status, (method, at, answer)
            named = {name.lower() for name in described[str(status)]["headers"]}
            came = {name.lower() for name in answer.headers}
            headers = document["components"]["headers"]
            always = {name.lower() for name, header in headers.items() if header.get("required")}
            assert named & always <= came, (method, at, status)
            assert came - _OF_HTTP_ITSELF <= named, (method, at, status)

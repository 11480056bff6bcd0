"""The README's requests do what it says."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.integration.door.running import RunningDoor

_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMANDS = [
    command
    for block in _BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    for command in re.split(r"\n\n", block)
    if "curl " in command
]


def test_there_is_a_request_for_each_content_type() -> None:
    everything = "\n".join(_COMMANDS)
    for what in ("application/json", "text/plain", "-F 'ticket=", "Content-Encoding: gzip"):
        assert what in everything


@pytest.mark.parametrize("position", range(len(_COMMANDS)))
async def test_each_request_of_the_readme_is_accepted(door: RunningDoor, tmp_path: Path, position: int) -> None:
    (tmp_path / "incident.log").write_text("10:00:01 ERROR connection reset by peer\n" * 20, "utf-8")
    command = _COMMANDS[position].replace("http://127.0.0.1:8080", door.url)
    assert door.url in command

    shell = await asyncio.create_subprocess_shell(
        command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    answer, _ = await shell.communicate()

    assert b"HTTP/1.1 202 Accepted" in answer, (command, answer)
    assert await door.queued() == 1

"""The door does the same on both event loops: uvloop is an extra, and nothing may depend on it."""

import asyncio
import signal
import sys

import pytest

from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import TICKET
from tests.support.waiting import soon


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_tickets_large_bodies_and_the_end_on_either_loop(start: StartDoor, loop: str) -> None:
    async with await start(event_loop=loop) as door:
        await soon(door.is_ready)
        answers = await asyncio.gather(*(door.submit() for _ in range(30)))
        large = await door.submit({**TICKET, "body": "many words " * 30_000})
        too_large = await door.submit_text(b"x" * 900_000)

        assert {answer.status for answer in (*answers, large)} == {202}
        assert too_large.status == 413
        assert len(await door.take()) == 31
        door.program.signal(signal.SIGTERM)
        assert await asyncio.to_thread(door.program.wait) == 0


async def test_a_loop_that_is_not_installed_is_a_mistake_in_the_settings() -> None:
    hidden = "import sys; sys.modules['uvloop'] = None; from gateway.__main__ import main; sys.exit(main([]))"
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", hidden, env={"LAZARETTO_EVENT_LOOP": "uvloop"}, stderr=asyncio.subprocess.PIPE
    )
    _, told = await program.communicate()

    assert program.returncode == 2
    assert b"LAZARETTO_EVENT_LOOP" in told

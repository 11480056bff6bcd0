"""The helpers that other tests trust do what those tests believe."""

import asyncio
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from gateway.embedded import EmbeddedBroker
from gateway.embedded.probe import is_ready
from tests.support.processes import is_gone
from tests.support.program import Programs
from tests.support.proxy import TO_BROKER, TO_CLIENT, Proxy
from tests.support.waiting import eventually, soon


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1024):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _echo_server() -> tuple[asyncio.Server, str]:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    return server, f"amqp://guest:guest@127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def test_eventually_returns_the_first_true_value() -> None:
    values = iter([0, 0, 7, 8])
    assert eventually(lambda: next(values)) == 7


def test_eventually_fails_at_its_deadline() -> None:
    with pytest.raises(AssertionError, match="not within"):
        eventually(lambda: False, 0.05)


async def test_soon_waits_for_coroutines_and_fails_at_its_deadline() -> None:
    values = iter([0, 3])

    async def condition() -> int:
        return next(values)

    assert await soon(condition) == 3
    with pytest.raises(AssertionError, match="not within"):
        await soon(lambda: False, 0.05)


def test_a_program_is_watched_by_its_log_and_its_exit_code(programs: Programs) -> None:
    program = programs.python("speaker", "-c", "import sys; print('n=1'); print('n=2'); sys.exit(5)")
    assert program.wait_for_log(r"n=(\d)", count=2)[1] == "2"
    assert program.wait() == 5


def test_waiting_for_a_line_that_cannot_come_fails_as_soon_as_the_program_has_ended(programs: Programs) -> None:
    program = programs.python("silent", "-c", "import sys; sys.exit(3)")
    with pytest.raises(AssertionError, match="ended with 3"):
        program.wait_for_log("never", within=60)


def test_a_program_gets_no_setting_that_the_test_did_not_give(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAZARETTO_DOOR", "from the outside")
    program = programs.python("asker", "-c", "import os; print('door:', os.environ.get('LAZARETTO_DOOR'))")
    program.wait_for_log("^door: None$")


def test_an_orphan_is_found_in_another_session_and_named(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    programs.ORPHANS_GONE_WITHIN = 0.2
    child = f"import subprocess; subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(600)'], "
    program = programs.python("parent", "-c", child + "start_new_session=True); print('left', flush=True)")
    program.wait_for_log("^left$")
    with pytest.raises(AssertionError, match=r"orphans: .* of parent"):
        programs.close()
    eventually(lambda: not program.family(), 5)


def test_a_program_that_ignores_sigterm_is_killed_and_reported(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    programs.ENDS_WITHIN = 0.3
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    program = programs.python("deaf", "-c", deaf)
    program.wait_for_log("^deaf$")
    with pytest.raises(AssertionError, match="deaf"):
        programs.close()
    assert program.exit_code == -9


@pytest.mark.usefixtures("postgresql")
def test_a_server_that_a_test_process_started_for_itself_ends_with_it(programs: Programs) -> None:
    script = (
        "import time\nfrom tests.support.postgresql import Postgresql, binaries\n"
        "with Postgresql(binaries()) as server:\n"
        "    print('answers in', server.folder, flush=True)\n    time.sleep(600)\n"
    )
    tests = programs.python("tests", "-c", script)
    folder = Path(tests.wait_for_log("^answers in (.+)$", 60)[1])
    try:
        servers = psutil.Process(tests.pid).children(recursive=True)
        assert len(servers) > 3, "its main process and those that write for it"
        tests.kill9()
        eventually(lambda: all(is_gone(server) for server in servers))
    finally:
        shutil.rmtree(folder)


async def test_a_held_line_delivers_late_and_completely() -> None:
    server, url = await _echo_server()
    async with server, Proxy(url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.hold(TO_CLIENT)
        writer.write(b"hello")
        await soon(lambda: proxy.forwarded[TO_BROKER] == 5)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(5), 0.2)
        proxy.release()
        assert await reader.readexactly(5) == b"hello"
        writer.close()


async def test_a_cut_line_resets_the_client_and_loses_what_was_held() -> None:
    server, url = await _echo_server()
    async with server, Proxy(url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.hold(TO_CLIENT)
        writer.write(b"hello")
        await soon(lambda: proxy.forwarded[TO_BROKER] == 5)
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read(5)
        writer.close()


async def test_a_line_is_cut_after_exactly_the_bytes_that_were_asked_for() -> None:
    server, url = await _echo_server()
    async with server, Proxy(url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.cut_after_client_bytes(3)
        writer.write(b"hello")
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(5)
        assert proxy.forwarded[TO_BROKER] == 3
        writer.close()


async def test_a_refusing_line_takes_no_new_connection_until_it_is_mended() -> None:
    server, url = await _echo_server()
    async with server, Proxy(url) as proxy:
        proxy.refusing = True
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
        proxy.refusing = False
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"again")
        assert await reader.readexactly(5) == b"again"
        writer.close()


async def test_amqp_passes_through_the_line(broker: EmbeddedBroker) -> None:
    async with Proxy(broker.url) as proxy:
        assert await is_ready(proxy.url)
        assert proxy.connections == 1

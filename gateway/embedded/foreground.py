"""Runs a private node in the foreground until it is told to stop, dies, or loses its parent.

Owns the node's processes. Three deaths are provided for: SIGTERM or SIGINT stop the node in order; the end of the
parent does the same; SIGKILL of this very process makes the kernel kill the node, because each child asked for that
signal before it became the node. Must run in the main thread of a process without other threads: the kernel binds the
death signal to the thread that forked.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from gateway.embedded.node import Node
from gateway.embedded.ports import free_port
from gateway.embedded.probe import is_ready

START_WITHIN: Final = 90.0
"""Seconds until a node that is not ready is given up; a loaded machine with two cores takes up to 30."""
STOP_WITHIN: Final = 15.0
"""Seconds until a node that was asked to stop is killed."""
LOCK_WITHIN: Final = 5.0
"""Seconds that a dying predecessor in the same folder is waited for."""

_STOPPING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)  # loaded before any fork: the child may only make system calls


class NodeInUseError(RuntimeError):
    """Another node holds the folder or the port; the text says which, for a person."""


class NodeFailedError(RuntimeError):
    """The node ended or did not become ready; the text ends with what it printed last."""


class End(StrEnum):
    """Why a node that was ready is no longer wanted, or no longer there."""

    ASKED = "asked"
    PARENT = "parent ended"
    DIED = "node died"


def run(node: Node, *, parent: int | None) -> End:
    """Run `node` until it ends; print one line `ready URL` to standard output when it serves.

    `parent` is the process whose end ends the node; None means nobody's. Raises NodeInUseError, NodeFailedError.
    """
    with _stopping_held(), _locked(node) as lock:
        _port_is_free(node)
        _write_files(node)
        with _processes(node, lock) as processes:
            return asyncio.run(_watch(node, processes, parent))


@contextlib.contextmanager
def _stopping_held() -> Iterator[None]:
    """Let a request to stop wait until somebody listens for it: one that came earlier would leave things half made."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)


@contextlib.contextmanager
def _locked(node: Node) -> Iterator[int]:
    """Hold the folder. The node inherits the lock, so it is free only when every process of the last one is gone."""
    node.folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(node.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_WITHIN
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    holder = Path(node.lock).read_text("utf-8").strip() or "unknown"
                    raise NodeInUseError(f"{node.folder} is in use by the node of process {holder}") from None
                time.sleep(0.05)  # a lock offers nothing to wait on with a deadline
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _port_is_free(node: Node) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((node.host, node.port))
        except OSError as error:
            raise NodeInUseError(f"{node.address} cannot be listened on: {error.strerror}") from error


def _write_files(node: Node) -> None:
    for folder in (node.home, node.log):
        folder.mkdir(parents=True, exist_ok=True)
    if not node.cookie.exists():
        node.cookie.touch(mode=0o600)
        node.cookie.write_text(secrets.token_hex(24), "utf-8")
        node.cookie.chmod(0o400)
    for path, text in node.files().items():
        path.touch(mode=0o600)
        path.write_text(text, "utf-8")


def _die_with_parent() -> None:
    """Prepare a child, between fork and exec: it must die with us, and hear what we do not want to hear yet."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def _processes(node: Node, lock: int) -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """Start epmd and the node in a process group of their own; leave nothing of it behind, however this ends."""
    epmd_port, dist_port = free_port(), free_port()
    environment = node.environment(epmd_port=epmd_port, dist_port=dist_port)

    def spawn(argv: list[str], group: int) -> subprocess.Popen[bytes]:
        with (node.log / "output.log").open("ab") as output:
            return subprocess.Popen(
                argv,
                env=environment,
                cwd=node.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(lock,),
                process_group=group,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - no thread lives here to hold a lock
            )

    # epmd is started here, in the foreground, because one that Erlang starts becomes a daemon nobody owns.
    epmd = spawn(["epmd", "-address", "127.0.0.1", "-port", str(epmd_port)], 0)
    try:
        server = spawn([str(node.scripts / "rabbitmq-server")], epmd.pid)
        try:
            state = {"epmd_port": epmd_port, "epmd": epmd.pid, "server": server.pid, "wrapper": os.getpid()}
            _write_state(node, state)
            yield epmd, server
        finally:
            _stop(server)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(epmd.pid, signal.SIGKILL)
        epmd.wait()
        node.state.unlink(missing_ok=True)


def _write_state(node: Node, state: dict[str, int]) -> None:
    """Show the running node's ports and processes: whole or not at all, for others read it at any time."""
    draft = node.state.with_suffix(".draft")
    draft.write_text(json.dumps(state), "utf-8")
    draft.replace(node.state)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the node in order if it lets us: the VM takes SIGTERM as a request to stop RabbitMQ and then itself."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            server.kill()
    server.wait()


async def _watch(node: Node, processes: tuple[subprocess.Popen[bytes], ...], parent: int | None) -> End:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[End] = loop.create_future()
    settled = asyncio.Event()

    def end(reason: End) -> None:
        if not ended.done():
            ended.set_result(reason)

    for number in _STOPPING:
        loop.add_signal_handler(number, end, End.ASKED)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    with contextlib.ExitStack() as stack:
        for process, reason in [(p.pid, End.DIED) for p in processes] + ([(parent, End.PARENT)] if parent else []):
            try:
                descriptor = os.pidfd_open(process)
            except ProcessLookupError:
                end(reason)
                continue
            stack.callback(os.close, descriptor)
            loop.add_reader(descriptor, end, reason)
            stack.callback(loop.remove_reader, descriptor)
        ready = asyncio.create_task(_become_ready(node))
        ready.add_done_callback(lambda _: settled.set())
        ended.add_done_callback(lambda _: settled.set())
        await settled.wait()
        if ended.done():
            ready.cancel()
            await asyncio.wait({ready})
            if ended.result() is End.DIED:
                raise NodeFailedError(f"the node ended before it was ready\n{_last_words(node)}")
        elif not ready.result():
            raise NodeFailedError(f"the node was not ready within {START_WITHIN:g} s\n{_last_words(node)}")
        else:
            with contextlib.suppress(BrokenPipeError):  # whoever wanted to know may have stopped reading
                sys.stdout.write(f"ready {node.address}\n")
                sys.stdout.flush()
        return await ended


async def _become_ready(node: Node) -> bool:
    deadline = time.monotonic() + START_WITHIN
    while time.monotonic() < deadline:
        if await is_ready(node.url):
            return True
        await asyncio.sleep(0.1)  # a node that starts refuses connections at once; nothing announces its readiness
    return False


def _last_words(node: Node) -> str:
    """Return the last lines of what the node printed and logged, for a person who wants to know why it is dead."""
    lines: list[str] = []
    for name in ("broker.log", "output.log"):
        path = node.log / name
        if path.exists():
            lines += [f"  {name}: {line}" for line in path.read_text("utf-8", "replace").splitlines()[-8:]]
    return "\n".join(lines)

"""The handle by which another program starts, kills, restarts and questions a private node.

Used by tests, benchmarks, the demo and `make up`. The node itself is run by `python -m gateway.embedded`, as
everywhere. Never shares a node with anybody: one handle, one folder.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

import psutil

from gateway.embedded.node import NODE_NAME, Node
from gateway.embedded.ports import free_port


class BrokerNotStartedError(RuntimeError):
    """The node did not become ready; the text carries its exit code and reason."""


class EmbeddedBroker:
    """A private node under `data`, on `port` (a free one if None). The same handle restarts it with its messages."""

    def __init__(self, data: Path, *, port: int | None = None) -> None:
        self.node: Final = Node(folder=data.absolute() / "broker", port=port or free_port())
        self._data: Final = data
        self._wrapper: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """The AMQP URL, with credentials."""
        return self.node.url

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by role (`wrapper`, `server`, `epmd`) of the running node; empty when it is down."""
        try:
            with self.node.lock.open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except FileNotFoundError:
            return {}
        else:
            return {}  # nobody holds the folder: what a killed wrapper left written there is history
        try:
            state = json.loads(self.node.state.read_text("utf-8"))
        except FileNotFoundError:
            return {}  # just starting, or just gone
        return {role: state[role] for role in ("wrapper", "server", "epmd")}

    @property
    def running(self) -> bool:
        """Whether the node was started and has not ended since."""
        return self._wrapper is not None and self._wrapper.poll() is None

    def start(self) -> Self:
        """Start the node and return when it serves; raises BrokerNotStartedError. Takes 3 to 10 s, blocking;
        the node gives up by itself, so this needs no deadline of its own.
        """
        if self._wrapper is not None:
            try:
                self._wrapper.wait(5)  # one that was just killed may need a moment
            except subprocess.TimeoutExpired:
                raise BrokerNotStartedError("it runs already") from None
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAZARETTO_")}
        environment |= {"LAZARETTO_BROKER_URL": self.url, "LAZARETTO_DATA": str(self._data.absolute())}
        self.node.folder.mkdir(parents=True, exist_ok=True)
        errors = self.node.folder / "wrapper.log"
        with errors.open("w", encoding="utf-8") as stderr:
            self._wrapper = subprocess.Popen(
                [sys.executable, "-m", "gateway.embedded", "--parent", str(os.getpid())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,  # Ctrl-C is for the program above, which stops us in its order
            )
        assert self._wrapper.stdout is not None  # noqa: S101 - asked for two lines above
        with self._wrapper.stdout as stdout:
            line = stdout.readline()
        if not line.startswith("ready "):
            code = self._wrapper.wait()
            raise BrokerNotStartedError(f"exit code {code}: {errors.read_text('utf-8')}")
        return self

    def stop(self) -> None:
        """Stop the node in order, as SIGTERM does; does nothing when it is down."""
        if self._wrapper is not None:
            if self._wrapper.poll() is None:
                self._wrapper.terminate()
            self._wrapper.wait()

    def kill(self) -> None:
        """Kill the node as a power failure would, and return when nothing of it is left; `start` brings it back."""
        processes = []
        pids = self.pids
        for pid in pids.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                processes.append(psutil.Process(pid))
        with contextlib.suppress(ProcessLookupError, KeyError):
            os.kill(pids["server"], signal.SIGKILL)
        if self._wrapper is not None:
            self._wrapper.wait()
        psutil.wait_procs(processes, timeout=10)

    def ctl(self, *arguments: str, within: float = 60.0) -> str:
        """Run `rabbitmqctl` against this node and return its output; for instance `ctl("list_queues", "name")`.

        Raises subprocess.CalledProcessError with the output, and TimeoutExpired after `within` seconds. Takes 1 to 3 s.
        """
        port = json.loads(self.node.state.read_text("utf-8"))["epmd_port"]
        done = subprocess.run(
            [str(self.node.scripts / "rabbitmqctl"), "--quiet", "--node", NODE_NAME, *arguments],
            env=self.node.tools_environment(epmd_port=port),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within,
            check=True,
        )
        return done.stdout

    def raise_memory_alarm(self) -> None:
        """Make the node hold back every publisher, as it does when memory runs out."""
        self.ctl("set_vm_memory_high_watermark", "0.0000001")

    def clear_memory_alarm(self) -> None:
        """Let publishers go on."""
        self.ctl("set_vm_memory_high_watermark", "0.4")

    def __enter__(self) -> Self:
        """Start the node."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop the node."""
        self.stop()

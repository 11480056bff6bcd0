"""A RabbitMQ cluster of three nodes on loopback, for tests that kill one of them.

Owns its processes, by their own ids, and its files under one folder. The nodes find each other by their configuration
and share one epmd and one cookie, which nobody else has.
"""

import os
import secrets
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from gateway.embedded import free_port
from gateway.embedded.node import Node
from tests.support.companion import companion
from tests.support.waiting import eventually

START_WITHIN = 150.0
SIZE = 3


class Cluster:
    """Three nodes, `n1@localhost` to `n3@localhost`. Takes 15 to 60 s to start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._epmd_port = free_port()
        self._epmd: subprocess.Popen[bytes] | None = None
        self._home = folder / "home"
        self._nodes = {f"n{n}@localhost": Node(folder=folder / f"n{n}", port=free_port()) for n in range(1, SIZE + 1)}
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        """Start all three together and return when each sees the others."""
        try:
            self._home.mkdir(parents=True)
            cookie = self._home / ".erlang.cookie"
            cookie.write_text(secrets.token_hex(24), "utf-8")
            cookie.chmod(0o400)
            self._epmd = subprocess.Popen(
                companion(["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            for name in self._nodes:
                self._start(name)
            for name in self._nodes:
                eventually(lambda name=name: self._sees_all(name), START_WITHIN, saying=f"{name} sees the others")  # type: ignore[misc]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs: nothing of a test's cluster is worth an orderly end."""
        for name in list(self._servers):
            self.kill(name)
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()

    def urls(self, first: str | None = None) -> str:
        """Return the nodes' URLs, comma separated, with the named one before the others."""
        names = sorted(self._nodes, key=lambda name: (name != first, name))
        return ",".join(self._nodes[name].url for name in names)

    def names(self) -> list[str]:
        """Return the names of the nodes that were not killed."""
        return sorted(self._servers)

    def leader(self, queue: str) -> str:
        """Return the name of the node that leads a quorum queue."""
        rows = self._ctl(self.names()[0], "list_queues", "name", "leader").splitlines()
        return dict(row.split("\t") for row in rows if "\t" in row)[queue]

    def kill(self, name: str) -> None:
        """Kill one node as a power failure would, with what it has started, and reap it."""
        server = self._servers.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()

    def _start(self, name: str) -> None:
        node = self._nodes[name]
        for folder in (node.home, node.log):
            folder.mkdir(parents=True)
        for path, text in node.files().items():
            path.write_text(text, "utf-8")
        others = [f"cluster_formation.classic_config.nodes.{n} = {each}" for n, each in enumerate(self._nodes, 1)]
        formation = ["cluster_formation.peer_discovery_backend = classic_config", *others, ""]
        with (node.folder / "rabbitmq.conf").open("a", encoding="utf-8") as configuration:
            configuration.write("\n".join(formation))
        environment = node.environment(epmd_port=self._epmd_port, dist_port=free_port())
        with (node.log / "output.log").open("ab") as output:
            self._servers[name] = subprocess.Popen(
                companion([str(node.scripts / "rabbitmq-server")]),
                env={**environment, "RABBITMQ_NODENAME": name, "HOME": str(self._home)},
                cwd=node.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _sees_all(self, name: str) -> bool:
        server = self._servers[name]
        if server.poll() is not None:
            output = (self._nodes[name].log / "output.log").read_text("utf-8", "replace")
            raise AssertionError(f"{name} ended with {server.returncode}:\n{output[-2000:]}")
        with suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            self._ctl(name, "await_online_nodes", str(SIZE), "--timeout", "20")
            return True
        return False

    def _ctl(self, name: str, *arguments: str) -> str:
        node = self._nodes[name]
        return subprocess.run(
            [str(node.scripts / "rabbitmqctl"), "--quiet", "--node", name, *arguments],
            env={**node.tools_environment(epmd_port=self._epmd_port), "HOME": str(self._home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

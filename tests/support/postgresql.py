"""A private PostgreSQL server for tests: its own cluster in a temporary folder, on a free port of loopback.

Debian's server refuses to run as root, so a root shell runs it as `postgres`, or as `nobody` where there is no such
user. Its folder is outside of pytest's, which only their owner may enter.
"""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import asyncpg

from gateway.embedded import free_port
from tests.support.companion import companion
from tests.support.waiting import eventually

_VERSIONS = Path("/usr/lib/postgresql")


def binaries() -> Path | None:
    """Return the folder of the newest server that is installed, None where there is none."""
    found = [path.parent for path in _VERSIONS.glob("*/bin/initdb")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


class Postgresql:
    """One server; databases are made on it by `database`. Leaving the context ends it and removes its folder."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="lazaretto-postgresql-"))
        self._port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            user = names.get("postgres") or names["nobody"]
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self.folder, user.pw_uid, user.pw_gid)

    def __enter__(self) -> Self:
        """Make the cluster and start the server."""
        try:
            self._run(
                "initdb", "--no-sync", "--auth=trust", "--username=test", "--encoding=UTF8", "--pgdata", self._data
            )
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the server and remove everything."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        """Start the server and return when it answers."""
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                companion(
                    [
                        str(self._programs / "postgres"),
                        *("-D", self._data, "-h", "127.0.0.1", "-p", str(self._port), "-k", str(self.folder)),
                        *("-c", "fsync=off", "-c", "log_min_messages=fatal"),  # the machine stays up in these tests
                    ],
                    death="QUIT",  # takes its own processes along
                ),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as,
            )
        eventually(self._answers, 30.0, saying="PostgreSQL answers")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT in order, SIGQUIT as a crash would."""
        if self._server is None:
            return
        self._server.send_signal(how)
        self._server.wait(30)
        self._server = None

    def database(self) -> str:
        """Make an empty database and return its URL."""
        name = f"t{uuid4().hex[:12]}"

        async def create() -> None:
            connection = await asyncpg.connect(f"postgresql://test@127.0.0.1:{self._port}/postgres", timeout=20)
            try:
                await connection.execute(f"CREATE DATABASE {name}")
            finally:
                await connection.close()

        asyncio.run(create())
        return f"postgresql+asyncpg://test@127.0.0.1:{self._port}/{name}"

    def execute(self, url: str, statement: str) -> list[Any]:
        """Carry out one statement in a database and return its rows."""

        async def run() -> list[Any]:
            connection = await asyncpg.connect(url.replace("+asyncpg", ""), timeout=20)
            try:
                return list(await connection.fetch(statement))
            finally:
                await connection.close()

        return asyncio.run(run())

    def _answers(self) -> bool:
        if self._server is None or self._server.poll() is not None:
            raise AssertionError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text('utf-8', 'replace')}")
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self._port), "-d", "postgres")
            return True
        return False

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            **self._as,
        )

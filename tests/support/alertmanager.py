"""A private Alertmanager for tests: Debian's own, on a free port of loopback, with its own folder, in no cluster."""

import contextlib
import json
import shutil
import subprocess
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from gateway.embedded import free_port
from tests.support.companion import companion
from tests.support.waiting import eventually

_CONFIGURATION = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"


def program() -> str | None:
    """Return the path of the program, None where it is not installed."""
    return shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


class RealAlertmanager:
    """One server. Leaving the context ends it; in between a test may stop it and start it again, empty."""

    def __init__(self, path: str, folder: Path) -> None:
        self._path = path
        self._folder = folder
        self._port = free_port()
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        (self._folder / "alertmanager.yml").write_text(_CONFIGURATION)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it and return when it answers."""
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                companion(
                    [
                        self._path,
                        f"--config.file={self._folder / 'alertmanager.yml'}",
                        f"--storage.path={self._folder / 'data'}",
                        f"--web.listen-address=127.0.0.1:{self._port}",
                        "--cluster.listen-address=",
                    ]
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        eventually(self._answers, 30.0, saying="Alertmanager answers")

    def stop(self) -> None:
        """Kill it: it keeps no alerts over its end, however it ends."""
        if self._server is not None:
            self._server.kill()
            self._server.wait(30)
            self._server = None

    def firing(self) -> dict[str, dict[str, Any]]:
        """Return the alerts that last, by their `dedup_key`."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=20) as answer:
            return {alert["labels"]["dedup_key"]: alert for alert in json.load(answer)}

    def _answers(self) -> bool:
        if self._server is None or self._server.poll() is not None:
            raise AssertionError(f"Alertmanager did not start:\n{(self._folder / 'log').read_text('utf-8', 'replace')}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
        return False


def moment(alert: dict[str, Any], name: str) -> float:
    """Return `startsAt`, `endsAt` or `updatedAt` of an alert in Unix seconds."""
    return datetime.fromisoformat(alert[name]).timestamp()

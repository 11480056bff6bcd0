"""A real S3 server for the tests: moto's, as a process of its own, with one bucket in it."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Self

from gateway.embedded import free_port
from tests.support.companion import companion
from tests.support.waiting import PATIENCE, eventually

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
"""What programs under test have in their environment; moto takes any."""
BUCKET = "tickets"


class ObjectStore:
    """Started when it is entered, ended when it is left; what it holds is in its memory."""

    def __init__(self, log_path: Path) -> None:
        self.port = free_port()
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None

    def depot(self, prefix: str, port: int | None = None) -> str:
        """Return the setting for a depot under `prefix`, by way of another port if one is named."""
        endpoint = f"http://127.0.0.1:{port or self.port}"
        return f"s3://{BUCKET}/{prefix}?endpoint={endpoint}&region=us-east-1&allow_http=true"

    def __enter__(self) -> Self:
        """Start it and make the bucket."""
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                companion([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]),
                env={**os.environ, "PYTHONWARNINGS": "ignore"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually(self._has_bucket, 60.0, saying="the S3 server answers")
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(20)

    def _has_bucket(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log_path.read_text("utf-8", "replace")[-2000:]
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{BUCKET}", method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

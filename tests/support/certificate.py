"""Certificates for tests of TLS, made by the command `openssl`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def certify(folder: Path, name: str) -> None:
    """Put a new certificate for loopback (`chain.pem`) and its key (`key.pem`) into `folder`."""
    if shutil.which("openssl") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("the command `openssl` makes the certificates")
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
            ),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "chain.pem")),
            *("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )

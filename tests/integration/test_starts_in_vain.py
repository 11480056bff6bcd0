"""A start that cannot succeed ends with one clear line, at the door and at the station."""

import socket
from pathlib import Path

import pytest

from gateway.embedded import EmbeddedBroker
from tests.support.program import Program, Programs

ENDPOINT = "s3://bucket/prefix?region=eu&endpoint=https://127.0.0.1:9"
UNTRUSTED = "s3://bucket/prefix: this machine trusts no certificate authority: install ca-certificates"
PROGRAMS = (
    ("gateway",),
    ("gateway", "--check"),
    ("gateway", "--workers", "2"),
    ("gateway.station", "serve"),
    ("gateway.station", "serve", "--check"),
)


def _start(
    programs: Programs,
    broker: EmbeddedBroker,
    folder: Path,
    prefix: str,
    *module: str,
    place: str,
    desk: str = "127.0.0.1:0",
) -> Program:
    empty = folder / "no-certificates.pem"
    empty.touch()
    env = {
        "LAZARETTO_ATTACHMENTS": place,
        "LAZARETTO_BROKER_URL": broker.url,
        "LAZARETTO_DATA": str(folder / "data"),
        "LAZARETTO_DOOR": "127.0.0.1:0",
        "LAZARETTO_DESK": desk,
        "LAZARETTO_PREFIX": prefix,
        "SSL_CERT_FILE": str(empty),
        "SSL_CERT_DIR": str(folder),
    }
    return programs.python("program", "-m", *module, env=env)


@pytest.mark.parametrize("module", PROGRAMS, ids=" ".join)
def test_a_machine_without_certificates_is_told_what_to_install(
    programs: Programs, broker: EmbeddedBroker, tmp_path: Path, prefix: str, module: tuple[str, ...]
) -> None:
    program = _start(programs, broker, tmp_path, prefix, *module, place=ENDPOINT)

    assert program.wait() == 2
    assert f"LAZARETTO_ATTACHMENTS: {UNTRUSTED}" in program.log
    assert "Traceback" not in program.log


def test_a_url_that_lacks_something_is_told_what(
    programs: Programs, broker: EmbeddedBroker, tmp_path: Path, prefix: str
) -> None:
    program = _start(programs, broker, tmp_path, prefix, "gateway", place="az://container/prefix")

    assert program.wait() == 2
    assert "LAZARETTO_ATTACHMENTS: az://container/prefix: " in program.log
    assert "Account must be specified" in program.log


def test_a_desk_whose_address_is_taken_says_so_and_no_more(
    programs: Programs, broker: EmbeddedBroker, tmp_path: Path, prefix: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        desk = f"127.0.0.1:{taken.getsockname()[1]}"
        program = _start(programs, broker, tmp_path, prefix, "gateway.station", "serve", place="", desk=desk)
        assert program.wait() == 2

    assert "cannot use the store or the address" in program.log
    assert "Traceback" not in program.log

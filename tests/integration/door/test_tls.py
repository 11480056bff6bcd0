"""HTTPS by settings: the certificate is served, renewed while the door is open, and never half changed (G10)."""

import asyncio
import signal
import ssl
from pathlib import Path

import aiohttp

from gateway.embedded import EmbeddedBroker
from tests.integration.door.running import QUICK
from tests.support.certificate import certify
from tests.support.program import Program, Programs
from tests.support.waiting import soon


def _start(programs: Programs, broker: EmbeddedBroker, folder: Path, prefix: str) -> Program:
    return programs.python(
        "door",
        "-m",
        "gateway",
        env={
            **QUICK,
            "LAZARETTO_BROKER_URL": broker.url,
            "LAZARETTO_PREFIX": prefix,
            "LAZARETTO_DATA": str(folder / "data"),
            "LAZARETTO_DOOR": "127.0.0.1:0",
            "LAZARETTO_TLS_CERTIFICATE": str(folder / "chain.pem"),
            "LAZARETTO_TLS_KEY": str(folder / "key.pem"),
        },
    )


async def _served(url: str) -> str:
    """Return the certificate that a new connection is served with."""
    host, _, port = url.removeprefix("https://").rpartition(":")
    return await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))


async def test_the_door_speaks_https_and_insists_on_it(
    programs: Programs, broker: EmbeddedBroker, tmp_path: Path, prefix: str
) -> None:
    certify(tmp_path, "first")
    door = _start(programs, broker, tmp_path, prefix)
    url = (await asyncio.to_thread(door.wait_for_log, r"^door: (https://\S+)$"))[1]
    trusting = ssl.create_default_context(cafile=str(tmp_path / "chain.pem"))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as client:
        for path, status in (("/healthz", 200), ("/nowhere", 404)):
            async with client.get(f"{url}{path}") as answer:
                assert answer.status == status
                assert answer.headers["Strict-Transport-Security"].startswith("max-age=")
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_renewed_certificate_is_served_without_a_restart_and_a_wrong_one_is_not(
    programs: Programs, broker: EmbeddedBroker, tmp_path: Path, prefix: str
) -> None:
    certify(tmp_path, "first")
    door = _start(programs, broker, tmp_path, prefix)
    url = (await asyncio.to_thread(door.wait_for_log, r"^door: (https://\S+)$"))[1]
    first = await _served(url)

    (tmp_path / "key.pem").write_text("no key")
    await soon(lambda: "reload_refused" in door.log)
    assert await _served(url) == first

    certify(tmp_path, "second")
    door.signal(signal.SIGHUP)
    await soon(lambda: _is_served(url, (tmp_path / "chain.pem").read_text()))


async def _is_served(url: str, certificate: str) -> bool:
    return (await _served(url)).split() == certificate.split()


def test_a_certificate_that_cannot_be_used_keeps_the_door_shut(
    programs: Programs, broker: EmbeddedBroker, tmp_path: Path, prefix: str
) -> None:
    certify(tmp_path, "first")
    (tmp_path / "chain.pem").write_text("no certificate")

    door = _start(programs, broker, tmp_path, prefix)

    assert door.wait() == 2
    assert "certificate" in door.log

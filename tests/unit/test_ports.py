"""Ports for programs that listen later: nobody else gets one meanwhile."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.embedded import free_port, ports

MANY = 40
ASK_AND_STAY = f"""
import sys
from gateway.embedded import free_port
print(*(free_port() for _ in range({MANY})), flush=True)
sys.stdin.read()
"""


def test_programs_that_ask_at_the_same_time_are_told_different_ports() -> None:
    asked = [
        subprocess.Popen([sys.executable, "-c", ASK_AND_STAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    told = [free_port() for _ in range(MANY)]
    for program in asked:
        assert program.stdout is not None
        told += map(int, program.stdout.readline().split())
    for program in asked:
        program.communicate("")
    assert len(told) == 4 * MANY
    assert len(set(told)) == len(told)


def test_port_is_none_that_the_kernel_gives_out_by_itself() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split())
    assert not [port for port in (free_port() for _ in range(MANY)) if first <= port <= last]


def test_port_on_which_somebody_listens_is_not_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        own = tmp_path / "range"
        own.write_text(f"{port + 1}\t65535\n", "ascii")
        monkeypatch.setattr(ports, "_RANGE_FILE", own)
        monkeypatch.setattr(ports, "_LOWEST", port)
        assert free_port() != port  # the only one that was left to choose


def test_where_the_kernel_gives_out_all_ports_one_of_these_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everything = tmp_path / "range"
    everything.write_text("1024\t65535\n", "ascii")
    monkeypatch.setattr(ports, "_RANGE_FILE", everything)
    with socket.create_server(("127.0.0.1", free_port())):
        pass

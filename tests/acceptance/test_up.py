"""What `make up` runs: it greets with a command that works, and nothing of it survives its end, asked for or not."""

import json
import os
import re
import shlex
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from gateway.embedded import free_port
from tests.support.program import Program, Programs
from tests.support.waiting import eventually

pytestmark = [pytest.mark.usefixtures("broker"), pytest.mark.timeout(240)]


@pytest.fixture
def up(programs: Programs, tmp_path: Path) -> Program:
    """Everything that `make up` starts, on free ports, greeting already."""
    env = {
        "LAZARETTO_DATA": str(tmp_path / "data"),
        "LAZARETTO_DOOR": f"127.0.0.1:{free_port()}",
        "LAZARETTO_DESK": f"127.0.0.1:{free_port()}",
        "LAZARETTO_QUEUE_SETTLE": "0s",
    }
    program = programs.python("up", "-m", "scripts.up", "--broker-port", str(free_port()), env=env)
    program.wait_for_log("^Lazaretto is up", 90)
    return program


def _as_curl_would(log: str) -> urllib.request.Request:
    """Turn the printed `curl` into a request: the reader of the greeting will paste it as it stands."""
    command = re.search(r"^ *curl (?:.*\\\n)*.*$", log, re.MULTILINE)
    assert command is not None
    words = shlex.split(command[0])
    assert words[:2] == ["curl", "-i"]
    name, _, value = words[words.index("-H") + 1].partition(": ")
    return urllib.request.Request(words[2], words[words.index("-d") + 1].encode(), {name: value})


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_the_printed_command_brings_a_ticket_to_done(up: Program) -> None:
    request = _as_curl_would(up.log)
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 202
        location = answer.headers["Location"]

    def state() -> str:
        with urllib.request.urlopen(f"http://{request.host}{location}", timeout=20) as status:
            return str(json.load(status)["state"])

    eventually(lambda: state() == "done", 30)


def test_ctrl_c_ends_everything_and_leaves_no_process_and_no_port(up: Program) -> None:
    addresses = set(re.findall(r"127\.0\.0\.1:\d+", up.log))
    assert len(addresses) >= 3
    up.signal(signal.SIGINT)
    assert up.wait(60) == 0
    eventually(lambda: not up.family())
    assert [address for address in addresses if _listens(address)] == []


def test_a_killed_up_takes_its_programs_and_its_broker_with_it(up: Program) -> None:
    broker = re.search(r"RabbitMQ node at (\S+)", up.log)
    assert broker is not None
    up.kill9()
    eventually(lambda: not up.family(), 40)
    eventually(lambda: not _listens(broker[1]))


def test_a_broker_that_dies_ends_the_rest(up: Program, tmp_path: Path) -> None:
    pids = json.loads((tmp_path / "data/broker/node.json").read_text("utf-8"))
    os.kill(pids["server"], signal.SIGKILL)
    assert up.wait(90) != 0
    eventually(lambda: not up.family())

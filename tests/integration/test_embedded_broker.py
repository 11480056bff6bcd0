"""The private node: ready means ready, its messages outlive it, and nothing of it outlives its parent."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import aio_pika
import psutil
import pytest

from gateway.embedded import BrokerNotStartedError, EmbeddedBroker, free_port
from gateway.embedded.probe import is_ready
from tests.support.processes import is_gone
from tests.support.program import Programs
from tests.support.waiting import PATIENCE, eventually

SETTLE = 4.0
"""Seconds until confirms of a new queue survive a killed broker: a property of RabbitMQ that nothing announces."""


def _processes_of(broker: EmbeddedBroker) -> list[psutil.Process]:
    """Return the wrapper, the VM, epmd and everything that descends from them."""
    roots = [psutil.Process(pid) for pid in broker.pids.values()]
    return list({child for root in roots for child in [root, *root.children(recursive=True)]})


def _gone(processes: list[psutil.Process]) -> bool:
    return all(is_gone(process) for process in processes)


async def _publish(url: str, queue: str, count: int, *, settle: float = 0.0) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
        await asyncio.sleep(settle)
        for number in range(count):
            message = aio_pika.Message(b"%d" % number, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, queue)


async def _bodies(url: str, queue: str, count: int) -> list[bytes]:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        declared = await channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
        async with asyncio.timeout(20), declared.iterator(no_ack=True) as messages:
            return [(await anext(messages)).body for _ in range(count)]


async def test_a_started_node_shakes_hands_and_holds_a_quorum_queue(broker: EmbeddedBroker) -> None:
    assert await is_ready(broker.url)


async def test_a_port_where_nobody_listens_is_not_ready() -> None:
    assert not await is_ready(f"amqp://guest:guest@127.0.0.1:{free_port()}/", within=1.0)


def test_the_node_listens_on_loopback_only(broker: EmbeddedBroker) -> None:
    listening = [
        connection.laddr.ip
        for process in _processes_of(broker)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 3
    assert set(listening) <= {"127.0.0.1", "::1"}


def test_the_node_and_its_helpers_are_in_a_process_group_of_their_own(broker: EmbeddedBroker) -> None:
    pids = broker.pids
    assert os.getpgid(pids["server"]) == os.getpgid(pids["epmd"])
    assert os.getpgid(pids["server"]) not in {os.getpgid(pids["wrapper"]), os.getpgid(0)}


def test_the_tools_reach_this_node(broker: EmbeddedBroker) -> None:
    assert "lazaretto@localhost" in broker.ctl("eval", "node().")


def test_a_stopped_node_leaves_no_process_and_no_port(own_broker: EmbeddedBroker) -> None:
    processes = _processes_of(own_broker)
    own_broker.stop()
    assert _gone(processes)
    assert own_broker.pids == {}
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((own_broker.node.host, own_broker.node.port))


async def test_messages_survive_a_killed_node(own_broker: EmbeddedBroker) -> None:
    await _publish(own_broker.url, "kept", 20, settle=SETTLE)
    processes = _processes_of(own_broker)
    own_broker.kill()
    assert _gone(processes)
    own_broker.start()
    assert await _bodies(own_broker.url, "kept", 20) == [b"%d" % number for number in range(20)]


async def test_messages_survive_a_stopped_node(own_broker: EmbeddedBroker) -> None:
    await _publish(own_broker.url, "kept", 3)
    own_broker.stop()
    own_broker.start()
    assert await _bodies(own_broker.url, "kept", 3) == [b"0", b"1", b"2"]


async def test_a_memory_alarm_set_by_a_test_holds_publishes_until_it_is_cleared(own_broker: EmbeddedBroker) -> None:
    await _publish(own_broker.url, "alarmed", 1)
    own_broker.raise_memory_alarm()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await _publish(own_broker.url, "alarmed", 1)
    own_broker.clear_memory_alarm()
    async with asyncio.timeout(PATIENCE):
        await _publish(own_broker.url, "alarmed", 1)


def test_killing_the_wrapper_kills_the_node_with_all_its_helpers(own_broker: EmbeddedBroker) -> None:
    processes = _processes_of(own_broker)
    assert len(processes) >= 4, "expected wrapper, VM, epmd and the VM's helpers"
    os.kill(own_broker.pids["wrapper"], signal.SIGKILL)
    eventually(lambda: _gone(processes))


def test_killing_the_parent_stops_the_node(tmp_path: Path, programs: Programs) -> None:
    port = free_port()
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom gateway.embedded import EmbeddedBroker\n"
        "broker = EmbeddedBroker(Path(sys.argv[1]), port=int(sys.argv[2])).start()\n"
        "print('serving', flush=True)\ntime.sleep(600)\n"
    )
    parent = programs.python("parent", "-c", script, str(tmp_path / "data"), str(port))
    parent.wait_for_log("^serving$", 60)
    processes = _processes_of(EmbeddedBroker(tmp_path / "data", port=port))
    parent.kill9()
    eventually(lambda: _gone(processes))


def test_a_node_starts_again_at_once_after_its_wrapper_was_killed(own_broker: EmbeddedBroker) -> None:
    os.kill(own_broker.pids["wrapper"], signal.SIGKILL)
    own_broker.start()
    assert own_broker.running


def test_a_running_handle_does_not_start_a_second_node(broker: EmbeddedBroker) -> None:
    with pytest.raises(BrokerNotStartedError, match="runs already"):
        broker.start()
    assert broker.running


def test_a_folder_in_use_is_refused_with_its_holder(own_broker: EmbeddedBroker) -> None:
    second = EmbeddedBroker(own_broker.node.folder.parent)
    with pytest.raises(BrokerNotStartedError, match=rf"exit code 2: .*in use by .* {own_broker.pids['wrapper']}\b"):
        second.start()
    assert own_broker.running


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(BrokerNotStartedError, match=rf"exit code 2: .*127\.0\.0\.1:{port} cannot be listened on"):
            EmbeddedBroker(tmp_path, port=port).start()


def test_sigterm_during_the_start_ends_it_cleanly(tmp_path: Path, programs: Programs) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{free_port()}/"
    env = {"LAZARETTO_BROKER_URL": url, "LAZARETTO_DATA": str(tmp_path / "data")}
    starting = programs.python("embedded", "-m", "gateway.embedded", env=env)
    state = tmp_path / "data/broker/node.json"
    eventually(state.exists)
    assert starting.terminate(20) == 0
    assert not state.exists()


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("amqp://guest:guest@10.0.0.1:5673/", "loopback only"),
        ("amqps://guest:guest@127.0.0.1:5673/", "plain amqp"),
        ("amqp://127.0.0.1:5673/,amqp://127.0.0.1:5674/", "single one"),
        ("amqp://guest:guest@127.0.0.1:70000/", "BROKER_URL"),
    ],
)
def test_an_address_that_no_private_node_can_have_is_a_settings_error(url: str, complaint: str, tmp_path: Path) -> None:
    env = {**os.environ, "LAZARETTO_BROKER_URL": url, "LAZARETTO_DATA": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "gateway.embedded"], env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert complaint in done.stderr


def test_an_unknown_setting_is_an_error(tmp_path: Path) -> None:
    env = {**os.environ, "LAZARETTO_BROKER_ULR": "amqp://127.0.0.1/", "LAZARETTO_DATA": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "gateway.embedded"], env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert "LAZARETTO_BROKER_ULR" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else; everybody else is the test already")
def test_an_unprivileged_user_can_run_a_node(programs: Programs) -> None:
    nobody = 65534
    # Imports happen before the change of user: the interpreter may lie in a home that nobody else can read.
    script = (
        "import os, sys\nimport gateway.embedded.__main__ as command\n"
        f"os.setgroups([])\nos.setgid({nobody})\nos.setuid({nobody})\nsys.exit(command.main([]))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, nobody, nobody)
        env = {"LAZARETTO_BROKER_URL": f"amqp://guest:guest@127.0.0.1:{free_port()}/", "LAZARETTO_DATA": folder}
        node = programs.python("embedded", "-c", script, env=env)
        node.wait_for_log("^ready ", 60)
        users = {psutil.Process(pid).uids().real for pid in (node.pid, *_pids(Path(folder)))}
        assert node.terminate() == 0
    assert users == {nobody}


def _pids(data: Path) -> list[int]:
    return list(EmbeddedBroker(data, port=1).pids.values())

"""How a node starts, refuses to start, checks itself and ends: exit codes and words (interfaces, Commands)."""

import re
from pathlib import Path

import pytest

from gateway.contract.topology import Topology
from gateway.embedded import EmbeddedBroker, free_port
from tests.support.house import House, call
from tests.support.plain import on_channel
from tests.support.program import Program, Programs
from tests.support.waiting import eventually

INLINE = "tests.support.handlers:handle_inline"


@pytest.fixture
def house(broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path) -> House:
    return House(programs, broker.url, prefix, tmp_path)


def ended(program: Program) -> tuple[int, str]:
    return program.wait(30.0), program.log


def consumer(house: House, *arguments: str, **env: str) -> tuple[int, str]:
    return ended(house.programs.python("consumer", "-m", "consumer", *arguments, env={**house.env, **env}))


def test_all_mistakes_in_settings_are_told_at_once_before_anything_starts(house: House) -> None:
    code, said = consumer(house, LAZARETTO_MAX_ATTEMPTS="0", LAZARETTO_RUN_DEADLINE="soon", LAZARETTO_TYPO="1")
    assert code == 2
    for part in ("LAZARETTO_MAX_ATTEMPTS", "LAZARETTO_RUN_DEADLINE", "30s", "LAZARETTO_TYPO", "--handler"):
        assert part in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("--lane", "suspects", "--workers", "2"), "one item at a time"),
        (("--lane", "suspects", "--isolation", "inline"), "needs worker processes"),
    ],
)
def test_isolation_lane_refuses_what_would_not_isolate(house: House, arguments: tuple[str, ...], advice: str) -> None:
    code, said = consumer(house, "--handler", INLINE, *arguments)
    assert (code, advice in said) == (2, True)


def test_run_that_may_outlast_the_brokers_patience_is_refused_for_all_kinds_and_for_each(
    house: House, tmp_path: Path
) -> None:
    for_all = consumer(house, "--handler", INLINE, LAZARETTO_RUN_DEADLINE="29m")
    path = tmp_path / "kinds.toml"
    path.write_text('[kinds."slow.report"]\nrun_deadline = "2h"\n')
    for_one = consumer(house, "--handler", INLINE, LAZARETTO_CONFIG=str(path))
    for (code, said), deadline in ((for_all, "1740 s"), (for_one, "7200 s")):
        assert code == 2
        assert f"a run deadline of {deadline} is too near to the broker's acknowledgement timeout of 1800 s" in said


def test_handler_that_cannot_be_loaded_is_a_clear_start_failure(house: House) -> None:
    code, said = consumer(house, "--handler", "tests.support.handlers:no_such_function")
    assert code == 2
    assert "no_such_function" in said


def test_loop_that_is_not_installed_is_a_mistake_in_the_settings(house: House) -> None:
    hidden = "import sys; sys.modules['uvloop'] = None; from consumer.__main__ import main; sys.exit(main())"
    env = {**house.env, "LAZARETTO_HANDLER": INLINE, "LAZARETTO_EVENT_LOOP": "uvloop"}
    code, said = ended(house.programs.python("consumer", "-c", hidden, env=env))
    assert code == 2
    assert "LAZARETTO_EVENT_LOOP" in said


def test_absent_broker_is_exit_code_3_with_the_address(house: House) -> None:
    port = free_port()
    code, said = consumer(house, "--handler", INLINE, LAZARETTO_BROKER_URL=f"amqp://guest:secret@127.0.0.1:{port}/")
    assert code == 3
    assert str(port) in said
    assert "secret" not in said


def test_queue_that_somebody_declared_otherwise_is_exit_code_4_naming_queue_and_argument(house: House) -> None:
    queue = f"{house.prefix}.work"
    arguments = {
        name: value
        for wanted in Topology(prefix=house.prefix).queues()
        if wanted.name == queue
        for name, value in wanted.arguments.items()
        if name != "x-delivery-limit"
    }
    on_channel(house.broker_url, lambda channel: channel.declare_queue(queue, durable=True, arguments=dict(arguments)))
    code, said = consumer(house, "--handler", INLINE)
    assert code == 4
    assert queue in said
    assert "x-delivery-limit" in said


def test_check_reports_settings_broker_topology_and_handler_and_runs_nothing(house: House) -> None:
    code, said = consumer(house, "--handler", INLINE, "--check")
    assert code == 0
    for part in ("max_attempts = 3", "RabbitMQ 3.10", f"{house.prefix}.work", "build", "fence: on"):
        assert part in said
    assert "guest:guest" not in said


def test_help_lists_every_setting_with_its_default(house: House) -> None:
    code, said = consumer(house, "--help")
    assert code == 0
    for name in ("LAZARETTO_MEMORY_LIMIT", "LAZARETTO_OUTAGE_WINDOW", "LAZARETTO_FENCE"):
        assert name in said


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_inline_handlers_pass_the_same_road_on_either_event_loop(house: House, loop: str) -> None:
    house.door(), house.station()
    node = house.programs.python(
        "inline",
        *("-m", "consumer", "--handler", INLINE, "--isolation", "inline", "--workers", "4"),
        env={**house.env, "LAZARETTO_EVENT_LOOP": loop},
    )
    node.wait_for_log("consumer.consuming")
    good = [house.accepted("good", f"good-{n}") for n in range(10)]
    ends = house.balance([*good, house.accepted("fail", "fails"), house.accepted("reject", "rejected")])
    assert ends == {"done": 10, "quarantined": 2}
    assert house.runs("fails") == ["failed"] * 3
    assert house.runs("rejected") == ["rejected"]
    assert node.terminate() == 0
    assert {name: "ticket=" + name in node.log for name in ("good-0", "fails", "rejected")} == {
        "good-0": False,  # what is ordinary has no line of its own
        "fails": True,
        "rejected": True,
    }
    summed_up = re.findall(r"runs\.ended .*succeeded=(\d+)", node.log)
    assert sum(map(int, summed_up)) == 10


def test_node_tells_health_readiness_and_metrics_at_its_own_address(house: House) -> None:
    house.door(), house.station()
    node = house.node()
    base = node.wait_for_log(r"health=(http://\S+)/healthz")[1]
    house.warm_up()
    assert call("GET", f"{base}/healthz").status == 200
    assert call("GET", f"{base}/readyz").body["ready"] is True
    text = eventually(lambda: call("GET", f"{base}/metrics").body["text"])
    assert 'lazaretto_runs_finished_total{kind="other",outcome="succeeded"} 1.0' in text
    assert node.terminate() == 0


def test_broker_alone_can_end_a_node_by_no_means_but_its_operator_can(house: House) -> None:
    node = house.node()
    on_channel(house.broker_url, lambda channel: channel.queue_delete(f"{house.prefix}.work"))
    node.wait_for_log("consumer.consuming", count=2)
    assert node.exit_code is None
    assert node.terminate() == 0

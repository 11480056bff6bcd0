"""What nodes tell of themselves reaches the desk: what they have, that they are gone, that they have ended."""

from pathlib import Path
from typing import Any

import pytest

from gateway.embedded import EmbeddedBroker
from tests.support.house import House, call
from tests.support.program import Programs
from tests.support.waiting import eventually


@pytest.fixture
def house(broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path) -> House:
    return House(programs, broker.url, prefix, tmp_path, extra={"LAZARETTO_REPORT_EVERY": "1s"})


def test_the_desk_shows_what_nodes_have_which_are_silent_and_which_have_ended(house: House) -> None:
    house.door(), house.station()
    killed = house.node(LAZARETTO_NODE_NAME="killed")
    house.node(LAZARETTO_NODE_NAME="stays", LAZARETTO_RECYCLE_RUNS="2")
    leaves = house.node("suspects", LAZARETTO_NODE_NAME="leaves")
    inline = house.programs.python(
        *("inline", "-m", "consumer", "--isolation", "inline", "--handler", "tests.support.handlers:handle_inline"),
        env={**house.env, "LAZARETTO_NODE_NAME": "inline"},
    )
    inline.wait_for_log("consumer.consuming")

    def told() -> dict[str, dict[str, Any]]:
        found = call("GET", f"http://127.0.0.1:{house.desk_port}/v1/fleet").body
        return {node["node"]: node for node in found["nodes"]}

    def node(name: str) -> dict[str, Any]:
        return told().get(name, {})

    eventually(lambda: set(told()) == {"killed", "stays", "leaves", "inline"}, 30.0)
    eventually(lambda: len(node("stays")["workers"]) == 2, 30.0)
    stays = node("stays")
    assert (stays["presence"], stays["state"], stays["lane"], stays["slots"]) == ("present", "ready", "work", 2)
    assert stays["mold_bytes"] > 1 << 20
    assert stays["worker_bytes"] >= stays["largest_worker_bytes"] > 1 << 20
    assert stays["build"]
    eventually(lambda: node("stays")["waiting"] == 0, 30.0)
    assert node("inline")["workers"][0]["resident"] > 1 << 20

    assert leaves.terminate() == 0
    killed.kill9()
    inline.kill9()
    eventually(lambda: node("leaves")["presence"] == "ended", 30.0)
    eventually(lambda: node("killed")["presence"] == "silent", 30.0)
    tickets = [house.accepted("good", f"t-{number}") for number in range(8)]
    for ticket in tickets:
        house.until(ticket, "done")
    eventually(lambda: node("stays")["recycled"] >= 1, 30.0)
    assert node("stays")["presence"] == "present"
    page = call("GET", f"http://127.0.0.1:{house.desk_port}/fleet").body["text"]
    assert page.index("killed") < page.index("stays") < page.index("leaves")
    shown = house.command("fleet")
    assert "killed  work  silent" in shown.stdout

"""Each row of the protocol's table of outcomes, from the door or the broker to the station, by its name.

A row says: how often it is charged, in which lanes its runs were, and how the ticket ends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.contract.outcomes import Outcome
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.house import House
from tests.support.plain import publish
from tests.support.program import Program, Programs
from tests.support.waiting import eventually


@dataclass
class Fleet:
    """The standing house, and its node of the work lane, which tests may replace."""

    house: House
    work: Program

    def replace(self) -> None:
        """Start another node of the work lane, after the present one has ended."""
        self.work = self.house.node(workers=2)


@pytest.fixture(scope="module")
def fleet(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("outcomes")
    programs = Programs(folder)
    limits = {
        "LAZARETTO_RUN_DEADLINE": "2s",
        "LAZARETTO_MAX_SPEND_TOKENS": "1000",
        "LAZARETTO_MAX_WAIT": "2s",
        "LAZARETTO_DRAIN_GRACE": "1s",
    }
    house = House(programs, broker.url, f"t{uuid4().hex[:10]}", folder, extra=limits)
    try:
        _, _, work, _ = house.open(workers=2)
        yield Fleet(house, work)
    finally:
        programs.close()


@dataclass(frozen=True)
class Row:
    """What the table promises of an outcome."""

    outcomes: list[Outcome]
    lanes: list[Lane]
    state: str
    reason: str | None = None


def sent(kind: str) -> Callable[[Fleet, str], None]:
    return lambda fleet, ticket: (fleet.house.accepted(kind, ticket), None)[1]


def stranger(body: bytes, **headers: object) -> Callable[[Fleet, str], None]:
    def put(fleet: Fleet, ticket: str) -> None:
        wire = Wire(body=body, headers=headers, correlation_id=ticket, type="good", content_type="text/plain")
        route = Topology(prefix=fleet.house.prefix, delay_unit=0.05).to_lane(Lane.WORK)
        publish(fleet.house.broker_url, route, wire)

    return put


def while_it_runs(accident: Callable[[Fleet], None]) -> Callable[[Fleet, str], None]:
    def happen(fleet: Fleet, ticket: str) -> None:
        fleet.house.accepted(f"wait.{ticket}", ticket)
        eventually(lambda: fleet.house.starts(ticket))
        accident(fleet)
        fleet.house.open_gate(f"wait.{ticket}")

    return happen


def kill_node(fleet: Fleet) -> None:
    fleet.house.kill_family(fleet.work)
    fleet.replace()


def drain(fleet: Fleet) -> None:
    fleet.work.terminate()
    fleet.replace()


WORK, SUSPECTS = Lane.WORK, Lane.SUSPECTS
QUARANTINED = "quarantined"

TABLE = {
    Outcome.SUCCEEDED: (sent("good"), Row([Outcome.SUCCEEDED], [WORK], "done")),
    Outcome.FAILED: (sent("fail"), Row([Outcome.FAILED] * 3, [WORK] * 3, QUARANTINED, "attempts_exhausted")),
    Outcome.REJECTED: (sent("reject"), Row([Outcome.REJECTED], [WORK], QUARANTINED, "rejected")),
    Outcome.CRASHED: (
        sent("killer"),
        Row([Outcome.CRASHED] * 3, [WORK, SUSPECTS, SUSPECTS], QUARANTINED, "crashes_exhausted"),
    ),
    Outcome.MEMORY: (
        sent("hog"),
        Row([Outcome.MEMORY] * 3, [WORK, SUSPECTS, SUSPECTS], QUARANTINED, "crashes_exhausted"),
    ),
    Outcome.TIMED_OUT: (
        sent("hang"),
        Row([Outcome.TIMED_OUT] * 3, [WORK, WORK, SUSPECTS], QUARANTINED, "attempts_exhausted"),
    ),
    Outcome.OVERSPENT: (
        sent("spender"),
        Row([Outcome.FAILED, Outcome.OVERSPENT], [WORK, WORK], QUARANTINED, "overspent"),
    ),
    Outcome.LOST: (
        while_it_runs(kill_node),
        Row([Outcome.LOST, Outcome.SUCCEEDED], [WORK, SUSPECTS], "done"),
    ),
    Outcome.RELEASED: (
        while_it_runs(drain),
        Row([Outcome.RELEASED, Outcome.SUCCEEDED], [WORK, WORK], "done"),
    ),
    Outcome.INADMISSIBLE: (
        stranger(b"\x00\x01\x02binary\xff" * 9),
        Row([Outcome.INADMISSIBLE], [WORK], QUARANTINED, "inadmissible"),
    ),
    Outcome.MALFORMED: (stranger(b"x", **{"lz-schema": 9}), Row([], [], QUARANTINED, "malformed")),
}


@pytest.mark.parametrize("outcome", TABLE)
def test_outcome_is_charged_and_answered_as_the_table_says(fleet: Fleet, outcome: Outcome) -> None:
    happen, row = TABLE[outcome]
    ticket = f"is-{outcome.replace('_', '-')}"
    happen(fleet, ticket)
    name = eventually(lambda: _adopted(fleet.house, ticket), 30.0) if outcome is Outcome.INADMISSIBLE else ticket
    fleet.house.until(name, row.state, 60.0)
    # The journal may come after the item itself, whose own history knows no lanes.
    eventually(lambda: all(run["lane"] for run in fleet.house.show(name)["runs"]))
    found = fleet.house.show(name)
    assert [run["outcome"] for run in found["runs"]] == [str(one) for one in row.outcomes]
    assert [run["lane"] for run in found["runs"]] == [str(lane) for lane in row.lanes]
    assert (fleet.house.reason(name) if row.state == QUARANTINED else None) == row.reason


def test_outcome_dependency_waits_uncharged_and_is_quarantined_by_age(fleet: Fleet) -> None:
    fleet.house.accepted("down", "is-dependency")
    fleet.house.until("is-dependency", QUARANTINED, 60.0)
    found = fleet.house.show("is-dependency")
    assert {run["outcome"] for run in found["runs"]} == {"dependency"}
    assert {run["attempt"] for run in found["runs"]} == {1}
    assert fleet.house.reason("is-dependency") == "dependency"


def test_outcome_outage_charges_nobody(
    own_broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path
) -> None:
    house = House(programs, own_broker.url, prefix, tmp_path, extra={"LAZARETTO_QUEUE_SETTLE": "4s"})
    house.open(workers=1)
    held = house.accepted("wait", "is-outage")
    eventually(lambda: house.starts(held))
    own_broker.kill()
    own_broker.start()
    house.open_gate("wait")
    house.until(held, "done", 60.0)
    runs = house.show(held)["runs"]
    assert [(run["outcome"], run["attempt"]) for run in runs] == [("outage", 1), ("succeeded", 1)]


def test_every_outcome_has_a_test_here() -> None:
    assert {*TABLE, Outcome.DEPENDENCY, Outcome.OUTAGE} == set(Outcome)


def _adopted(house: House, ticket: str) -> str:
    """Return the name under which an item that came past the door is kept: its own, and a digest."""
    listed = house.command("list", "--json").stdout
    found = [part for part in listed.replace('"', " ").split() if part.startswith(f"{ticket}~")]
    return found[0] if found else ""

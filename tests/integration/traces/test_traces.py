"""A whole house that tells of its tickets, and a collector that takes OTLP as every collector does."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.embedded import EmbeddedBroker, free_port
from tests.integration.traces.traced_handler import HANDED
from tests.support.collector import Collector, Told
from tests.support.house import House, call
from tests.support.program import Programs
from tests.support.waiting import eventually

CLIENT = "0af7651916cd43dd8448eb211c80319c"
CLIENTS_SPAN = "b7ad6b7169203331"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as listening:
        yield listening


@pytest.fixture(scope="module")
def house(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[House]:
    """Door of two processes, station and a node for each lane, all of which send their spans to the collector."""
    folder = tmp_path_factory.mktemp("traced")
    programs = Programs(folder)
    environment = {**collector.environment, "LAZARETTO_DOOR_WORKERS": "2"}
    house = House(programs, broker.url, f"t{uuid4().hex[:10]}", folder, extra=environment)
    try:
        house.open(handler="tests.integration.traces.traced_handler:handle")
        yield house
    finally:
        programs.close()


def _named(collector: Collector, ticket: str, *wanted: str) -> list[Told]:
    """Return a ticket's spans once there are as many as `wanted`, and see that they are those and of one trace."""

    def told() -> list[Told]:
        found = collector.of_ticket(ticket)
        return found if len(found) >= len(wanted) else []

    found = eventually(told, 30.0, saying=f"{wanted} of {ticket}")
    assert [span.name for span in found] == list(wanted)
    assert len({span.trace for span in found}) == 1
    return found


def _after(collector: Collector, ticket: str, count: int) -> list[Told]:
    return eventually(lambda: found if len(found := collector.of_ticket(ticket)) == count else [], 30.0)


def _is_run(span: Told, *, generation: int) -> bool:
    return span.name.startswith("process ") and span.attributes["lazaretto.generation"] == generation


def _server_span_above(collector: Collector, span: Told) -> Told:
    return eventually(lambda: next((one for one in collector.spans if one.id == span.parent), None))  # type: ignore[return-value]


def test_a_ticket_that_is_done_is_one_trace_from_the_client_to_the_handler(house: House, collector: Collector) -> None:
    ticket = house.submit("traced", traceparent=f"00-{CLIENT}-{CLIENTS_SPAN}-01", tracestate="v=1").body["id"]
    send, process, own = _named(
        collector, ticket, f"send {house.prefix}:work", f"process {house.prefix}.work", "ask the model"
    )
    request = _server_span_above(collector, send)

    assert (request.service, request.name, request.kind) == ("lazaretto-door", "POST /v1/tickets", "server")
    assert (request.trace, request.parent) == (CLIENT, CLIENTS_SPAN)
    assert request.attributes["http.response.status_code"] == 202
    assert (send.service, send.kind, send.parent) == ("lazaretto-door", "producer", request.id)
    assert (process.service, process.kind, process.parent) == ("lazaretto-node", "consumer", send.id)
    assert process.attributes["messaging.message.id"] == send.attributes["messaging.message.id"]
    expected = {"lazaretto.outcome": "succeeded", "lazaretto.verdict": "ack", "lazaretto.attempt": 1}
    assert expected.items() <= process.attributes.items()
    assert not any(span.is_error for span in (request, send, process))
    assert (own.trace, own.parent) == (CLIENT, process.id)
    handed = json.loads(house.starts_path.with_name(house.starts_path.name + HANDED).read_text())
    assert handed == {"traceparent": f"00-{CLIENT}-{process.id}-01", "tracestate": "v=1"}


def test_tickets_on_one_connection_are_traced_whichever_way_they_go_through_the_door(
    house: House, collector: Collector
) -> None:
    ordinary, own = {"kind": "good", "body": "hello"}, {"kind": "good", "body": "hello", "id": f"own-{uuid4().hex}"}
    connection = HTTPConnection("127.0.0.1", house.door_port, timeout=30)
    for document in (ordinary, own, ordinary):
        client = f"00-{uuid4().hex}-{CLIENTS_SPAN}-01"
        connection.request(
            "POST", "/v1/tickets", json.dumps(document), {"Content-Type": "application/json", "traceparent": client}
        )
        ticket = json.loads(connection.getresponse().read())["id"]
        send, _ = _named(collector, ticket, f"send {house.prefix}:work", f"process {house.prefix}.work")
        above = _server_span_above(collector, send)
        assert (above.name, above.parent) == ("POST /v1/tickets", CLIENTS_SPAN)
        assert {"http.route": "/v1/tickets", "http.response.status_code": 202}.items() <= above.attributes.items()
        assert above.trace == client.split("-")[1]
    connection.close()


def test_a_killed_worker_is_an_error_of_its_attempt_and_the_next_one_is_in_the_same_trace(
    house: House, collector: Collector
) -> None:
    ticket = house.accepted("killeronce")
    send, died, cleared = _named(
        collector,
        ticket,
        f"send {house.prefix}:work",
        f"process {house.prefix}.work",
        f"process {house.prefix}.suspects",
    )
    assert [died.parent, cleared.parent] == [send.id, send.id]
    assert [span.attributes["lazaretto.attempt"] for span in (died, cleared)] == [1, 2]
    assert died.is_error
    assert "SIGKILL" in died.detail
    assert {"error.type": "crashed", "lazaretto.code": "signal:9"}.items() <= died.attributes.items()
    assert {"lazaretto.verdict": "retry"}.items() <= died.attributes.items()
    assert (cleared.is_error, cleared.attributes["lazaretto.lane"]) == (False, "suspects")


def test_quarantine_and_replay_stay_in_the_trace_and_a_generation_is_below_its_own_send(
    house: House, collector: Collector
) -> None:
    ticket = house.accepted("reject")
    work, quarantine = f"process {house.prefix}.work", f"receive {house.prefix}.quarantine"
    send, rejected, held = _named(collector, ticket, f"send {house.prefix}:work", work, quarantine)
    assert [rejected.parent, held.parent] == [send.id, send.id]
    assert (rejected.detail, rejected.attributes["lazaretto.verdict"]) == ("not a ticket", "quarantine")
    assert (held.service, held.attributes["lazaretto.reason"]) == ("lazaretto-station", "rejected")

    desk = f"http://127.0.0.1:{house.desk_port}/v1/quarantine/{ticket}/replay"
    decision = json.dumps({"by": "ana", "reason": "look again"}).encode()
    assert call("POST", desk, decision, Content_Type="application/json").status == 200
    *_, again, once_more, held_again = _after(collector, ticket, 6)
    assert (again.service, again.kind, again.parent) == ("lazaretto-station", "producer", send.id)
    assert {span.trace for span in (again, once_more, held_again)} == {send.trace}
    assert [once_more.parent, held_again.parent] == [again.id, again.id]
    assert [span.attributes["lazaretto.generation"] for span in (again, once_more, held_again)] == [1, 1, 1]


def test_the_verb_replays_in_the_trace_as_well_although_its_process_ends_at_once(
    house: House, collector: Collector
) -> None:
    ticket = house.accepted("reject")
    (send, *_) = _after(collector, ticket, 3)
    assert house.command("replay", ticket, "--by", "ana", "--reason", "look again").returncode == 0
    second = eventually(lambda: [span for span in collector.of_ticket(ticket) if _is_run(span, generation=1)], 30.0)
    assert second[0].trace == send.trace
    assert second[0].parent not in {"", send.id}


def test_a_refusal_is_an_answer_and_no_error(house: House, collector: Collector) -> None:
    trace = uuid4().hex
    answer = house.submit("no kind at all", traceparent=f"00-{trace}-{CLIENTS_SPAN}-01")
    found = eventually(lambda: [span for span in collector.spans if span.trace == trace])
    assert [(span.name, span.is_error) for span in found] == [("POST /v1/tickets", False)]
    assert found[0].attributes["http.response.status_code"] == answer.status


def test_a_run_that_vanished_with_its_node_is_told_of_by_whoever_closes_it(house: House, collector: Collector) -> None:
    ticket = house.accepted("wait.vanished")
    eventually(lambda: house.starts(ticket), saying="it runs")
    node = next(program for program in house.programs.started if program.name.startswith("work"))
    house.kill_family(node)
    house.open_gate("wait.vanished")
    house.node(handler="tests.integration.traces.traced_handler:handle")
    send, lost, again = _named(
        collector,
        ticket,
        f"send {house.prefix}:work",
        f"settle {house.prefix}.work",
        f"process {house.prefix}.suspects",
    )
    assert [lost.parent, again.parent] == [send.id, send.id]
    assert (lost.kind, lost.is_error, lost.attributes["error.type"]) == ("client", True, "lost")
    assert again.attributes["lazaretto.outcome"] == "succeeded"


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of somebody who takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_collector_that_is_of_no_use_holds_up_no_ticket_and_no_end(
    broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path, deaf: str
) -> None:
    house = House(programs, broker.url, prefix, tmp_path)
    absent = f"http://127.0.0.1:{free_port()}"
    house.extra["OTEL_BSP_SCHEDULE_DELAY"] = "50"
    node = house.node(OTEL_EXPORTER_OTLP_ENDPOINT=absent, OTEL_EXPORTER_OTLP_TIMEOUT="1")
    lengthy = {"OTEL_EXPORTER_OTLP_TIMEOUT": "600", "LAZARETTO_DRAIN_GRACE": "60s"}
    door = house.door(OTEL_EXPORTER_OTLP_ENDPOINT=deaf, **lengthy)
    tickets = [house.accepted("good") for _ in range(3)]
    eventually(lambda: all(map(house.starts, tickets)), 30.0, saying="all are run")
    node.wait_for_log("traces.trouble")
    assert [node.terminate(), door.terminate()] == [0, 0]
    assert "traces.left_unsent" in door.log


def test_what_is_asked_for_and_cannot_be_had_is_said_at_the_start(programs: Programs, tmp_path: Path) -> None:
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "zipkin"}
    env = {**asked, "LAZARETTO_DATA": str(tmp_path)}
    commands = {
        "door": ("-m", "gateway", "--check"),
        "station": ("-m", "gateway.station", "serve", "--check"),
        "node": ("-m", "consumer", "--handler", "tests.support.handlers:handle", "--check"),
    }
    started = [programs.python(name, *command, env=env) for name, command in commands.items()]
    assert [program.wait(30.0) for program in started] == [2, 2, 2]
    assert all("OTEL_TRACES_EXPORTER=zipkin" in program.log for program in started)

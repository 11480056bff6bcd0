"""Names by the conventions, for whoever searches traces by them."""

import pytest

from gateway.contract.envelope import Admission, Envelope, encode
from gateway.contract.ids import TicketId
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.tracing.conventions import Error, Role, answered, processing, receiving, sending, serving, settling

ITEM = Envelope(
    ticket=TicketId("9417"),
    kind="support.ticket",
    body=b"hello",
    content_type="text/plain",
    attempt=2,
    interruptions=1,
    generation=3,
    admission=Admission(
        bytes=5, charset="utf-8", tokens=1, exact=True, attachments=0, client="acme", admitted_at=1000.0
    ),
)


def test_a_send_names_exchange_and_key() -> None:
    wire = encode(ITEM)
    operation = sending(wire, Topology().to_lane(Lane.WORK))
    assert (operation.name, operation.role) == ("send tickets:work", Role.PRODUCER)
    assert operation.attributes == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "tickets:work",
        "messaging.rabbitmq.destination.routing_key": "work",
        "messaging.message.id": wire.message_id,
        "messaging.message.conversation_id": "9417",
        "messaging.message.body.size": 5,
        "lazaretto.kind": "support.ticket",
        "lazaretto.generation": 3,
        "lazaretto.attempt": 2,
    }


@pytest.mark.parametrize(
    ("begins", "name", "role", "kind"),
    [
        (processing, "process", Role.CONSUMER, "process"),
        (settling, "settle", Role.CLIENT, "settle"),
    ],
)
def test_what_a_node_does_names_the_queue(begins: object, name: str, role: Role, kind: str) -> None:
    operation = begins(ITEM, "m-1", "tickets.suspects", Lane.SUSPECTS)  # type: ignore[operator]
    assert (operation.name, operation.role) == (f"{name} tickets.suspects", role)
    assert operation.attributes == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": "tickets.suspects",
        "messaging.rabbitmq.destination.routing_key": "suspects",
        "messaging.message.id": "m-1",
        "messaging.message.conversation_id": "9417",
        "messaging.message.body.size": 5,
        "lazaretto.kind": "support.ticket",
        "lazaretto.lane": "suspects",
        "lazaretto.generation": 3,
        "lazaretto.attempt": 2,
        "lazaretto.interruptions": 1,
    }


def test_what_a_stranger_says_is_left_out_where_it_is_no_word_and_no_number() -> None:
    hostile = Wire(body=b"x", headers={"lz-attempt": [1], "lz-reason": {"a": 1}, "lz-generation": None})
    operation = receiving(hostile, "tickets.quarantine")
    assert operation.name == "receive tickets.quarantine"
    assert not {name for name in operation.attributes if name.startswith("lazaretto.")}
    assert "messaging.message.id" not in operation.attributes


@pytest.mark.parametrize(
    ("status", "error"), [(202, None), (404, None), (429, None), (500, Error(type="500")), (503, Error(type="503"))]
)
def test_a_refusal_is_no_error_of_the_server(status: int, error: Error | None) -> None:
    assert answered(status) == ({"http.response.status_code": status}, error)


def test_a_request_without_a_route_is_called_by_its_method_alone() -> None:
    assert serving("GET", "/robots.txt", None).name == "GET"
    assert serving("POST", "/v1/tickets", "/v1/tickets").name == "POST /v1/tickets"

"""The AsyncAPI document has exactly the topology that is declared, and every header and event that there is."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from gateway import asyncapi
from gateway.contract import envelope as envelopes
from gateway.contract import journal
from gateway.contract.envelope import Admission, Envelope, Loss, Malformed, Spent
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId, uuid7
from gateway.contract.journal import EventName
from gateway.contract.outcomes import Outcome
from gateway.contract.topology import Topology
from gateway.contract.wire import Wire
from gateway.station.holding import AlertEvent
from tests.architecture.source import ROOT
from tests.support.asyncapi import Described

TOPOLOGY = Topology(prefix="other")
_KEY = re.compile(r"^[\w.\-]+$")


@pytest.fixture(scope="module")
def described() -> Described:
    return Described(asyncapi.document(TOPOLOGY))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def test_it_has_the_shape_of_asyncapi_3() -> None:
    document = asyncapi.document(TOPOLOGY)

    assert document["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= document["info"].keys()
    for part in (document["channels"], document["operations"], document["components"]["messages"]):
        assert all(_KEY.match(name) for name in part)
    for channel in document["channels"].values():
        assert isinstance(channel["address"], str)
        assert channel["messages"]
        kind = channel["bindings"]["amqp"]["is"]
        assert ("queue" in channel["bindings"]["amqp"]) == (kind == "queue")
        assert ("exchange" in channel["bindings"]["amqp"]) == (kind == "routingKey")
    for operation in document["operations"].values():
        assert operation["action"] in {"send", "receive"}
        at = operation["channel"]["$ref"]
        assert all(message["$ref"].startswith(f"{at}/messages/") for message in operation["messages"])
    for message in document["components"]["messages"].values():
        for part in ("headers", "payload", "x-amqp-properties"):
            jsonschema_rs.validator_for(message[part])


def test_every_reference_leads_somewhere() -> None:
    document = asyncapi.document(TOPOLOGY)
    references = list(_references(document))

    assert references
    for reference in references:
        found: Any = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        assert found


def test_its_channels_are_the_queues_and_exchanges_that_are_declared() -> None:
    channels = asyncapi.document(TOPOLOGY)["channels"].values()
    amqp = [(channel["bindings"]["amqp"], channel) for channel in channels]

    assert [(found["queue"]["name"], channel["x-arguments"]) for found, channel in amqp if "queue" in found] == [
        (queue.name, queue.arguments) for queue in TOPOLOGY.queues()
    ]
    assert [(found["exchange"]["name"], found["exchange"]["type"]) for found, _ in amqp if "exchange" in found] == [
        (exchange.name, exchange.type) for exchange in TOPOLOGY.exchanges()
    ]


def test_every_header_of_ours_is_described_and_no_other() -> None:
    written = set(re.findall(r'"(lz-[a-z-]+)"', (ROOT / "gateway/contract/envelope.py").read_text()))
    messages = asyncapi.document(TOPOLOGY)["components"]["messages"].values()
    described = {name for message in messages for name in message["headers"].get("properties", ())}

    assert {name for name in described if name.startswith("lz-")} == written


def test_every_event_and_every_alert_is_described() -> None:
    messages = asyncapi.document(TOPOLOGY)["components"]["messages"]

    events = messages["journal"]["payload"]["items"]["oneOf"]
    assert [event["properties"]["event"]["const"] for event in events] == [name.value for name in EventName]
    told = {message["payload"]["properties"]["event"]["const"] for message in messages.values() if _is_alert(message)}
    assert told == set(AlertEvent) - {AlertEvent.STORM_LIFTED}  # of which nodes tell, as a state of the storm


def _is_alert(message: dict[str, Any]) -> bool:
    return "const" in message["payload"].get("properties", {}).get("event", {})


def test_whatever_an_envelope_can_carry_is_valid(described: Described) -> None:
    item = Envelope(
        ticket=TicketId("9417"),
        kind="support.ticket",
        body=b"x",
        content_type="text/plain",
        content_encoding="identity",
        submitted_at=1.0,
        attempt=2,
        waits=1,
        waiting_since=1.0,
        loss=Loss(holder="n", beat=1.0, at=2.0),
        spent=Spent(tokens=1, usd=1e-7),
        admission=Admission(
            bytes=1,
            charset="utf-8",
            tokens=1,
            exact=True,
            attachments=0,
            client="c",
            admitted_at=1.0,
            marked=("a", "b"),
            granted="p",
        ),
        history=History((RunRecord(attempt=1, outcome=Outcome.FAILED),)),
        suspect="crashed",
        traceparent="t" * 600,
        tracestate="s",
        foreign={"tenant": "acme"},
    )
    wire = envelopes.encode(item)
    described.check("item", wire)
    described.check("exhausted", envelopes.encode(envelopes.supersede(item, reason="rejected", detail="d" * 2000)))
    unread = Malformed(detail="d", ticket=TicketId("t"), kind="k", wire=Wire(body=b"", headers={"lz-schema": 9}))
    described.check("malformed", envelopes.encode_malformed(unread, reason="malformed"))


@pytest.mark.parametrize(
    "headers",
    [{"lz-attempt": 0}, {"lz-schema": 2}, {"lz-new": 1}, {"lz-spent": {"tokens": 1}}, {"lz-generation": "1"}],
    ids=str,
)
def test_what_no_envelope_carries_is_not(described: Described, headers: dict[str, Any]) -> None:
    wire = envelopes.encode(Envelope(ticket=TicketId("t"), kind="k", body=b"", content_type="text/plain"))
    broken = Wire(
        body=b"",
        headers={**wire.headers, **headers},
        message_id=wire.message_id,
        correlation_id="t",
        type="k",
        content_type="text/plain",
        app_id="a",
    )

    with pytest.raises(jsonschema_rs.ValidationError):
        described.check("item", broken)


def test_an_event_that_lacks_what_it_is_read_for_is_not_valid(described: Described) -> None:
    (body,) = journal.encode(
        [journal.Event(event=EventName.FINISHED, at=1.0, ticket="t", kind="k", node="n", data={"outcome": "failed"})]
    )

    with pytest.raises(jsonschema_rs.ValidationError):
        described.check("journal", Wire(body=body, message_id=uuid7(), content_type="application/json"))

"""What an admitted ticket looks like to its client and on the broker."""

import asyncio
import gzip
import uuid
from pathlib import Path

import aiohttp

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import idempotent_ticket_id
from gateway.contract.journal import EventName
from gateway.contract.wire import Wire
from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import TICKET, RunningDoor
from tests.support.waiting import soon


async def _only(door: RunningDoor) -> Envelope:
    (message,) = await door.take()
    assert message.delivery_mode == 2
    assert message.message_id != message.correlation_id
    decoded = envelopes.decode(
        Wire(
            body=message.body,
            headers=dict(message.headers),
            message_id=message.message_id,
            correlation_id=message.correlation_id,
            type=message.type,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
        )
    )
    assert isinstance(decoded, Envelope)
    return decoded


async def test_an_accepted_ticket_is_in_the_work_lane_with_what_was_measured(door: RunningDoor) -> None:
    answer = await door.submit()

    assert answer.status == 202
    ticket = await _only(door)
    assert ticket.ticket == answer.document["id"]
    assert (ticket.kind, ticket.attempt, ticket.generation) == ("support.ticket", 1, 0)
    assert ticket.admission is not None
    assert ticket.admission.bytes == len(ticket.body) == answer.document["checks"]["bytes"]
    assert ticket.admission.tokens == answer.document["checks"]["tokens"] > 0
    assert ticket.admission.client == "anonymous"


async def test_the_answer_says_where_to_ask_for_the_state(door: RunningDoor) -> None:
    answer = await door.submit()

    assert answer.headers["Location"] == answer.document["status_url"] == f"/v1/tickets/{answer.document['id']}"
    assert answer.document["state"] == "accepted"


async def test_a_ticket_just_accepted_is_never_unknown(door: RunningDoor) -> None:
    accepted = await door.submit()

    status = await door.ask("GET", accepted.headers["Location"])

    assert status.status == 200
    assert status.document["state"] == "accepted"
    assert status.document["kind"] == "support.ticket"
    assert status.document["attempts"] == 0


async def test_the_body_travels_exactly_as_it_was_written(door: RunningDoor) -> None:
    written = b'{ "kind":"support.ticket",  "body":"x", "attributes": {"n": 1.0, "big": 12345678901} }'

    answer = await door.ask("POST", "/v1/tickets", data=written, headers={"Content-Type": "application/json"})

    assert answer.status == 202
    assert (await _only(door)).body == written


async def test_text_in_an_old_charset_is_taken_as_declared(door: RunningDoor) -> None:
    text = "Der Drucker läuft über: größer als nötig"

    answer = await door.submit_text(text.encode("latin-1"), "text/plain; charset=iso-8859-1")

    assert answer.status == 202
    ticket = await _only(door)
    assert ticket.body == text.encode("latin-1")
    assert ticket.admission is not None
    assert ticket.admission.charset == "cp1252"


async def test_utf_16_with_a_byte_order_mark_needs_no_declaration(door: RunningDoor) -> None:
    answer = await door.submit_text(b"\xff\xfe" + "PowerShell wrote this".encode("utf-16-le"))

    assert answer.status == 202
    assert "utf-16" in answer.document["checks"]["charset"].replace("_", "-")
    assert answer.document["checks"]["charset_source"] == "bom"


async def test_a_compressed_body_is_stored_inflated(door: RunningDoor) -> None:
    answer = await door.submit_text(gzip.compress(b"line\n" * 1000), Content_Encoding="gzip")

    assert answer.status == 202
    ticket = await _only(door)
    assert ticket.body == b"line\n" * 1000
    assert ticket.content_encoding is None


async def test_a_multipart_ticket_carries_its_attachments(door: RunningDoor) -> None:
    form = aiohttp.FormData()
    form.add_field("body", "See the log.", content_type="text/plain")
    form.add_field("log", b"line 1\nline 2\n", filename="app.log", content_type="text/plain")

    answer = await door.ask("POST", "/v1/tickets", data=form, headers={"Lazaretto-Kind": "support.ticket"})

    assert answer.status == 202, answer.text
    assert answer.document["checks"]["attachments"] == 1
    ticket = await _only(door)
    assert ticket.content_type.startswith("multipart/form-data; boundary=")
    assert b"line 2" in ticket.body


async def test_a_client_may_choose_the_id(door: RunningDoor) -> None:
    chosen = f"crm:9417~{uuid.uuid4().hex}"

    answer = await door.submit({**TICKET, "id": chosen})

    assert answer.document["id"] == chosen
    assert (await _only(door)).ticket == chosen


async def test_the_same_key_is_the_same_ticket(door: RunningDoor) -> None:
    first = await door.submit(Idempotency_Key="order-17")
    again = await door.submit(Idempotency_Key='"order-17"')

    assert first.document["id"] == again.document["id"] == idempotent_ticket_id("anonymous", "order-17")
    assert {message.correlation_id for message in await door.take()} == {first.document["id"]}


async def test_without_id_and_key_every_submission_is_a_new_ticket(door: RunningDoor) -> None:
    ids = {(await door.submit()).document["id"] for _ in range(3)}

    assert len(ids) == 3
    assert {uuid.UUID(one).version for one in ids} == {7}


async def test_an_id_and_a_key_together_are_refused_because_they_may_contradict(door: RunningDoor) -> None:
    answer = await door.submit({**TICKET, "id": "mine"}, Idempotency_Key="k")

    assert answer.status == 400
    assert answer.document["type"] == "urn:lazaretto:problem:bad-idempotency-key"
    assert await door.queued() == 0


async def test_the_trace_context_of_the_client_travels_on(door: RunningDoor) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    await door.submit(traceparent=parent)

    assert (await _only(door)).traceparent == parent


async def test_a_check_says_what_a_submission_would_and_publishes_nothing(door: RunningDoor) -> None:
    good = await door.ask("POST", "/v1/tickets:check", json=TICKET)
    bad = await door.ask("POST", "/v1/tickets:check", json={"kind": "support.ticket"})

    assert (good.status, good.document["admissible"]) == (200, True)
    assert good.document["checks"]["tokens"] > 0
    assert (bad.status, bad.document["violations"][0]["rule"]) == (422, "missing_member")
    assert await door.queued() == 0


async def test_an_acceptance_is_reported_to_the_journal(door: RunningDoor) -> None:
    accepted = await door.submit()

    async def reported() -> bool:
        return any(
            event.event is EventName.ACCEPTED
            and event.ticket == accepted.document["id"]
            and event.data["tokens"] == accepted.document["checks"]["tokens"]
            for event in await door.events()
        )

    await soon(reported)


async def test_a_refusal_is_reported_with_its_facts_and_a_bounded_sample(door: RunningDoor) -> None:
    refused = await door.submit_text(b"A" * 5000 + b"\0")

    async def reported() -> list[dict[str, object]]:
        return [dict(event.data) for event in await door.events() if event.ticket == refused.document["request_id"]]

    (data,) = await soon(reported)
    assert data["bytes"] == 5001
    assert data["client"] == "anonymous"
    assert len(str(data["digest"])) == 64
    assert len(str(data["sample"]).encode()) <= 1024
    assert [violation["rule"] for violation in data["violations"]] == [  # type: ignore[attr-defined]
        violation["rule"] for violation in refused.document["violations"]
    ]


async def test_a_refusal_is_on_record_under_the_kind_of_its_ticket(door: RunningDoor) -> None:
    refused = await door.submit({"kind": "billing.question", "body": 1})

    async def reported() -> list[str]:
        return [event.kind for event in await door.events() if event.ticket == refused.document["request_id"]]

    assert await soon(reported) == ["billing.question"]


async def test_an_upload_that_its_client_gave_up_is_nobodys_refusal(door: RunningDoor) -> None:
    left = 'lazaretto_admission_requests_total{kind="other",outcome="left"}'
    before = await door.metric(left)
    _, writer = await asyncio.open_connection(*door.host_port)
    writer.write(b"POST /v1/tickets?kind=a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
    await writer.drain()
    writer.close()

    async def gone() -> bool:
        return await door.metric(left) == before + 1

    await soon(gone)
    refused = await door.submit({"kind": "a", "body": 1})
    seen: list[str] = []

    async def reported() -> bool:
        seen.extend(event.ticket for event in await door.events() if event.event is EventName.REFUSED)
        return refused.document["request_id"] in seen

    await soon(reported)
    assert seen == [refused.document["request_id"]]


async def test_kinds_that_clients_invent_do_not_multiply_the_metrics(door: RunningDoor) -> None:
    for number in range(80):
        await door.submit({"kind": f"invented.{number}", "body": "x"})

    lines = (await door.ask("GET", "/metrics")).text.splitlines()
    series = [line for line in lines if line.startswith("lazaretto_admission_requests_total{") and "accepted" in line]
    assert len(series) <= 65
    assert any('kind="other"' in line for line in series)


async def test_a_kind_has_limits_of_its_own_and_a_request_names_one_kind(start: StartDoor, tmp_path: Path) -> None:
    written = tmp_path / "lazaretto.toml"
    written.write_text('max_body_bytes = 1000\n[kinds.logs]\nmax_body_bytes = "64KiB"\nmax_attempts = 1\n')
    async with await start(config=str(written)) as door:
        large = {"data": b"x" * 5000, "headers": {"Content-Type": "text/plain"}}
        named = {**large, "headers": {"Content-Type": "text/plain", "Lazaretto-Kind": "b"}}

        assert (await door.ask("POST", "/v1/tickets?kind=logs", **large)).status == 202
        assert (await door.ask("POST", "/v1/tickets?kind=other", **large)).status == 413
        assert (await door.submit({"kind": "logs", "body": "x" * 5000})).status == 202
        refused = await door.submit({"kind": "other", "body": "x" * 5000})
        assert (refused.status, refused.document["violations"][0]["limit"]) == (413, 1000)
        assert (await door.ask("POST", "/v1/tickets?kind=a&kind=b", **large)).status == 400
        assert (await door.ask("POST", "/v1/tickets?kind=a", **named)).status == 400
        assert (await door.ask("GET", "/v1/limits")).document["kinds"] == {"logs": {"max_body_bytes": 65536}}

"""What deliveries license, on a real broker: copies, strangers, redeliveries, nonsense (P1, P9, P12, P14; C16, C18)."""

import asyncio
import contextlib
import hashlib
import json
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from gateway.contract.envelope import Admission, Envelope, encode
from gateway.contract.ids import TicketId
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.house import House, call
from tests.support.plain import publish, take_and_vanish
from tests.support.program import Programs
from tests.support.stranger import nested_headers, publish_latin1, publish_raw
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def house(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("claiming")
    programs = Programs(folder)
    house = House(programs, broker.url, f"t{uuid4().hex[:10]}", folder)
    try:
        house.open()
        yield house
    finally:
        programs.close()


def topology(house: House) -> Topology:
    return Topology(prefix=house.prefix, delay_unit=0.05)


def admitted(ticket: str, kind: str = "good") -> Envelope:
    facts = Admission(
        bytes=5, charset="utf-8", tokens=1, exact=True, attachments=0, client="anonymous", admitted_at=1.0
    )
    return Envelope(
        ticket=TicketId(ticket), kind=kind, body=b"hello", content_type="text/plain; charset=utf-8", admission=facts
    )


def put(house: House, wire: Wire, *, copies: int = 1) -> None:
    publish(house.broker_url, topology(house).to_lane(Lane.WORK), wire, copies=copies)


def test_copies_of_one_message_run_once_and_the_journal_shows_it(house: House) -> None:
    put(house, encode(admitted("copied")), copies=5)
    house.until("copied", "done")
    work = house.programs.started[0]
    work.wait_for_log("copy.dropped ticket=copied", count=4)
    assert len(house.starts("copied")) == 1


def test_a_copy_in_other_bytes_is_a_copy_where_the_door_says_that_it_has_the_same_contents(house: House) -> None:
    first = admitted("wrapped")
    assert first.admission is not None
    same = replace(first, admission=replace(first.admission, contents="5" * 64))
    put(house, encode(same))
    house.until("wrapped", "done")
    put(house, encode(replace(same, body=b"hello, in other bytes")))
    house.programs.started[0].wait_for_log("copy.dropped ticket=wrapped")
    assert len(house.starts("wrapped")) == 1


def test_an_id_that_is_sent_again_tells_where_its_ticket_stands_now(house: House) -> None:
    first = house.submit("good", "known-by-id", "the same")
    assert first.body["state"] == "accepted"
    house.until("known-by-id", "done")

    again = house.submit("good", "known-by-id", "the same")

    assert (again.status, again.body["state"]) == (202, "done")
    assert len(house.starts("known-by-id")) == 1


def test_repeated_idempotency_key_is_one_ticket_and_one_execution(house: House) -> None:
    answers = [house.submit("good", None, "the same", Idempotency_Key="order-66") for _ in range(3)]
    assert [answer.status for answer in answers] == [202, 202, 202]
    (ticket,) = {answer.body["id"] for answer in answers}
    house.until(ticket, "done")
    house.warm_up()
    with contextlib.closing(sqlite3.connect(house.folder / "data" / "station.db")) as store:
        rows = store.execute("SELECT attempt FROM starts WHERE ticket = ?", (ticket,)).fetchall()
    assert rows == [(1,)]
    assert house.runs(ticket) == ["succeeded"]


def test_message_that_somebody_held_and_lost_is_closed_as_lost_before_its_next_run(
    house: House, broker: EmbeddedBroker, programs: Programs
) -> None:
    other = House(programs, broker.url, f"t{uuid4().hex[:10]}", programs.folder.parent)
    other.door(), other.station()
    other.accepted("good", "held")
    take_and_vanish(other.broker_url, f"{other.prefix}.work")
    other.fleet("suspects"), other.node()
    assert other.balance(["held"]) == Counter(done=1)
    assert other.runs("held") == ["lost", "succeeded"]
    assert [start.attempt for start in other.starts("held")] == [2]
    assert "run.succeeded ticket=held" in other.programs.started[2].log


def test_message_without_our_headers_is_adopted_examined_and_run(house: House) -> None:
    put(house, Wire(body="grüße".encode(), correlation_id="stranger", type="good", content_type="text/plain"))
    start = eventually(lambda: [start for start in house.starts() if start.ticket.startswith("stranger~")])[0]
    assert house.until(start.ticket, "done")["attempts"] == 1


def test_stranger_that_fails_the_preflight_is_quarantined_without_a_start(house: House) -> None:
    body = ("log line in an odd encoding\n" * 200).encode("utf-16-le")
    put(house, Wire(body=body, correlation_id="odd", type="good", content_type="text/plain"))
    shown = eventually(
        lambda: [item for item in _items(house) if item["ticket"].startswith("odd~")], saying="the stranger is listed"
    )[0]
    assert shown["reason"] == "inadmissible"
    refused = json.loads(house.command("rejections", "--json").stdout)
    assert shown["ticket"] in str(refused)
    assert not house.starts(shown["ticket"])
    assert house.until(shown["ticket"], "quarantined")["attempts"] == 0


def test_message_of_an_unknown_schema_is_quarantined_raw_and_does_not_stop_the_intake(house: House) -> None:
    wire = encode(admitted("from-the-future"))
    put(
        house,
        Wire(body=wire.body, headers={**wire.headers, "lz-schema": 9}, correlation_id="from-the-future", type="good"),
    )
    put(house, encode(admitted("right-behind")))
    house.until("right-behind", "done")
    shown = eventually(lambda: [item for item in _items(house) if item["ticket"] == "from-the-future"])[0]
    assert shown["reason"] == "malformed"
    assert not house.starts("from-the-future")


def test_property_that_is_no_utf8_does_not_stop_the_intake(house: House) -> None:
    asyncio.run(publish_latin1(house.broker_url, topology(house).to_lane(Lane.WORK), b"caf", named="café"))
    put(house, encode(admitted("behind-latin-1")))
    house.until("behind-latin-1", "done")
    house.until(hashlib.sha256(b"caf").hexdigest(), "quarantined")


@pytest.mark.parametrize("lane", ["work", "quarantine"])
@pytest.mark.parametrize(
    "properties",
    [
        struct.pack(">HI", 0x2000, 6) + b"\x03\xe9\xe8\xe7t\x01",
        struct.pack(">HQ", 0x0040, 2**64 - 1),
        nested_headers(3000),
    ],
    ids=["header-name", "timestamp", "nested"],
)
def test_properties_that_no_codec_reads_end_in_quarantine_and_stop_nobody(
    house: House, lane: str, properties: bytes
) -> None:
    body = f"{lane} {hashlib.sha256(properties).hexdigest()}".encode()
    route = topology(house).to_lane(Lane.WORK) if lane == "work" else topology(house).to_quarantine("unknown")
    asyncio.run(publish_raw(house.broker_url, route, body, properties=properties))
    listed = hashlib.sha256(body).hexdigest()
    shown = eventually(lambda: [item for item in _items(house) if item["ticket"] == listed])[0]
    assert shown["reason"] == "malformed"
    house.warm_up()


def test_strangers_own_headers_of_any_type_travel_through_its_retries(house: House) -> None:
    headers = {"blob": bytearray(b"\xff\x00"), "nested": {"list": [bytearray(b"\xfe"), 1, None]}}
    put(house, Wire(body=b"hello", headers=headers, correlation_id="blob", type="fail", content_type="text/plain"))
    start = eventually(lambda: [start for start in house.starts() if start.ticket.startswith("blob~")])[0]
    house.until(start.ticket, "quarantined")
    assert house.runs(start.ticket) == ["failed"] * 3


def test_message_over_its_budget_never_starts(house: House) -> None:
    put(house, encode(replace(admitted("over-budget", "killer"), attempt=4)))
    house.until("over-budget", "quarantined")
    assert house.reason("over-budget") == "attempts_exhausted"
    assert not house.starts("over-budget")


def test_store_that_stops_answering_holds_starts_back_and_frees_the_slot_when_it_is_back(house: House) -> None:
    work = house.programs.started[0]
    health = work.wait_for_log(r"health=(http://\S+)/healthz")[1]
    with contextlib.closing(sqlite3.connect(house.folder / "data" / "station.db", timeout=20)) as store:
        store.execute("ALTER TABLE starts RENAME TO starts_away")
        try:
            house.accepted("good", "held-back")
            work.wait_for_log("fence.unavailable")
            assert call("GET", f"{health}/readyz").status == 503
            assert not house.starts("held-back")
        finally:
            store.execute("ALTER TABLE starts_away RENAME TO starts")
    house.until("held-back", "done")
    assert len(house.starts("held-back")) == 1
    assert call("GET", f"{health}/readyz").status == 200


def test_another_ticket_under_a_taken_id_is_refused_at_the_door_and_never_dropped_behind_it(house: House) -> None:
    first = house.submit("good", "taken", "the first")
    assert (first.status, house.submit("good", "taken", "the first").status) == (202, 202)
    assert house.submit("good", "taken", "another").status == 409
    assert house.submit("good", None, "one", Idempotency_Key="used").status == 202
    assert house.submit("good", None, "two", Idempotency_Key="used").status == 422
    house.until("taken", "done")
    put(house, replace(encode(admitted("taken")), body=b"past another door"))
    kept = eventually(lambda: [item for item in _items(house) if item["ticket"].startswith("taken~")])[0]
    assert kept["reason"] == "id_conflict"
    assert house.status("taken")["state"] == "done"
    assert len(house.starts("taken")) == 1


def test_another_ticket_under_the_id_of_a_replayed_one_is_not_dropped_either(house: House) -> None:
    house.accepted("reject", "replayed")
    house.until("replayed", "quarantined")
    assert house.command("replay", "replayed", "--by", "ada", "--reason", "once more").returncode == 0
    eventually(lambda: len(house.starts("replayed")) == 2, 30.0)
    house.until("replayed", "quarantined")
    put(house, replace(encode(admitted("replayed")), body=b"another ticket, past the door"))
    kept = eventually(lambda: [item for item in _items(house) if item["ticket"].startswith("replayed~")])
    assert {item["reason"] for item in kept} == {"id_conflict"}
    assert len(house.starts("replayed")) == 2


def _items(house: House) -> list[dict[str, str]]:
    answer = call("GET", f"http://127.0.0.1:{house.desk_port}/api/items")
    assert answer.status == 200
    found: list[dict[str, str]] = answer.body["items"]
    return found

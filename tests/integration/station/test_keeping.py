"""From the quarantine queue to a row and a ticket's state, on a real broker."""

import json
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from gateway.contract import journal
from gateway.contract.envelope import Envelope, Malformed, encode_malformed
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp, TicketState
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from gateway.station.store import Store
from gateway.station.tables.refusals import refusals
from tests.integration.station.conftest import Producers, Station, depth
from tests.support.stranger import publish_latin1
from tests.support.waiting import eventually, soon

Killer = Callable[..., Envelope]


async def test_an_item_becomes_a_row_with_its_runs_and_one_alert_on_each_channel(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    await producers.item(killer())
    await station.settled(ticket)

    found = station.show(ticket)

    assert {name: found[name] for name in ("ticket", "kind", "state", "reason", "generation")} == {
        "ticket": ticket,
        "kind": "support.ticket",
        "state": "quarantined",
        "reason": "crashes_exhausted",
        "generation": 0,
    }
    assert [(run["generation"], run["attempt"], run["outcome"], run["node"]) for run in found["runs"]] == [
        (0, 1, "memory", "node-1"),
        (0, 2, "memory", "node-2"),
        (0, 3, "memory", "node-3"),
    ]
    assert sorted(alert["channel"] for alert in found["alerts"]) == ["exchange", "log"]


async def test_the_journal_adds_its_evidence_to_the_run_that_the_item_tells_of(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    evidence = {"signal": 9, "peak_rss": 300 << 20, "log_tail": "comparing line 812"}
    await producers.events(_ended(ticket, attempt=3, outcome="memory", evidence=evidence))
    await producers.item(killer())

    runs = (await station.settled(ticket))["runs"]

    assert [run["attempt"] for run in runs] == [1, 2, 3]
    assert runs[2]["evidence"] == evidence
    assert runs[0]["evidence"] == {"code": "signal:9"}


async def test_what_a_node_saw_beats_what_was_inferred_of_the_same_start(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    await producers.events(
        _ended(ticket, attempt=3, outcome="lost", event=EventName.CLAIMED),
        _ended(ticket, attempt=3, outcome="timed_out"),
        _ended(ticket, attempt=3, outcome="lost", event=EventName.CLAIMED),
    )
    await producers.item(killer())

    runs = (await station.settled(ticket))["runs"]

    assert [run["outcome"] for run in runs] == ["memory", "memory", "timed_out"]


async def test_a_second_delivery_of_the_same_item_is_one_row_and_one_alert(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    await producers.item(killer())
    await producers.item(killer())
    station.program.wait_for_log(f"item.known ticket={ticket}")

    found = await station.settled(ticket)

    assert len(found["items"]) == 1
    assert sorted(alert["channel"] for alert in found["alerts"]) == ["exchange", "log"]


async def test_another_body_under_a_taken_ticket_id_is_kept_under_a_name_of_its_own(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    await producers.item(killer())
    await producers.item(killer(body=b"something else"))
    eventually(lambda: station.program.log.count(f"item.stored ticket={ticket}") == 2)

    listed = [item for item in json.loads(station.run("list", "--json").stdout) if ticket in item["ticket"]]

    assert len({item["ticket"] for item in listed}) == 2
    assert len({item["digest"] for item in listed}) == 2


async def test_what_the_broker_dead_lettered_is_kept_with_that_reason(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    await producers.item(killer(reason=None, detail=None))

    assert (await station.settled(ticket))["reason"] == "delivery_limit"


async def test_a_stranger_that_the_broker_gave_up_on_is_kept_with_its_bytes(
    station: Station, producers: Producers, ticket: str
) -> None:
    await producers.raw(Wire(body=b"\x00\xff hello", headers={"their": "header"}, message_id=ticket))
    named = station.program.wait_for_log(rf"item\.stored ticket=({ticket}~[0-9a-f]{{8}}) ")[1]

    found = await station.settled(named)

    assert (found["reason"], found["items"][0]["size"]) == ("delivery_limit", 8)


async def test_a_malformed_message_is_kept_raw_and_does_not_stop_the_intake(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    wrapped, bare = f"{ticket}-w", f"{ticket}-b"
    raw = Wire(body=b"raw \x00 bytes", headers={"lz-schema": 99}, message_id="odd", correlation_id=wrapped)
    malformed = Malformed(detail="lz-schema is 99", ticket=TicketId(wrapped), kind="unknown", wire=raw)
    await producers.raw(encode_malformed(malformed, reason="malformed"))
    await producers.raw(Wire(body=b"x", headers={"lz-schema": "nonsense"}, message_id="odd2", correlation_id=bare))
    await producers.item(killer())

    await station.settled(ticket)
    first, second = await station.settled(wrapped), await station.settled(bare)

    assert (first["reason"], second["reason"]) == ("malformed", "malformed")
    assert first["items"][0]["detail"] == "lz-schema is 99"
    assert "lz-schema is 'nonsense'" in second["items"][0]["detail"]


async def test_properties_that_are_no_utf8_do_not_stop_the_intake(
    station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    body = f"body of {ticket}".encode()
    await publish_latin1(broker.url, producers.topology.to_quarantine("unknown"), body, named=f"Gr\xfc\xdfe {ticket}")
    await producers.item(killer())
    await station.settled(ticket)

    (item,) = [item for item in await station.listed() if item["digest"] == sha256(body).hexdigest()]

    assert (item["ticket"], item["reason"]) == (item["digest"], "delivery_limit")
    assert "keeper.lost" not in station.program.log


async def test_journal_events_in_reverse_order_end_in_the_same_state(
    station: Station, producers: Producers, store: Store, ticket: str
) -> None:
    await producers.events(_ended(ticket, attempt=1, outcome="succeeded", verdict="ack", at=3.0))
    await producers.events(_event(ticket, EventName.STARTED, at=2.0, data={"lane": "work"}))
    await producers.events(_event(ticket, EventName.ACCEPTED, at=1.0, data={"client": "acme"}))

    async def client_is_known() -> bool:
        status = await store.ticket_status(ticket)
        return status is not None and status.client == "acme"

    await soon(client_is_known)
    status = await store.ticket_status(ticket)

    assert status is not None
    assert (status.state, status.attempts, status.updated_at) == (TicketState.DONE, 1, 3.0)


async def test_refusals_of_the_door_are_on_record(
    station: Station, producers: Producers, store: Store, ticket: str
) -> None:
    violations = [{"rule": "max_body_bytes", "limit": 524288, "actual": 4 << 20}]
    data = {"violations": violations, "bytes": 4 << 20, "sample": "\x1b[2J\x00"}
    await producers.events(_event(ticket, EventName.REFUSED, data=data))

    async def stored() -> bool:
        async with store.reading() as transaction:
            return await transaction.scalar(sa.select(refusals.c.id).filter_by(ticket=ticket)) is not None

    await soon(stored)
    (refusal,) = [row for row in json.loads(station.run("rejections", "--json").stdout) if row["ticket"] == ticket]
    printed = station.run("rejections").stdout

    assert refusal["violations"] == violations
    assert f"{ticket}  support.ticket  past the door  max_body_bytes  {4 << 20} bytes" in printed


async def test_an_item_that_no_row_can_hold_becomes_a_minimal_row_and_a_raw_file(
    station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    beyond_64_bits = "[9223372036854775808]"
    counts = {"lz-attempt": 1, "lz-crashes": 0, "lz-interruptions": 0, "lz-generation": 0}
    await producers.raw(
        Wire(
            body=b"the body \x00",
            headers={"lz-schema": 1, **counts, "lz-reason": "rejected", "lz-history": beyond_64_bits},
            message_id="m",
            correlation_id=f"{ticket}-huge",
            type="support.ticket",
        )
    )
    await producers.item(killer())
    await station.settled(ticket)

    (item,) = (await station.settled(f"{ticket}-huge"))["items"]

    assert (item["reason"], item["size"]) == ("rejected", 0)
    assert "could not be stored" in item["detail"]
    assert Path(item["spool_path"]).read_bytes() == b"the body \x00"
    assert await depth(broker.url, producers.topology.quarantine_queue) == 0


async def test_an_unreadable_journal_batch_is_set_aside_and_the_next_one_counts(
    station: Station, producers: Producers, store: Store, ticket: str
) -> None:
    broken = b"{broken " + uuid4().hex.encode()
    await producers.sender.send(producers.topology.to_journal(), Wire(body=broken, message_id="b"), mandatory=True)
    await producers.events(_event(ticket, EventName.ACCEPTED))

    await soon(lambda: store.ticket_status(ticket))

    assert broken in [file.read_bytes() for file in (station.data / "spool").glob("*.body")]


async def test_headers_nested_deeper_than_any_document_end_as_one_item_like_any_other(
    station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"d": deep}
    await producers.raw(Wire(body=ticket.encode(), headers={"deep": deep}, message_id=ticket))
    await producers.item(killer())
    await station.settled(ticket)

    listed = [item for item in await station.listed() if item["digest"] == sha256(ticket.encode()).hexdigest()]

    assert len(listed) == 1
    assert await depth(broker.url, producers.topology.quarantine_queue) == 0


async def test_ids_crafted_to_collide_stop_nothing(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    crafted = TicketId(f"{ticket}~{sha256(b'B').hexdigest()[:16]}")
    await producers.item(killer(ticket=crafted, body=b"first"))
    await producers.item(killer(body=b"one"))
    await producers.item(killer(body=b"B"))
    await producers.item(killer(ticket=TicketId(f"{ticket}-mark")))
    await station.settled(f"{ticket}-mark")

    digests = [item["digest"] for item in await station.listed() if item["ticket"].split("~")[0] == ticket]

    assert sorted(digests) == sorted(sha256(body).hexdigest() for body in (b"first", b"one", b"B"))


async def test_events_beside_ones_that_nobody_can_read_or_store_are_kept(
    station: Station, producers: Producers, store: Store, ticket: str
) -> None:
    good = [_event(f"{ticket}-{number}", EventName.ACCEPTED) for number in range(4)]
    (body,) = journal.encode(good)
    rows = json.loads(body)
    newer = [{**rows[0], "v": version, "note": ticket} for version in (2, 3)]
    huge = {**rows[0], "id": "huge", "stamp": [0, 2**63, 0], "data": {"note": ticket}}
    for mixed in ([rows[0], newer[0], rows[1], newer[1]], [huge, rows[2], rows[3]]):
        wire = Wire(body=json.dumps(mixed).encode(), message_id="b")
        await producers.sender.send(producers.topology.to_journal(), wire, mandatory=True)

    for number in range(4):
        await soon(partial(store.ticket_status, f"{ticket}-{number}"))
    await soon(lambda: len(_set_aside(station, ticket)) == 2)

    assert _set_aside(station, ticket) == [[huge], newer]


def _set_aside(station: Station, ticket: str) -> list[Any]:
    """Return the journal batches in the spool that name a ticket."""
    found = [json.loads(file.read_bytes()) for file in station.data.glob("spool/*.body") if _names(file, ticket)]
    return sorted(found, key=lambda rows: rows[0]["v"])


def _names(file: Path, ticket: str) -> bool:
    return f'"note":"{ticket}"'.encode() in file.read_bytes()


def _event(ticket: str, name: EventName, *, at: float = 1.0, attempt: int = 1, data: Any = None) -> Event:
    return Event(
        event=name,
        at=at,
        ticket=ticket,
        kind="support.ticket",
        node="node-3",
        stamp=Stamp(generation=0, attempt=attempt, interruptions=0),
        data=data or {},
    )


def _ended(
    ticket: str,
    *,
    attempt: int,
    outcome: str,
    verdict: str = "quarantine",
    evidence: Any = None,
    event: EventName = EventName.FINISHED,
    at: float = 1.0,
) -> Event:
    data = {"outcome": outcome, "verdict": verdict, "seconds": 1.5, "evidence": evidence or {}}
    return _event(ticket, event, at=at, attempt=attempt, data=data)

"""The bytes of the wire contract, pinned in `golden/`: a change here breaks messages that are under way in queues.

After a change on purpose: `python -m tests.contract.test_golden` writes the files anew; read the diff.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from consumer import verdict
from consumer.census import Census, Turnover, WorkerSight, words
from consumer.intentions import Phase
from consumer.policy import Policy
from consumer.verdict import Ending, decide
from gateway.amqp.frames import content_header
from gateway.contract import journal
from gateway.contract.envelope import Admission, Envelope, Loss, Malformed, Spent, decode, encode, encode_malformed
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId, idempotent_ticket_id
from gateway.contract.journal import Condition, Event, EventName, Verdict
from gateway.contract.outcomes import Outcome, Stamp
from gateway.contract.references import folder_of
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.preflight import Limits, Submission, parse_ticket
from gateway.preflight.withdrawal import withdraw

GOLDEN = Path(__file__).parent / "golden"
_BEFORE_PROPERTIES = 12
"""Bytes of class, weight and size of the body, which say nothing of the message."""

RECORD = RunRecord(
    attempt=1, outcome=Outcome.CRASHED, node="node-1", worker=4711, started=1.25, seconds=0.5, code="signal:9"
)
ENVELOPE = Envelope(
    ticket=TicketId("9417"),
    kind="support.ticket",
    body="grüße".encode(),
    content_type="text/plain; charset=utf-8",
    submitted_at=1_796_000_000.0,
    attempt=2,
    crashes=1,
    interruptions=3,
    waits=2,
    waiting_since=1_796_000_002.5,
    generation=1,
    loss=Loss(holder="node-1", beat=1_796_000_003.25, at=1_796_000_004.75),
    spent=Spent(tokens=1200, usd=0.004),
    admission=Admission(
        bytes=7,
        charset="utf-8",
        tokens=2,
        exact=True,
        attachments=0,
        client="anonymous",
        admitted_at=1_796_000_000.5,
        marked=("unknown_member",),
        granted="01a22c94-a7b7-7df1-8f8e-aede4bb05f97",
        stored="9417~5891b5b522d5df086d0ff0b110fbd9d2",
        contents="5891b5b522d5df086d0ff0b110fbd9d24fb4fe7163af34d08286a2e846f6be03",
    ),
    history=History((RECORD,)),
    suspect="crashed",
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    foreign={"tenant": "acme"},
)


def _wire(wire: Wire) -> dict[str, Any]:
    row = asdict(wire) | {"body": wire.body.hex(), "message_id": "(fresh)"}
    pinned = content_header(wire, "0" * 36)
    return row | {"properties": pinned[_BEFORE_PROPERTIES:].hex()}


def _malformed() -> Wire:
    item = decode(
        Wire(body=b"x", headers={"lz-schema": 9}, correlation_id="later", type="k", content_type="text/plain")
    )
    assert isinstance(item, Malformed)
    return encode_malformed(item, reason="malformed")


def _adopted() -> dict[str, Any]:
    item = decode(Wire(body=b"abc", headers={"tenant": "acme", "x-death": []}, correlation_id="c1", type="good"))
    assert isinstance(item, Envelope)
    return {"ticket": item.ticket, "kind": item.kind, "attempt": item.attempt, "foreign": dict(item.foreign)}


def _journal() -> str:
    event = Event(
        id="01a22c94-a7b7-7df1-8f8e-aede4bb05f97",
        event=EventName.FINISHED,
        at=1_796_000_001.5,
        ticket="9417",
        kind="support.ticket",
        node="node-1",
        stamp=Stamp(generation=0, attempt=2, interruptions=1),
        crashes=1,
        data={"outcome": Outcome.CRASHED, "verdict": Verdict.RETRY, "evidence": {"signal": 9}},
    )
    return next(journal.encode([event])).decode()


def _node() -> str:
    worker = WorkerSight(pid=4712, phase=Phase.BUSY, runs=17, resident=64 << 20)
    turnover = Turnover(recycled=3, died=1, in_progress=1, growth=1024.5, suggested_runs=900)
    census = Census(workers=[worker], mold_pid=4711, mold_resident=48 << 20, turnover=turnover)
    event = Event(
        id="01a22c94-a7b7-7df1-8f8e-aede4bb05f98",
        event=EventName.NODE,
        at=1_796_000_001.5,
        ticket="",
        kind="",
        node="node-1",
        data={
            "lane": Lane.WORK,
            "state": Condition.READY,
            "obstacles": [],
            "every": 30.0,
            "build": "b1",
            "slots": {"busy": 1, "free": 0, "away": 0},
            **words(census),
        },
    )
    return next(journal.encode([event])).decode()


def _decision() -> str:
    ending = Ending(outcome=Outcome.CRASHED, record=RECORD, detail="its worker died")
    return verdict.write(decide(ENVELOPE, ending, Policy(), jitter=0.5))


def _topology() -> dict[str, Any]:
    topology = Topology()
    return {
        "exchanges": [asdict(item) for item in topology.exchanges()],
        "queues": [asdict(item) for item in topology.queues()],
        "bindings": [asdict(item) for item in topology.bindings()],
        "delay of 90 s": asdict(topology.to_delay(Lane.SUSPECTS, 90)),
    }


def _withdrawn(body: bytes, content_type: str) -> str:
    ticket = parse_ticket(Submission(body=body, content_type=content_type, kind="k"), Limits()).ticket
    assert ticket is not None
    folder = folder_of(TicketId("9417"), body)
    taken = withdraw(body, content_type, ticket.attachments, folder=folder, above=8)
    assert taken is not None
    return taken.body.decode("latin-1")


def _references() -> dict[str, str]:
    return {
        "json": _withdrawn(
            b'{"kind": "k", "body": "gr\xc3\xbc\xc3\x9fe", "attachments": '
            b'[{"name": "a.txt", "content": "text, and more"},'
            b' {"name": "b.pdf", "content_type": "application/pdf", "content_base64": "bm90IGEgUERG"},'
            b' {"name": "c", "content": "short"}]}',
            "application/json",
        ),
        "multipart": _withdrawn(
            b'--b\r\nContent-Disposition: form-data; name="body"\r\n\r\nhello\r\n'
            b'--b\r\nContent-Disposition: form-data; name="f"; filename="d.bin"\r\n\r\n0123456789\r\n--b--\r\n',
            "multipart/form-data; boundary=b",
        ),
    }


WRITERS: dict[str, Callable[[], Any]] = {
    "envelope": lambda: _wire(encode(ENVELOPE)),
    "malformed": lambda: _wire(_malformed()),
    "adopted": _adopted,
    "journal": _journal,
    "node": _node,
    "decision": _decision,
    "topology": _topology,
    "references": _references,
    "idempotent_id": lambda: idempotent_ticket_id("anonymous", "order-66"),
}


def _shown(name: str) -> str:
    return json.dumps(WRITERS[name](), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


@pytest.mark.parametrize("name", WRITERS)
def test_the_bytes_of_the_contract_are_as_they_were(name: str) -> None:
    assert _shown(name) == (GOLDEN / f"{name}.json").read_text("utf-8")


def test_what_was_written_then_is_read_now() -> None:
    row = json.loads((GOLDEN / "envelope.json").read_text("utf-8"))
    names = {name: row[name] for name in Wire.__slots__ if name != "body"}
    assert decode(Wire(body=bytes.fromhex(row["body"]), **names)) == ENVELOPE


if __name__ == "__main__":
    for name in WRITERS:
        (GOLDEN / f"{name}.json").write_text(_shown(name), "utf-8")

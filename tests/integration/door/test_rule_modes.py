"""Rules that are observed let in, count and mark; a dry run says what a submission would say, whatever comes."""

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.journal import EventName
from gateway.contract.rules import DEFAULTS
from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import Answer, RunningDoor
from tests.support.received import received
from tests.support.waiting import soon

RULES = json.dumps({"too_many_tokens": "observe", "unknown_member": "observe"})
KINDS = json.dumps({"strict.kind": {"rules": {"too_many_tokens": "enforce"}, "max_attachments": 1}})
SETTINGS = {"rules": RULES, "kinds": KINDS, "max_tokens": "50", "max_attachments": "2", "max_body_bytes": "4KiB"}
LONG = "one two three four five six " * 20


async def test_what_breaks_an_observed_rule_is_admitted_counted_and_marked_on_its_way(start: StartDoor) -> None:
    async with await start(**SETTINGS) as door:
        answer = await door.submit({"kind": "support.ticket", "body": LONG, "colour": "red"})
        assert answer.status == 202, answer
        told = answer.document["checks"]["observed"]
        assert [violation["rule"] for violation in told] == ["unknown_member", "too_many_tokens"]
        assert (told[1]["limit"], told[1]["unit"]) == (50, "tokens")

        counted = 'lazaretto_admission_refusals_total{mode="observe",rule="too_many_tokens"}'
        assert await door.metric(counted) == 1
        assert (await door.ask("POST", "/v1/tickets:check", json={"kind": "a", "body": LONG})).status == 200
        assert await door.metric(counted) == 1, "a dry run turned nobody away and let nobody in"

        item = envelopes.decode(received((await door.take())[0]))
        assert isinstance(item, Envelope)
        assert item.admission is not None
        assert item.admission.marked == ("unknown_member", "too_many_tokens")
        accepted = await _event(door, EventName.ACCEPTED)
        assert accepted.data["marked"] == ["unknown_member", "too_many_tokens"]

        strict = await door.submit({"kind": "strict.kind", "body": LONG})
        assert (strict.status, strict.document["violations"][0]["rule"]) == (422, "too_many_tokens")

        limits = (await door.ask("GET", "/v1/limits")).document
        told = {**{rule.value: mode.value for rule, mode in DEFAULTS.items()}, **json.loads(RULES)}
        assert limits["rules"] == told
        assert limits["kinds"] == {"strict.kind": {"max_attachments": 1, "rules": {"too_many_tokens": "enforce"}}}


async def _event(door: RunningDoor, name: EventName) -> Any:
    found: list[Any] = []

    async def arrived() -> bool:
        found.extend(event for event in await door.events() if event.event is name)
        return bool(found)

    await soon(arrived, saying=f"{name} is in the journal")
    return found[0]


TEXTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from([LONG, "", "\ufffd" * 40, "\x01" * 60, "x" * 5000, "a\0b", "été"]),
)
ATTACHMENTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.text(max_size=8),
            "content": TEXTS,
            "content_base64": st.sampled_from(["JVBERi0=", "iVBORw0KGgo=", "?", ""]),
            "content_type": st.sampled_from(["text/plain", "image/png", "application/pdf", "no type"]),
            "odd": st.none() | st.integers(),
        },
    ),
    max_size=4,
)
TICKETS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["support.ticket", "strict.kind", "No Kind", "other"]),
        "body": TEXTS,
        "subject": TEXTS,
        "attributes": st.dictionaries(st.text(max_size=5), TEXTS, max_size=2),
        "attachments": ATTACHMENTS,
        "colour": st.booleans(),
    },
)
BODIES = st.one_of(
    TICKETS.map(lambda ticket: json.dumps(ticket).encode()),
    TEXTS.map(lambda text: text.encode()),
    TEXTS.map(lambda text: text.encode("cp1251", "replace")),
    st.binary(max_size=200),
    st.sampled_from([b"[" * 300, b'{"a":1,"a":2}', b'{"kind":"k","body":"\\ud800"}', b"\xff\xfeh\0i\0"]),
)
TYPES = st.sampled_from(
    [
        "application/json",
        "text/plain",
        "text/plain; charset=latin1",
        "multipart/form-data; boundary=b",
        "image/png",
        "x",
    ]
)


def _said(answer: Answer) -> dict[str, Any]:
    """What an answer says of the ticket itself, without what belongs to this one request."""
    document = answer.document
    if answer.status in {200, 202}:
        return {"admitted": True, "checks": document["checks"]}
    own = {"request_id", "instance"}
    return {"status": answer.status, **{name: value for name, value in document.items() if name not in own}}


async def test_a_dry_run_and_a_submission_never_differ(start: StartDoor) -> None:
    async with await start(**SETTINGS) as door:
        loop = asyncio.get_running_loop()

        async def both(body: bytes, content_type: str, kind: str | None) -> tuple[Answer, Answer]:
            query = "" if kind is None else f"?kind={kind}"
            headers = {"Content-Type": content_type}
            dry = await door.ask("POST", f"/v1/tickets:check{query}", data=body, headers=headers)
            return dry, await door.ask("POST", f"/v1/tickets{query}", data=body, headers=headers)

        @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(BODIES, TYPES, st.sampled_from([None, "support.ticket", "strict.kind", "BAD"]))
        def agree(body: bytes, content_type: str, kind: str | None) -> None:
            if content_type.startswith("multipart"):
                body = b"--b\r\nContent-Disposition: form-data; name=body\r\n\r\n" + body + b"\r\n--b--\r\n"
            dry, real = asyncio.run_coroutine_threadsafe(both(body, content_type, kind), loop).result(60)
            assert dry.status in {200, real.status}
            assert (dry.status == 200) == (real.status == 202)
            assert _said(dry) == _said(real)

        await asyncio.to_thread(agree)


@pytest.mark.parametrize("name", ["application/pdf", "application/octet-stream"])
async def test_an_attachment_of_another_type_than_declared_is_observed_by_default(door: RunningDoor, name: str) -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()
    ticket = {"kind": "support.ticket", "body": "x", "attachments": [{"content_base64": png, "content_type": name}]}
    answer = await door.submit(ticket)
    assert answer.status == 202
    told = [violation["rule"] for violation in answer.document["checks"].get("observed", [])]
    assert told == (["attachment_mismatch"] if name == "application/pdf" else [])

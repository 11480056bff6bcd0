"""A refusal from the door to the reviewer and back: on record, judged anew, let in anyway, isolated, audited (G5)."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.embedded import EmbeddedBroker
from tests.support.house import Answer, House, call
from tests.support.program import Programs
from tests.support.waiting import eventually

LONG = "one two three four five six " * 20


@pytest.fixture(scope="module")
def house(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder: Path = tmp_path_factory.mktemp("refusals")
    programs = Programs(folder)
    extra = {
        "LAZARETTO_MAX_TOKENS": "100",
        "LAZARETTO_REFUSED_SAMPLE": "16",
        "LAZARETTO_KINDS": json.dumps({"good.private": {"private": True}}),
    }
    house = House(programs, broker.url, f"t{uuid4().hex[:10]}", folder, extra=extra)
    try:
        house.open()
        yield house
    finally:
        programs.close()


def _multipart(boundary: str) -> bytes:
    parts = (("body", LONG, ""), ("file", "attached", '; filename="a.txt"'))
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{rest}\r\n\r\n{text}\r\n'
        for name, text, rest in parts
    ]
    return ("".join(lines) + f"--{boundary}--\r\n").encode()


def _send(house: House, body: bytes, content_type: str, kind: str = "good", **headers: str) -> Answer:
    url = f"http://127.0.0.1:{house.door_port}/v1/tickets?kind={kind}"
    return call("POST", url, body, 30.0, Content_Type=content_type, **headers)


def _refused(house: House, body: bytes, content_type: str, kind: str = "good") -> str:
    answer = _send(house, body, content_type, kind)
    assert answer.status == 422, answer
    request = str(answer.body["request_id"])
    eventually(lambda: request in house.command("rejections").stdout, saying="the refusal is on record")
    return request


def _asked(house: House, *arguments: str) -> object:
    done = house.command("rejections", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _record(house: House, request: str) -> dict[str, object]:
    found = _asked(house)
    assert isinstance(found, list)
    return next(refusal for refusal in found if refusal["ticket"] == request)


def test_a_refusal_is_let_in_anyway_when_its_client_sends_it_again_marked_isolated_and_only_once(house: House) -> None:
    request = _refused(house, _multipart("first"), "multipart/form-data; boundary=first")
    assert "1 would have passed" in house.command("rejections", "--if", "max_tokens=200").stdout
    assert house.command("rejections", "admit", request, "--by", "eva").returncode == 2, "a reason is mandatory"

    done = house.command("rejections", "admit", request, "--by", "eva", "--reason", "a good customer", "--json")
    assert done.returncode == 0, done.stderr
    ticket = json.loads(done.stdout)["id"]

    def let_in() -> Answer | None:
        answer = _send(house, _multipart("second"), "multipart/form-data; boundary=second")
        return answer if answer.status == 202 else None

    answer = eventually(let_in, saying="the door knows of the pass")
    assert answer is not None
    assert answer.body["id"] == ticket
    assert [violation["rule"] for violation in answer.body["checks"]["observed"]] == ["too_many_tokens"]
    house.until(ticket, "done")
    again = _send(house, _multipart("third"), "multipart/form-data; boundary=third", Idempotency_Key="of-its-own")
    assert (again.status, again.body["id"], again.headers["Idempotency-Replayed"]) == (202, ticket, "true")

    shown = house.show(ticket)
    assert [(run["outcome"], run["lane"]) for run in shown["runs"]] == [("succeeded", "suspects")]
    assert [(act["act"], act["actor"], act["reason"]) for act in shown["audit"]] == [
        ("admitted anyway", "eva", "a good customer")
    ]
    other = _send(house, _multipart("other").replace(b"attached", b"changed"), "multipart/form-data; boundary=other")
    assert other.status == 422, "the pass is for one body"


def test_a_pass_lets_in_no_other_body_that_hides_its_difference_in_a_boundary(house: House) -> None:
    plain = json.dumps({"kind": "good", "body": LONG}).encode()
    request = _refused(house, plain, "application/json")
    done = house.command("rejections", "admit", request, "--by", "eva", "--reason", "a good customer", "--json")
    assert done.returncode == 0, done.stderr

    def let_in() -> Answer | None:
        answer = _send(house, plain, "application/json")
        return answer if answer.status == 202 else None

    answer = eventually(let_in, saying="the door knows of the pass")
    assert answer is not None
    assert answer.body["id"] == json.loads(done.stdout)["id"]
    for number in range(3):
        hidden = f'"id":"again-{number}",'
        boundary = hidden.replace('"', '\\"')
        sent = plain.replace(b"{", b"{" + hidden.encode(), 1)
        other = _send(house, sent, f'application/json; boundary="{boundary}"')
        assert other.status == 422, other


def test_what_is_no_ticket_is_not_let_in_and_the_command_says_why(house: House) -> None:
    request = _refused(house, b"a\0b", "text/plain")
    done = house.command("rejections", "admit", request, "--by", "eva", "--reason", "please")
    assert (done.returncode, done.stdout) == (1, "")
    assert "it breaks nul, which is always enforced" in done.stderr


def test_of_private_kinds_and_of_bodies_whose_kind_is_unknown_no_sample_is_kept(house: House) -> None:
    private = _refused(house, b"secret \0", "text/plain", "good.private")
    assert _record(house, private)["sample"] is None
    public = _refused(house, b"no secret \0 and much more text", "text/plain")
    assert _record(house, public)["sample"] == "no secret \ufffd and "
    url = f"http://127.0.0.1:{house.door_port}/v1/tickets"
    answer = call("POST", url, b'{"kind":"good.private","body":"secret', Content_Type="application/json")
    assert answer.status == 400
    unknown = str(answer.body["request_id"])
    eventually(lambda: unknown in house.command("rejections").stdout, saying="the refusal is on record")
    assert _record(house, unknown)["sample"] is None


def test_refusals_are_grouped_by_rule_and_client(house: House) -> None:
    _refused(house, b"\0\0", "text/plain", "good.grouped")
    groups = _asked(house, "--kind", "good.grouped", "--by-rule")
    assert isinstance(groups, list)
    assert [one["by"] for one in groups] == [{"rule": "nul", "client": "anonymous"}]
    assert "nul  anonymous" in house.command("rejections", "--kind", "good.grouped", "--by-rule").stdout

"""The JSON API: what it reads, what it answers, and how everything that goes wrong is told (RFC 9457).

Every answer is held against the OpenAPI document.
"""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp.test_utils import TestClient, TestServer

from gateway.settings import StationSettings, load
from gateway.station.desk import routes
from gateway.station.holding import ItemState
from gateway.station.store import Store
from gateway.station.tables.operations import replays
from gateway.station.vitals import Vitals
from tests.unit.station import described
from tests.unit.station.selected import hold, leave_in_doubt, newest, report

WHO = {"by": "ana", "reason": "fixed"}
NOBODY = ("amqp://guest:guest@127.0.0.1:1/",)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


@pytest.fixture
async def desk(store: Store) -> AsyncIterator[TestClient[Any, Any]]:
    settings = load(StationSettings, broker_url=NOBODY, replay_limit=3)
    async with TestClient(TestServer(routes.application(settings, store, Vitals()))) as client:
        yield client


async def _call(desk: TestClient[Any, Any], method: str, path: str, **named: Any) -> tuple[int, dict[str, Any]]:
    async with desk.request(method, path, **named) as answer:
        told: dict[str, Any] = json.loads(await answer.text())
        if path.startswith("/v1/"):
            described.check(method, path, answer.status, answer.content_type, told)
        return answer.status, told


async def test_items_are_listed_by_filter_page_by_page_and_shown_whole(
    desk: TestClient[Any, Any], store: Store
) -> None:
    for number in range(3):
        await hold(store, f"t{number}", at=float(number), kind="a" if number else "b")
        await report(store, f"t{number}", "crashed", signal=9)
    _, first = await _call(desk, "GET", "/v1/quarantine?limit=2&kind=a&kind=b&signal=9")
    _, second = await _call(desk, "GET", f"/v1/quarantine?limit=2&after={first['next']}")
    assert first["total"] == 3
    assert [item["ticket"] for item in first["items"] + second["items"]] == ["t0", "t1", "t2"]
    assert second["next"] is None
    assert (await _call(desk, "GET", "/v1/quarantine?kind=b&text=nowhere"))[1]["total"] == 0
    status, shown = await _call(desk, "GET", "/v1/quarantine/t1")
    assert (status, shown["ticket"], shown["lineage"], len(shown["runs"])) == (200, "t1", [], 1)


async def test_the_second_reviewer_gets_409_and_who_won_and_when(desk: TestClient[Any, Any], store: Store) -> None:
    await hold(store, "t")
    status, done = await _call(desk, "POST", "/v1/quarantine/t/discard", json={**WHO, "code": "duplicate"})
    assert (status, done["decision"], done["by"]) == (200, "discarded", "ana")
    ben = {"by": "ben", "reason": "mine", "generation": 0}
    for act in ("discard", "replay"):
        status, told = await _call(desk, "POST", f"/v1/quarantine/t/{act}", json=ben)
        assert status == 409
        assert told["winner"] == {
            "state": "discarded",
            "by": "ana",
            "at": (await newest(store, "t")).decided_at,
            "reason": "fixed",
        }
    status, _ = await _call(desk, "POST", "/v1/quarantine/t/restore", json={"by": "ben", "reason": "it was none"})
    assert status == 200
    assert (await newest(store, "t")).state is ItemState.HELD


TROUBLE: list[tuple[str, dict[str, Any], int, str]] = [
    ("t/discard", {"json": {"reason": "x"}}, 422, "say who you are"),
    ("t/discard", {"json": {"by": " ", "reason": "x"}}, 400, "by:"),
    ("t/discard", {"json": {"by": "ana", "reason": " "}}, 400, "reason:"),
    ("t/discard", {"json": {**WHO, "code": "boredom"}}, 400, "code:"),
    ("t/discard", {"json": {**WHO, "color": "red"}}, 400, "color:"),
    ("t/discard", {"data": b"{", "headers": {"Content-Type": "application/json"}}, 400, "no JSON"),
    ("t/discard", {"data": b'"\\ud800"', "headers": {"Content-Type": "application/json"}}, 400, "no JSON"),
    ("t/discard", {"data": b"x", "headers": {"Content-Type": "application/xml"}}, 415, "application/json"),
    ("t/replay", {"json": {**WHO, "edit": {"body_base64": "?"}}}, 400, "no base64"),
    ("t/replay", {"json": {**WHO, "lane": "fast"}}, 400, "lane:"),
    ("nobody/replay", {"json": WHO}, 404, "never in quarantine"),
    ("t/replay", {"json": WHO}, 503, "no connection"),
    ("t/replay", {"json": {**WHO, "resume": True}}, 409, "is held"),
    ("t/restore", {"json": WHO}, 409, "is held"),
]


async def test_what_cannot_be_done_is_told_as_a_problem(desk: TestClient[Any, Any], store: Store) -> None:
    await hold(store, "t")
    for path, named, status, said in TROUBLE:
        found, told = await _call(desk, "POST", f"/v1/quarantine/{path}", **named)
        assert (found, told["status"]) == (status, status), told
        assert said in told["detail"]
        assert (await newest(store, "t")).state is ItemState.HELD


async def test_an_edit_is_tried_by_the_doors_checks_before_anything_is_sent(
    desk: TestClient[Any, Any], store: Store
) -> None:
    await hold(store, "t", content_type="text/plain; charset=utf-8")
    good = {**WHO, "dry_run": True, "edit": {"text": "hello, world"}}
    status, tried = await _call(desk, "POST", "/v1/quarantine/t/replay", json=good)
    assert (status, tried["decision"]) == (200, "none")
    assert "-hello\n+hello, world\n" in tried["difference"]
    binary = base64.b64encode(b"\xff\xfe\xfd").decode()
    status, refused = await _call(
        desk, "POST", "/v1/quarantine/t/replay", json={**WHO, "edit": {"body_base64": binary}}
    )
    assert (status, refused["reason"]) == (422, "inadmissible")
    assert refused["violations"][0]["rule"] == "undecodable"
    assert "5 bytes -> 3 bytes" in refused["difference"]
    status, wrong = await _call(desk, "POST", "/v1/quarantine/t/replay", json={**WHO, "edit": {"subject": "s"}})
    assert (status, wrong["reason"]) == (422, "not_editable")
    assert (await newest(store, "t")).state is ItemState.HELD


async def test_where_a_look_at_a_body_is_an_act_no_difference_tells_what_is_in_it(store: Store) -> None:
    await hold(store, "t", content_type="text/plain; charset=utf-8")
    settings = load(StationSettings, broker_url=NOBODY, desk_reveal=True)
    async with TestClient(TestServer(routes.application(settings, store, Vitals()))) as desk:
        tried = {**WHO, "dry_run": True, "edit": {"text": "other"}}
        assert (await _call(desk, "POST", "/v1/quarantine/t/replay", json=tried))[1]["difference"] is None
        binary = {**WHO, "edit": {"body_base64": "/w=="}}
        assert "difference" not in (await _call(desk, "POST", "/v1/quarantine/t/replay", json=binary))[1]
        async with store.writing() as transaction:
            await transaction.execute(
                sa.insert(replays).values(
                    ticket="t", generation=0, lane="work", by="ana", begun_at=1.0, in_doubt=0, difference="-secret"
                )
            )
        for path in ("/v1/quarantine/t", "/api/items/t"):
            (descent,) = (await _call(desk, "GET", path))[1]["lineage"]
            assert (descent["by"], descent["difference"]) == ("ana", None)


async def test_an_operation_is_drafted_once_started_once_and_stopped(desk: TestClient[Any, Any], store: Store) -> None:
    for ticket in ("a", "b"):
        await hold(store, ticket)
    wanted = {"act": "discard", "filter": {"tickets": ["a", "b", "c"]}, "code": "withdrawn", "by": "ana"}
    key = {"Idempotency-Key": "press"}
    made, again = [await _call(desk, "POST", "/v1/operations", json=wanted, headers=key) for _ in range(2)]
    assert (made[0], again[0]) == (201, 200)
    assert made[1] == again[1]
    name = made[1]["id"]
    assert (made[1]["state"], made[1]["counts"]["waiting"], made[1]["counts"]["skipped"]) == ("draft", 2, 1)
    other = {**wanted, "act": "replay"}
    assert (await _call(desk, "POST", "/v1/operations", json=other, headers=key))[0] == 409
    _, lines = await _call(desk, "GET", f"/v1/operations/{name}/items?outcome=skipped")
    assert [(line["ticket"], line["why"]) for line in lines["items"]] == [("c", "it was never in quarantine here")]

    assert (await _call(desk, "POST", f"/v1/operations/{name}/start", json={**WHO, "expect": 3}))[0] == 409
    for _ in range(2):
        status, started = await _call(desk, "POST", f"/v1/operations/{name}/start", json={**WHO, "expect": 2})
        assert (status, started["state"], started["started_by"]) == (200, "running", "ana")
    status, stopped = await _call(desk, "POST", f"/v1/operations/{name}/stop", json={"by": "ben", "reason": "no"})
    assert (status, stopped["state"], stopped["note"]) == (200, "stopped", "stopped by ben: no")
    status, going_on = await _call(desk, "POST", f"/v1/operations/{name}/continue", json=WHO)
    assert (status, going_on["state"]) == (200, "running")
    _, all_of_them = await _call(desk, "GET", "/v1/operations")
    assert [one["id"] for one in all_of_them["operations"]] == [name]
    assert (await _call(desk, "GET", "/v1/operations/none"))[0] == 404
    assert (await _call(desk, "POST", "/v1/operations/none/stop", json=WHO))[0] == 404


async def test_what_is_unconfirmed_is_listed_and_resumed_as_an_operation_of_its_own(
    desk: TestClient[Any, Any], store: Store
) -> None:
    for ticket in ("a", "b"):
        await hold(store, ticket)
    await leave_in_doubt(store, "b")
    for query, tickets in (("unconfirmed=true", ["b"]), ("unconfirmed=false", ["a"])):
        _, listed = await _call(desk, "GET", f"/v1/quarantine?{query}")
        assert [item["ticket"] for item in listed["items"]] == tickets
    wanted = {"act": "resume", "canary": 1, "lane": "suspects", "by": "ana"}
    status, made = await _call(desk, "POST", "/v1/operations", json=wanted)
    assert (status, made["act"], made["state"], made["total"]) == (201, "resume", "draft", 1)
    assert (made["lane"], made["canary"], made["filter"]) == (None, 1, {"states": ["replaying"], "unconfirmed": True})
    status, started = await _call(desk, "POST", f"/v1/operations/{made['id']}/start", json={**WHO, "expect": 1})
    assert (status, started["state"]) == (200, "running")


async def test_the_audit_log_is_given_as_json_lines_by_filter(desk: TestClient[Any, Any], store: Store) -> None:
    for ticket in ("a", "b"):
        await hold(store, ticket)
        await _call(desk, "POST", f"/v1/quarantine/{ticket}/discard", json={**WHO, "code": "harmful"})
    async with desk.get("/v1/audit?ticket=b") as answer:
        (line,) = [json.loads(line) for line in (await answer.text()).splitlines()]
        described.check("GET", "/v1/audit", answer.status, answer.content_type, line)
    assert {name: line[name] for name in ("actor", "act", "code", "reason", "ticket", "operation")} == {
        "actor": "ana",
        "act": "discard",
        "code": "harmful",
        "reason": "fixed",
        "ticket": "b",
        "operation": None,
    }
    assert (await _call(desk, "GET", "/v1/audit?since=yesterday"))[0] == 400
    assert (await _call(desk, "GET", "/v1/audit?ticket=a&ticket=b"))[0] == 400


async def test_refusals_are_listed_grouped_and_supposed(desk: TestClient[Any, Any]) -> None:
    assert (await _call(desk, "GET", "/v1/rejections"))[1] == {"total": 0, "rejections": []}
    assert (await _call(desk, "GET", "/v1/rejections?group=rule,client"))[1] == {"groups": []}
    _, supposed = await _call(desk, "GET", "/v1/rejections?if=max_tokens=5&if=lossy_text=off")
    assert supposed["supposed"] == {"max_tokens": 5, "lossy_text": "off"}
    assert (await _call(desk, "GET", "/v1/rejections?group=color"))[0] == 400
    assert (await _call(desk, "GET", "/v1/rejections?if=max_tokens=many"))[0] == 400
    assert (await _call(desk, "GET", "/v1/rejections?rule=none"))[0] == 400
    status, told = await _call(desk, "POST", "/v1/rejections/r-1/admit", json=WHO)
    assert (status, "no refusal of a request" in told["detail"]) == (409, True)

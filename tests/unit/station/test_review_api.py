"""The JSON API of reviews: the same acts as on the command line, and every refusal in one form."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from gateway.settings import StationSettings, load
from gateway.station.desk import routes
from gateway.station.store import Store
from gateway.station.vitals import Vitals
from tests.unit.station import described
from tests.unit.station.patients import fall_ill, opened

WHO = {"by": "ana", "reason": "looking into it"}
BEN = {"by": "ben", "reason": "mine"}


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with opened(store_url) as found:
        yield found


@pytest.fixture
async def desk(store: Store) -> AsyncIterator[TestClient[Any, Any]]:
    application = routes.application(load(StationSettings), store, Vitals())
    async with TestClient(TestServer(application)) as client:
        yield client


async def _get(desk: TestClient[Any, Any], path: str) -> Any:
    async with desk.get(path) as answer:
        assert answer.status == 200, await answer.text()
        found = orjson.loads(await answer.text())
        described.check("GET", path, answer.status, answer.content_type, found)
        return found


async def _post(desk: TestClient[Any, Any], path: str, **members: Any) -> tuple[int, dict[str, Any]]:
    async with desk.post(f"/v1/{path}", json=members) as answer:
        found = orjson.loads(await answer.text())
        described.check("POST", f"/v1/{path}", answer.status, answer.content_type, found)
        return answer.status, found


async def test_an_item_is_given_put_on_hold_and_released_and_the_second_one_gets_409(
    desk: TestClient[Any, Any], store: Store
) -> None:
    await fall_ill(store, "t1")
    status, done = await _post(desk, "quarantine/t1/assign", owner="ana", seen="", **WHO)
    assert (status, done["owner"], done["by"]) == (200, "ana", "ana")
    status, told = await _post(desk, "quarantine/t1/assign", owner="ben", seen="", **BEN)
    assert (status, told["detail"]) == (409, "ticket t1 is ana by now, not nobody's")
    assert (await _post(desk, "quarantine/t1/hold", **WHO))[0] == 200
    assert (await _post(desk, "quarantine/t1/hold", **BEN))[0] == 409
    status, told = await _post(desk, "quarantine/t1/discard", **BEN)
    assert (status, told["reason"]) == (409, "on_hold")
    assert [item["ticket"] for item in (await _get(desk, "/v1/quarantine?on_hold=true&owner=ana"))["items"]] == ["t1"]
    assert (await _get(desk, "/v1/quarantine?on_hold=false"))["items"] == []
    assert (await _post(desk, "quarantine/t1/release", **BEN))[0] == 200
    assert (await _post(desk, "quarantine/t1/discard", **BEN))[0] == 200


async def test_groups_notes_and_why_are_there(desk: TestClient[Any, Any], store: Store) -> None:
    await fall_ill(store, "t1")
    await fall_ill(store, "t2")
    (group,) = (await _get(desk, "/v1/groups?kind=k"))["groups"]
    assert (group["items"], group["tickets"]) == (2, ["t1", "t2"])
    assert (await _post(desk, f"groups/{group['id']}/notes", text="known 😀", by="ana"))[0] == 200
    assert (await _post(desk, "quarantine/t1/notes", text="asked", by="ben"))[0] == 200
    shown = await _get(desk, f"/v1/groups/{group['id']}")
    assert ([note["text"] for note in shown["notes"]], shown["acts"][0]["act"]) == (["known 😀"], "note")
    why = await _get(desk, "/v1/quarantine/t1/why")
    assert [note["text"] for note in why["notes"]] == ["known 😀", "asked"]
    assert why["group"]["id"] == group["id"]
    assert [item["ticket"] for item in (await _get(desk, f"/v1/quarantine?group={group['id']}"))["items"]] == [
        "t1",
        "t2",
    ]
    assert (await _get(desk, "/v1/caseload"))["owners"][0]["unreviewed"] == 2


async def test_a_record_is_signed_as_it_was_read_or_not_at_all(desk: TestClient[Any, Any], store: Store) -> None:
    await fall_ill(store, "t1")
    seen = await _get(desk, "/v1/quarantine/t1/review")
    await _post(desk, "quarantine/t1/notes", text="asked", by="ben")
    assert (await _post(desk, "quarantine/t1/review", digest=seen["digest"], **WHO))[0] == 409
    seen = await _get(desk, "/v1/quarantine/t1/review")
    status, signed = await _post(desk, "quarantine/t1/review", digest=seen["digest"], **WHO)
    assert (status, signed["signed"], signed["sign_offs"][0]["words"]) == (200, True, "looking into it")
    await _post(desk, "quarantine/t1/discard", **BEN)
    late = await _get(desk, "/v1/quarantine/t1/review")
    assert [entry["what"] for entry in late["entries"] if entry["after_sign_off"]] == ["discard"]
    assert not late["signed"]


@pytest.mark.parametrize(
    ("path", "members", "status", "told"),
    [
        ("quarantine/none/assign", {"owner": "x", **WHO}, 404, "Nothing of ticket 'none'"),
        ("quarantine/none/notes", {"text": "x", "by": "ana"}, 404, "Nothing of ticket 'none'"),
        ("quarantine/none/release", WHO, 409, "not on hold"),
        ("quarantine/none/review", {"digest": "x", **WHO}, 404, "Nothing of ticket 'none'"),
        ("groups/none/notes", {"text": "x", "by": "ana"}, 404, "no group 'none'"),
        ("quarantine/t/assign", WHO, 400, "owner:"),
        ("quarantine/t/assign", {"owner": "a\nb", **WHO}, 400, "owner:"),
        ("quarantine/t/assign", {"owner": "😀" * 17, **WHO}, 400, "64 bytes"),
        ("quarantine/t/notes", {"text": " ", "by": "ana"}, 400, "text:"),
        ("quarantine/t/hold", {"reason": "x"}, 422, "say who you are"),
    ],
)
async def test_what_cannot_be_done_is_a_problem(
    tmp_path: Any, path: str, members: dict[str, Any], status: int, told: str
) -> None:
    async with opened(f"sqlite+aiosqlite:///{tmp_path}/station.db") as store:
        application = routes.application(load(StationSettings), store, Vitals())
        async with TestClient(TestServer(application)) as client:
            found, problem = await _post(client, path, **members)
            assert (found, told in problem["detail"]) == (status, True), problem
            for unknown in ("quarantine/none/why", "quarantine/none/review", "groups/none"):
                async with client.get(f"/v1/{unknown}") as answer:
                    assert (answer.status, answer.content_type) == (404, "application/problem+json")

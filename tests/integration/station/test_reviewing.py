"""One road through a review, with real deaths: whose it is, why it is here, what must wait, what was signed."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from gateway.embedded import EmbeddedBroker
from tests.support.house import Answer, House, call
from tests.support.postgresql import Postgresql
from tests.support.program import Programs
from tests.support.waiting import eventually

BY = ("--by", "ana", "--reason", "the parser is at fault")
POLICY = """
owner = "desk"
review_within = "1d"
[kinds.fail]
owner = "{owner}"
review_within = "{within}"
max_attempts = 1
"""


@pytest.fixture
def house(broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path) -> House:
    return House(programs, broker.url, prefix, tmp_path, extra={"LAZARETTO_CONFIG": str(tmp_path / "lazaretto.toml")})


def _policy(house: House, owner: str, within: str) -> None:
    Path(house.extra["LAZARETTO_CONFIG"]).write_text(POLICY.format(owner=owner, within=within), "utf-8")


def _get(house: House, path: str) -> dict[str, Any]:
    answer = call("GET", f"http://127.0.0.1:{house.desk_port}/v1/{path}")
    assert answer.status == 200, answer
    return answer.body


def _post(house: House, path: str, **members: str) -> Answer:
    body = json.dumps({"by": "ana", "reason": "the parser is at fault", **members}).encode()
    url = f"http://127.0.0.1:{house.desk_port}/v1/{path}"
    return call("POST", url, body, Content_Type="application/json")


def test_a_reviewer_finds_out_why_has_things_wait_and_signs(house: House, postgresql: Postgresql) -> None:
    house.extra["LAZARETTO_STORE_URL"] = postgresql.database()
    _policy(house, "team-parser", "1h")
    house.door()
    station = house.station()
    house.node(workers=2)
    assert house.command("hold", "sick-4", *BY).returncode == 0
    fine = [house.accepted("good", f"fine-{number}") for number in range(14)]
    sick = [house.accepted("fail", f"sick-{number}", "a word of it " * 31_000) for number in range(5)]
    house.balance([*fine, *sick], 60.0)
    found: list[dict[str, Any]] = eventually(
        lambda: [one for one in _get(house, "groups")["groups"] if one["items"] == 5], 20.0, saying="one group has all"
    )
    (group,) = found
    assert (group["what"], group["frames"][0]) == ("ValueError", "support/handlers.py: handle")
    assert {item["owner"] for item in _get(house, f"quarantine?group={group['id']}")["items"]} == {"team-parser"}
    why = house.command("why", "sick-0")
    assert (why.returncode, why.stderr) == (0, "")
    assert "what they share: 5 of 5 are over 300 KiB; 0 of 14 others" in why.stdout

    assert _post(house, "quarantine/sick-1/assign", owner="ben").status == 200
    assert _post(house, "quarantine/sick-1/assign", owner="eve", seen="team-parser").status == 409
    chosen = ("--group", group["id"], "--owner", "team-parser", "--yes", "--wait", "--json")
    many = json.loads(house.command("operations", "discard", *chosen, *BY).stdout)
    assert (many["counts"]["discarded"], many["counts"]["skipped"]) == (3, 1), many
    alone = _post(house, "quarantine/sick-4/discard")
    assert (alone.status, alone.body["reason"]) == (409, "on_hold")

    _policy(house, "team-two", "1s")
    station.signal(signal.SIGHUP)
    eventually(lambda: _get(house, "quarantine?owner=team-two&on_hold=true")["items"], saying="owners changed")
    station.wait_for_log(r"review\.overdue.*sick-1")
    (load,) = (one for one in _get(house, "caseload")["owners"] if one["owner"] == "ben")
    assert (load["unreviewed"], load["overdue"]) == (1, 1)

    signed = json.loads(house.command("review", "sick-0", "--sign-off", "--json", *BY).stdout)
    assert [entry["what"] for entry in signed["entries"]] == ["run", "arrived", "discard"]
    assert (signed["signed"], signed["sign_offs"][0]["words"]) == (True, BY[3])
    assert _post(house, "quarantine/sick-0/restore").status == 200
    assert "after sign-off  restore by ana" in house.command("review", "sick-0").stdout
    assert _post(house, "quarantine/sick-4/release").status == 200
    assert _post(house, "quarantine/sick-4/discard").status == 200


def test_a_policy_file_with_a_mistake_changes_nothing_and_names_it(house: House) -> None:
    _policy(house, "ana", "1h")
    house.door()
    station = house.station()
    station.wait_for_log("duties.known")
    _policy(house, "ana", "soon")
    station.signal(signal.SIGHUP)
    station.wait_for_log(r"duties\.refused.*fail.*review_within.*duration")
    _policy(house, "ben", "2h")
    station.signal(signal.SIGHUP)
    station.wait_for_log(r"duties\.known.*changed=True")
    assert station.terminate() == 0

"""Bulk replay while the station is killed, and while its broker is away: each item once, or visibly in doubt (D38)."""

import asyncio
from typing import Any

from gateway.embedded import EmbeddedBroker
from gateway.station.store import Store
from tests.faults import replaying
from tests.support.house import House, call
from tests.support.waiting import eventually
from tests.unit.station.selected import hold


def test_bulk_replay_pressed_twice_and_killed_again_and_again_sends_each_item_once_or_shows_it_in_doubt(
    house: House,
) -> None:
    """And what it shows in doubt is sent once more when a person resumes it, all of it at once."""
    found = asyncio.run(replaying.run(house, rows=120, kills=4, seed=38))
    assert found.faults == []
    assert found.kills == 4
    assert found.outcomes.total() == 120
    assert found.outcomes["unconfirmed"] <= 4, "one in doubt for each kill, at the most"
    assert found.resumed == found.outcomes["unconfirmed"]


def test_bulk_replay_waits_for_a_broker_that_is_away_says_so_and_goes_on(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    async def fill() -> None:
        store = await Store.open(f"sqlite+aiosqlite:///{own_house.folder / 'data' / 'station.db'}")
        for number in range(40):
            await hold(store, f"t-{number}", at=float(number))
        await store.close()

    asyncio.run(fill())
    own_house.station()
    asked = own_house.command(
        "operations", "replay", "--by", "ana", "--reason", "fixed", "--pace", "20", "--yes", "--json"
    )
    assert asked.returncode == 0, asked.stderr
    (name,) = [one["id"] for one in _operations(own_house)]
    eventually(lambda: _operations(own_house)[0]["counts"]["pending"] > 0, 30.0)
    own_broker.kill()
    eventually(lambda: "paused" in (_operations(own_house)[0]["note"] or ""), 60.0)
    assert _operations(own_house)[0]["counts"]["waiting"] > 0
    own_broker.start()
    eventually(lambda: _operations(own_house)[0]["state"] == "ended", 120.0)
    counts = _operations(own_house)[0]["counts"]
    assert counts["pending"] + counts["unconfirmed"] == 40
    assert counts["unconfirmed"] <= 1
    shown = own_house.command("operations", "show", name)
    assert f"{counts['pending']} pending" in shown.stdout


def _operations(house: House) -> list[dict[str, Any]]:
    answer = call("GET", f"http://127.0.0.1:{house.desk_port}/v1/operations")
    assert answer.status == 200, answer
    found: list[dict[str, Any]] = answer.body["operations"]
    return found

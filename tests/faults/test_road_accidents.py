"""Accidents along the whole road, door to reviewer (failure table rows 6, 9; C18, D04, D37)."""

import asyncio
import json
from collections import Counter

from aio_pika.abc import AbstractChannel

from tests.support.house import House, call
from tests.support.plain import on_channel
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.waiting import eventually, soon


async def test_connection_cut_before_the_confirm_is_a_503_and_the_retry_is_one_ticket_and_one_run(house: House) -> None:
    async with Proxy(house.broker_url) as line:
        await asyncio.to_thread(house.door, LAZARETTO_BROKER_URL=line.url, LAZARETTO_PUBLISH_DEADLINE="3s")
        line.hold(TO_CLIENT)
        pending = asyncio.create_task(asyncio.to_thread(house.submit, "good", None, "hello", Idempotency_Key="cut"))
        await soon(lambda: asyncio.to_thread(_waiting, house))
        line.cut()
        line.release()
        answer = await pending
        assert answer.status == 503
        assert "safe to retry" in answer.body["detail"]

        def retried() -> str | None:
            again = house.submit("good", None, "hello", Idempotency_Key="cut")
            return str(again.body["id"]) if again.status == 202 else None

        ticket = str(await asyncio.to_thread(eventually, retried))
        assert await asyncio.to_thread(_waiting, house) == 2
        await asyncio.to_thread(house.station)
        work = await asyncio.to_thread(house.node)
        await asyncio.to_thread(work.wait_for_log, f"copy.dropped ticket={ticket}")
        assert await asyncio.to_thread(house.balance, [ticket]) == Counter(done=1)
        assert house.runs(ticket) == ["succeeded"]


def test_station_that_is_down_misses_nothing_and_tells_all_when_it_is_back(house: House) -> None:
    house.door()
    station = house.station()
    house.node(workers=4), house.node("suspects")
    house.warm_up()
    station.kill9()
    killers = [house.accepted("killer", f"killer-{n}") for n in range(3)]
    good = [house.accepted("good", f"good-{n}") for n in range(10)]
    eventually(lambda: all(len(house.starts(ticket)) == 3 for ticket in killers))
    eventually(lambda: all(house.starts(ticket) for ticket in good))
    house.station()
    assert house.balance([*killers, *good]) == Counter(done=10, quarantined=3)
    for ticket in killers:
        alerts = eventually(lambda: [row for row in house.show(ticket)["alerts"] if row["sent_at"]])  # noqa: B023
        assert ticket in alerts[0]["text"]
        assert house.runs(ticket) == ["crashed"] * 3


def test_replayed_item_has_a_full_new_budget_and_keeps_its_history(house: House) -> None:
    _, _, work, suspects = house.open()
    killer = house.accepted("killer", "9417")
    house.until(killer, "quarantined")
    assert (work.terminate(), suspects.terminate()) == (0, 0)
    first = house.command("replay", killer, "--by", "ada", "--reason", "the handler is fixed")
    assert first.returncode == 0, first.stderr
    second = house.command("replay", killer, "--by", "bob", "--reason", "me too")
    assert second.returncode == 1
    assert "ada" in second.stderr
    house.node(), house.node("suspects")
    eventually(lambda: len(house.starts(killer)) == 6)
    eventually(lambda: house.status(killer)["state"] == "quarantined")
    shown = json.loads(house.command("show", killer, "--json").stdout)
    assert [(run["generation"], run["attempt"]) for run in shown["runs"]] == [(g, a) for g in (0, 1) for a in (1, 2, 3)]


def test_discarded_item_ends_and_needs_a_name_and_a_reason(house: House) -> None:
    house.open()
    ticket = house.accepted("reject", "rejected")
    house.until(ticket, "quarantined")
    assert house.command("discard", ticket).returncode == 2
    done = house.command("discard", ticket, "--by", "ada", "--reason", "spam")
    assert done.returncode == 0, done.stderr
    assert house.balance([ticket]) == Counter(discarded=1)


def test_what_kills_even_supervisors_ends_in_quarantine_by_the_brokers_own_limit(house: House) -> None:
    house.door(), house.station()
    ticket = house.accepted("good", "kills-any-holder")

    async def hand_back(channel: AbstractChannel) -> None:
        queue = await channel.get_queue(f"{house.prefix}.work", ensure=False)
        while (held := await queue.get(timeout=5, fail=False)) is not None:
            await held.reject(requeue=True)

    on_channel(house.broker_url, hand_back)
    house.until(ticket, "quarantined")
    assert house.reason(ticket) == "delivery_limit"
    assert not house.starts(ticket)


def test_operators_verbs_and_pages_tell_the_same_story(house: House) -> None:
    house.open()
    ticket = house.accepted("reject", "told-twice")
    house.until(ticket, "quarantined")
    page = call("GET", f"http://127.0.0.1:{house.desk_port}/items/{ticket}").body["text"]
    listed = house.command("list").stdout
    for place in (page, listed):
        assert ticket in place
        assert "rejected" in place


def _waiting(house: House) -> int:
    async def count(channel: AbstractChannel) -> int:
        queue = await channel.declare_queue(f"{house.prefix}.work", passive=True)
        return queue.declaration_result.message_count or 0

    return on_channel(house.broker_url, count)

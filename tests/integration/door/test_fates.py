"""202 means that the broker has it; everything else is a 503 in time, and no harm in trying again (G1)."""

import asyncio
from collections.abc import Iterator
from functools import partial

import aio_pika
import pytest

from gateway.contract.topology import Lane
from gateway.embedded import EmbeddedBroker
from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import TICKET, Answer, RunningDoor
from tests.support.proxy import TO_BROKER, TO_CLIENT, Proxy
from tests.support.waiting import soon

DEADLINE = "1s"
"""The publish deadline of these doors."""


def _is_not_accepted(answer: Answer) -> bool:
    return (
        answer.status == 503
        and answer.document["retryable"]
        and int(answer.headers["Retry-After"]) > 0
        and "not accepted" in answer.document["detail"]
    )


async def _delete(door: RunningDoor, queue: str) -> None:
    async with await aio_pika.connect(door.broker_url) as connection:
        await (await connection.channel()).queue_delete(queue)


async def test_a_deleted_queue_means_503_and_is_declared_again_never_a_false_202(start: StartDoor) -> None:
    async with await start(queue_settle="1s") as door:
        await soon(door.is_ready)
        assert (await door.submit()).status == 202
        await _delete(door, door.topology.lane_queue(Lane.WORK))

        answer = await door.submit()

        assert _is_not_accepted(answer)
        # The watch may see it before the publish does.
        assert answer.document["reason"] in {"unroutable", "unsettled"}
        await soon(door.is_ready)
        assert (await door.submit()).status == 202
        assert await door.queued() == 1


async def test_a_new_queue_settles_before_its_confirms_are_trusted(start: StartDoor, prefix: str) -> None:
    async with await start(prefix=prefix, queue_settle="60s") as door:
        answer = await door.submit()

        assert _is_not_accepted(answer)
        assert answer.document["reason"] == "unsettled"
        ready = await door.ask("GET", "/readyz")
        assert (ready.status, ready.document["reason"]) == (503, "unsettled")


async def test_a_deleted_suspects_queue_does_not_touch_publishes_under_way(door: RunningDoor) -> None:
    await soon(door.is_ready)
    load = [asyncio.create_task(door.submit()) for _ in range(100)]
    await _delete(door, door.topology.lane_queue(Lane.SUSPECTS))
    answers = await asyncio.gather(*load)

    assert {answer.status for answer in answers} == {202}
    await soon(lambda: "queue_missing" in door.program.log)
    assert (await door.submit()).status == 202
    await soon(lambda: _exists(door, door.topology.lane_queue(Lane.SUSPECTS)))


async def _exists(door: RunningDoor, queue: str) -> bool:
    return await door.queued(queue) >= 0


async def test_a_publish_that_closes_its_channel_is_503_and_the_next_one_has_a_new_channel(door: RunningDoor) -> None:
    await soon(door.is_ready)
    async with await aio_pika.connect(door.broker_url) as connection:
        await (await connection.channel()).exchange_delete(door.topology.prefix)

    answer = await door.submit()

    assert _is_not_accepted(answer)
    assert answer.document["reason"] in {"no_exchange", "unsettled"}
    await soon(lambda: _is_accepted(door))


async def _is_accepted(door: RunningDoor) -> bool:
    return (await door.submit()).status == 202


async def test_a_full_queue_means_503_until_it_is_shorter(start: StartDoor) -> None:
    async with await start(max_queued="3") as door:
        await soon(door.is_ready)
        for _ in range(3):
            assert (await door.submit()).status == 202

        await soon(door.is_red)
        answer = await door.submit()

        assert _is_not_accepted(answer)
        assert answer.document["reason"] == "queue_full"
        assert len(await door.take()) == 3
        await soon(door.is_ready)
        assert (await door.submit()).status == 202


async def test_a_nacked_publish_is_503(door: RunningDoor, broker: EmbeddedBroker) -> None:
    await soon(door.is_ready)
    policy = f"full-{door.topology.prefix}"
    queue = f"^{door.topology.lane_queue(Lane.WORK)}$"
    broker.ctl("set_policy", "--apply-to", "queues", policy, queue, '{"max-length": 1}')
    try:
        await soon(lambda: _answered(door, "nacked"))
        assert await door.metric('lazaretto_publish_failures_total{reason="nacked"}') >= 1
    finally:
        broker.ctl("clear_policy", policy)
    await door.take()
    await soon(lambda: _is_accepted(door))


async def _answered(door: RunningDoor, reason: str) -> bool:
    answer = await door.submit()
    return answer.status == 503 and answer.document["reason"] == reason


async def test_a_confirm_lost_on_the_way_is_503_and_a_retry_with_the_key_is_the_same_ticket(
    start: StartDoor, broker: EmbeddedBroker
) -> None:
    async with (
        Proxy(broker.url) as line,
        await start(broker_url=line.url, publish_deadline="5s", drain_grace="500ms") as door,
    ):
        door.broker_url = broker.url
        await soon(door.is_ready)
        line.hold(TO_CLIENT)
        uncertain = asyncio.create_task(door.submit(Idempotency_Key="once"))
        await soon(lambda: _has(door, 1))
        line.cut()
        line.release()

        assert _is_not_accepted(await uncertain)
        retried = await soon(lambda: _accepted_id(door, "once"))

        assert {message.correlation_id for message in await door.take()} == {retried}


async def _accepted_id(door: RunningDoor, key: str) -> str:
    """Try once, as a client does that was told to try again; empty when it was not accepted."""
    answer = await door.submit(Idempotency_Key=key)
    return str(answer.document["id"]) if answer.status == 202 else ""


async def _has(door: RunningDoor, count: int) -> bool:
    return await door.queued() == count


async def test_a_frozen_line_means_503_at_the_deadline_and_then_at_once(
    start: StartDoor, broker: EmbeddedBroker
) -> None:
    async with (
        Proxy(broker.url) as line,
        await start(broker_url=line.url, publish_deadline=DEADLINE, drain_grace="500ms") as door,
    ):
        await soon(door.is_ready)
        line.freeze()

        waited = await door.submit()
        assert _is_not_accepted(waited)
        assert waited.document["reason"] == "timed_out"

        await soon(door.is_red)
        refused = await door.submit()
        assert _is_not_accepted(refused)
        assert refused.document["reason"] == "blocked"  # which is found out before anything is sent

        line.release()
        await soon(door.is_ready)
        assert (await door.submit()).status == 202


async def test_too_many_publishes_under_way_are_refused_at_once(start: StartDoor, broker: EmbeddedBroker) -> None:
    async with (
        Proxy(broker.url) as line,
        await start(broker_url=line.url, publish_deadline=DEADLINE, max_inflight="5", drain_grace="500ms") as door,
    ):
        found = await soon(partial(_beyond_five, door, line), within=60.0)

        assert found is not None
        waited, refused = found
        assert {answer.document["reason"] for answer in waited} == {"timed_out"}
        assert {(answer.status, answer.document["reason"]) for answer in refused} == {(503, "inflight_publishes")}
        await soon(door.is_ready)
        assert (await door.submit()).status == 202


async def _beyond_five(door: RunningDoor, line: Proxy) -> tuple[list[Answer], list[Answer]] | None:
    """Return the answers to five tickets without a confirm, and to ten beside them.

    None where the door has found out too soon that the line is dead, which on a busy machine it may: it is as it was.
    """
    await soon(door.is_ready)
    await soon(partial(_is_idle, door))
    line.hold(TO_CLIENT)
    five = [asyncio.create_task(door.submit()) for _ in range(5)]
    while await door.metric("lazaretto_inflight_publishes") < len(five) and not all(each.done() for each in five):
        pass
    refused = await asyncio.gather(*(door.submit() for _ in range(10)))
    waited = await asyncio.gather(*five)
    line.release()
    found_out = any(answer.document["reason"] == "blocked" for answer in (*waited, *refused))
    return None if found_out else (waited, refused)


async def _is_idle(door: RunningDoor) -> bool:
    """Tell whether nothing is under way, reports of what was confirmed late included."""
    waits = ("lazaretto_inflight_publishes", "lazaretto_journal_events_waiting")
    return not any([await door.metric(name) for name in waits])


async def test_more_bytes_than_the_door_may_hold_are_refused_at_once(start: StartDoor, broker: EmbeddedBroker) -> None:
    settings = {
        "max_body_bytes": "100000",
        "max_inflight_bytes": "250000",
        "publish_deadline": DEADLINE,
        "drain_grace": "500ms",
    }
    async with Proxy(broker.url) as line, await start(broker_url=line.url, **settings) as door:
        await soon(door.is_ready)
        line.hold(TO_CLIENT)

        answers = await asyncio.gather(*(door.submit_text(b"x" * 90_000) for _ in range(10)))

        assert [answer.document["reason"] for answer in answers].count("inflight_bytes") >= 8
        line.release()
        await soon(door.is_ready)


@pytest.fixture(scope="module")
def frail_broker(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker that the tests below stop and alarm, and leave as they found it."""
    with EmbeddedBroker(tmp_path_factory.mktemp("frail")) as frail:
        yield frail


@pytest.fixture
async def own_door(start: StartDoor, frail_broker: EmbeddedBroker) -> RunningDoor:
    return await start(broker_url=frail_broker.url, publish_deadline=DEADLINE)


async def test_a_broker_that_is_away_means_503_in_time_and_recovery_without_a_restart(
    own_door: RunningDoor, frail_broker: EmbeddedBroker
) -> None:
    async with own_door as door:
        await soon(door.is_ready)
        before = [await door.submit() for _ in range(3)]
        await asyncio.to_thread(frail_broker.stop)

        answers = await asyncio.gather(*(door.submit() for _ in range(50)))

        assert all(_is_not_accepted(answer) for answer in answers)
        assert (await door.ask("GET", "/healthz")).status == 200
        assert await door.is_red()
        await asyncio.to_thread(frail_broker.start)
        await soon(door.is_ready)
        after = await door.submit()
        assert after.status == 202
        stored = {message.correlation_id for message in await door.take()}
        assert stored == {answer.document["id"] for answer in [*before, after]}


async def test_a_memory_alarm_means_503_and_red_until_it_is_over(
    own_door: RunningDoor, frail_broker: EmbeddedBroker
) -> None:
    async with own_door as door:
        await soon(door.is_ready)
        await asyncio.to_thread(frail_broker.raise_memory_alarm)
        try:
            answers = [await door.submit({**TICKET, "id": "ticket-9417"}) for _ in range(3)]

            assert all(_is_not_accepted(answer) for answer in answers)
            assert answers[-1].document["reason"] == "blocked"
            assert await door.is_red()
            assert await door.metric("lazaretto_broker_blocked") == 1
        finally:
            await asyncio.to_thread(frail_broker.clear_memory_alarm)
        await soon(door.is_ready)
        assert (await door.submit({**TICKET, "id": "ticket-9417"})).status == 202
        assert {message.correlation_id for message in await door.take()} == {"ticket-9417"}


async def test_an_alarm_is_seen_before_anybody_has_submitted_anything(
    own_door: RunningDoor, frail_broker: EmbeddedBroker
) -> None:
    async with own_door as door:
        await asyncio.to_thread(frail_broker.raise_memory_alarm)
        try:
            await soon(door.is_red)

            assert (await door.submit()).document["reason"] == "blocked"
        finally:
            await asyncio.to_thread(frail_broker.clear_memory_alarm)


async def test_a_broker_that_is_slow_to_answer_does_not_blind_the_door(
    start: StartDoor, broker: EmbeddedBroker
) -> None:
    async with Proxy(broker.url) as line, await start(broker_url=line.url, drain_grace="500ms") as door:
        await soon(door.is_ready)
        line.latency = 0.05  # each question takes twice this, and there are fifty when everything is declared anew
        before = line.forwarded[TO_BROKER]
        reddened = []
        while line.forwarded[TO_BROKER] < before + 12_000:
            if await door.is_red():
                reddened.append(await door.ask("GET", "/readyz"))
            await asyncio.sleep(0.1)

    assert [answer.text for answer in reddened] == []


async def test_a_confirm_that_takes_less_than_a_second_and_a_half_is_no_standstill_also_where_nothing_is_submitted(
    start: StartDoor, broker: EmbeddedBroker
) -> None:
    async with Proxy(broker.url) as line, await start(broker_url=line.url, drain_grace="500ms") as door:
        await soon(door.is_ready)
        line.latency = 0.4  # a confirm takes twice this
        answered = line.forwarded[TO_CLIENT]
        while line.forwarded[TO_CLIENT] < answered + 1_500:
            assert await door.metric("lazaretto_broker_blocked") == 0
            await asyncio.sleep(0.1)

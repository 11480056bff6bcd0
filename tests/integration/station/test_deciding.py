"""Replay and discard by the command line, and what reaches the work lane."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope, Malformed, Spent, encode_malformed
from gateway.contract.history import RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Outcome, Stamp
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from gateway.station import replays
from gateway.station.decided import Decision, Done, Doubtful, Taken
from gateway.station.sender import Sender
from gateway.station.store import Store
from tests.integration.station.conftest import Producers, Station, depth, waiting
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.received import received
from tests.support.waiting import soon

Killer = Callable[..., Envelope]
BY = ("--by", "ana", "--reason", "fixed handler")


@pytest.fixture
async def held(station: Station, producers: Producers, killer: Killer, ticket: str) -> str:
    """A ticket that is in quarantine by now."""
    await producers.item(killer())
    await station.settled(ticket)
    return ticket


async def test_a_replay_has_a_full_budget_the_same_bytes_and_the_whole_history(
    station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    foreign = {"raw": b"\xff\x00", "nested": {"n": [1, None, True, "ü"]}}
    sent = killer(body=b"\xff\xfe\x00l\x00o\x00g\x00\x00", foreign=foreign, interruptions=2, spent=Spent(tokens=5))
    await producers.item(sent)
    await station.settled(ticket)

    done = station.run("replay", ticket, *BY)
    (message,) = await waiting(broker.url, producers.topology.lane_queue(Lane.WORK))
    again = envelopes.decode(received(message))

    assert (done.returncode, done.stderr) == (0, "")
    assert isinstance(again, Envelope)
    assert (again.generation, again.attempt, again.crashes, again.interruptions) == (1, 1, 0, 0)
    assert (again.suspect, again.reason, again.detail, again.spent) == (None, None, None, Spent())
    assert (again.ticket, again.kind, again.body, again.content_type) == (
        sent.ticket,
        sent.kind,
        sent.body,
        sent.content_type,
    )
    assert (again.history, again.admission, again.foreign) == (sent.history, sent.admission, sent.foreign)
    assert message.delivery_mode == 2


async def test_after_a_replay_the_ticket_is_accepted_again_and_the_act_is_on_record(
    station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    await producers.item(killer())
    await station.settled(ticket)

    station.run("replay", ticket, *BY)
    found = await station.settled(ticket)
    await waiting(broker.url, producers.topology.lane_queue(Lane.WORK))

    assert (found["state"], found["generation"], found["attempts"]) == ("accepted", 1, 0)
    assert (found["items"][0]["state"], found["items"][0]["decided_by"]) == ("replayed", "ana")
    assert [(act["act"], act["actor"], act["reason"]) for act in found["audit"]] == [("replay", "ana", "fixed handler")]
    assert len(found["runs"]) == 3


async def test_a_second_replay_of_the_same_generation_fails_and_names_who_won(
    station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    await producers.item(killer())
    await station.settled(ticket)

    first, second = await asyncio.gather(
        asyncio.to_thread(station.run, "replay", ticket, "--by", "ana", "--reason", "one"),
        asyncio.to_thread(station.run, "replay", ticket, "--by", "ben", "--reason", "two"),
    )
    sent = await waiting(broker.url, producers.topology.lane_queue(Lane.WORK))
    loser, winner = (first, "ben") if first.returncode else (second, "ana")

    assert sorted([first.returncode, second.returncode]) == [0, 1]
    assert f"was already replayed by {winner} at 20" in loser.stderr or f"was already sent by {winner}" in loser.stderr
    assert len(sent) == 1


async def test_a_replayed_item_that_fails_again_shows_the_runs_of_both_generations(
    station: Station, producers: Producers, killer: Killer, broker: EmbeddedBroker, ticket: str
) -> None:
    await producers.item(killer())
    await station.settled(ticket)
    station.run("replay", ticket, *BY)
    (message,) = await waiting(broker.url, producers.topology.lane_queue(Lane.WORK))
    again = envelopes.decode(received(message))
    assert isinstance(again, Envelope)
    released = RunRecord(attempt=1, outcome=Outcome.RELEASED, node="n")
    failed = RunRecord(attempt=1, outcome=Outcome.REJECTED, node="n", code="Reject")
    history = again.history.add(released).add(failed)
    await producers.item(envelopes.supersede(again, interruptions=1, history=history, reason="rejected"))
    await soon(lambda: f"item.stored ticket={ticket} generation=1" in station.program.log)

    found = await station.settled(ticket)

    stamps = [(run["generation"], run["attempt"], run["interruptions"], run["outcome"]) for run in found["runs"]]
    assert stamps == [
        (0, 1, 0, "memory"),
        (0, 2, 0, "memory"),
        (0, 3, 0, "memory"),
        (1, 1, 0, "released"),
        (1, 1, 1, "rejected"),
    ]
    assert (found["state"], found["generation"], found["reason"]) == ("quarantined", 1, "rejected")
    assert [item["state"] for item in found["items"]] == ["held", "replayed"]


async def test_a_discarded_item_stays_discarded_whatever_reports_still_arrive(
    station: Station, producers: Producers, killer: Killer, store: Store, ticket: str
) -> None:
    await producers.item(killer())
    await station.settled(ticket)

    discarded = station.run("discard", ticket, "--by", "ana", "--reason", "not a ticket", "--json")
    late = Event(
        event=EventName.QUARANTINED,
        at=1.0,
        ticket=ticket,
        kind="support.ticket",
        node="n",
        stamp=Stamp(generation=0, attempt=3, interruptions=7),
        data={"reason": "crashes_exhausted"},
    )
    mark = Event(event=EventName.ACCEPTED, at=1.0, ticket=f"{ticket}-mark", kind="support.ticket", node="n")
    await producers.events(late, mark)
    await soon(lambda: store.ticket_status(f"{ticket}-mark"))
    status = await store.ticket_status(ticket)
    replayed = station.run("replay", ticket, *BY)

    assert json.loads(discarded.stdout)["decision"] == "discarded"
    assert status is not None
    assert (status.state, status.attempts, status.detail) == ("discarded", 3, "not a ticket")
    assert replayed.returncode == 1
    assert "was already discarded by ana at" in replayed.stderr
    assert "not a ticket" in replayed.stderr


async def _open(sender: Sender, topology: Topology) -> None:
    """Have a way to the lanes' exchange open, by a message that nobody gets."""
    nowhere = replace(topology.to_lane(Lane.WORK), key="nobody")
    await sender.send(nowhere, Wire(body=b"", message_id="x"), mandatory=False)


async def test_a_replay_whose_confirm_was_lost_is_shown_as_such_and_can_be_finished(
    station: Station, producers: Producers, held: str, store: Store, broker: EmbeddedBroker
) -> None:
    topology, work = producers.topology, producers.topology.lane_queue(Lane.WORK)
    ana, ben = Decision(by="ana", reason="fixed"), Decision(by="ben", reason="finish it")
    async with Proxy(broker.url) as line:
        sender = Sender((line.url,))
        await _open(sender, topology)
        line.hold(TO_CLIENT)
        replay = asyncio.create_task(replays.replay(store, sender, topology, held, ana))
        await soon(lambda: _arrived(broker.url, work))
        line.cut()
        doubtful = await replay
        await sender.close()
    shown = station.run("replay", held, *BY)
    finished = await replays.resume(store, producers.sender, topology, held, ben)
    twice = await replays.resume(store, producers.sender, topology, held, ben)
    copies = [envelopes.decode(received(message)) for message in await waiting(broker.url, work)]

    assert isinstance(doubtful, Doubtful)
    assert "was already sent by ana at" in shown.stderr
    assert "unconfirmed; `replay --resume` sends it again" in shown.stderr
    assert finished == Done(ticket=held, generation=1)
    assert isinstance(twice, Taken)
    assert [copy.stamp for copy in copies if isinstance(copy, Envelope)] == [
        Stamp(generation=1, attempt=1, interruptions=0)
    ] * 2


async def test_a_replay_in_doubt_is_settled_by_the_first_report_of_its_new_generation_and_not_sent_twice(
    station: Station, producers: Producers, held: str, store: Store, broker: EmbeddedBroker
) -> None:
    topology, work = producers.topology, producers.topology.lane_queue(Lane.WORK)
    async with Proxy(broker.url) as line:
        sender = Sender((line.url,))
        await _open(sender, topology)
        line.hold(TO_CLIENT)
        replay = asyncio.create_task(replays.replay(store, sender, topology, held, Decision(by="a", reason="b")))
        await soon(lambda: _arrived(broker.url, work))
        line.cut()
        await replay
        await sender.close()
    await waiting(broker.url, work)
    stamp = Stamp(generation=1, attempt=1, interruptions=0)
    await producers.events(
        Event(event=EventName.STARTED, at=1.0, ticket=held, kind="support.ticket", node="n", stamp=stamp)
    )

    async def concluded() -> bool:
        return str(station.show(held)["items"][0]["state"]) == "replayed"

    await soon(concluded, within=30)
    again = station.run("replay", held, "--resume", *BY)
    found = await station.settled(held)

    assert again.returncode == 1
    assert "was already replayed by a at" in again.stderr
    assert await depth(broker.url, work) == 0
    assert found["state"] == "running"
    assert found["lineage"][0]["confirmed_at"] is not None
    assert "item.resolved" in {alert["event"] for alert in found["alerts"]}


async def test_a_malformed_item_is_replayed_as_if_it_had_just_come_past_the_door(
    station: Station, producers: Producers, broker: EmbeddedBroker, ticket: str
) -> None:
    raw = Wire(body=b"\x00raw", headers={"lz-schema": 99}, correlation_id=ticket, content_type="text/plain")
    malformed = Malformed(detail="lz-schema is 99", ticket=TicketId(ticket), kind="a.kind", wire=raw)
    await producers.raw(encode_malformed(malformed, reason="malformed"))
    await station.settled(ticket)

    done = station.run("replay", ticket, *BY)
    (message,) = await waiting(broker.url, producers.topology.lane_queue(Lane.WORK))
    again = envelopes.decode(received(message))

    assert done.returncode == 0, done.stderr
    assert isinstance(again, Envelope)
    assert (again.ticket, again.kind, again.body, again.content_type) == (ticket, "a.kind", b"\x00raw", "text/plain")
    assert (again.generation, again.attempt, again.admission) == (1, 1, None)


async def test_a_replay_that_no_queue_takes_leaves_the_item_held(
    station: Station, producers: Producers, killer: Killer, ticket: str
) -> None:
    await producers.item(killer())
    await station.settled(ticket)
    away = Station(
        programs=station.programs,
        data=station.data,
        prefix="nobody.declared.this",
        broker_url=station.broker_url,
        extra={"LAZARETTO_STORE_URL": station.store_url},
    )

    done = away.run("replay", ticket, *BY)
    found = station.show(ticket)

    assert done.returncode == 1
    assert "not replayed, the item is held as before" in done.stderr
    assert (found["state"], found["items"][0]["state"]) == ("quarantined", "held")
    assert [act["act"] for act in found["audit"]] == ["replay", "replay not sent"]


def test_decisions_need_a_name_and_a_reason(station: Station) -> None:
    nameless = station.run("discard", "1", "--reason", "why")
    reasonless = station.run("replay", "1", "--by", "ana")
    blank = station.run("replay", "1", "--by", "ana", "--reason", " ")
    assert [nameless.returncode, reasonless.returncode, blank.returncode] == [2, 2, 2]
    assert "must not be empty" in blank.stderr


def test_an_unknown_ticket_is_a_clear_error(station: Station) -> None:
    for done in (station.run("show", "no-such"), station.run("discard", "no-such", *BY)):
        assert done.returncode == 1
        assert "no-such" in done.stderr


async def _arrived(broker_url: str, queue: str) -> bool:
    return await depth(broker_url, queue) > 0

"""A client with a callback hears of the ends of its tickets: at least once, in order, signed; and holds up nobody."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway import api_key, key_ring
from gateway.callback import Callback
from gateway.contract.envelope import Envelope
from gateway.contract.journal import Event, EventName
from gateway.embedded import free_port
from gateway.key_lines import BadKeyFile
from gateway.key_ring import Key
from gateway.station.webhook import NotTaken, Post
from tests.integration.station.conftest import Producers, Station
from tests.integration.station.receiver import Call, Receiver, never
from tests.support.waiting import soon

pytestmark = pytest.mark.broker


class _Book:
    """A key file with callbacks."""

    def __init__(self, station: Station, **settings: str) -> None:
        self.path = station.data.parent / "keys"
        self._lines: list[str] = []
        station.extra |= {"LAZARETTO_KEYS": str(self.path), "LAZARETTO_CALLBACK_PRIVATE": "on", **settings}

    def add(self, client: str, url: str) -> str:
        """Give a client a callback and return its secret."""
        fresh, callback = api_key.new(), Callback.new(url)
        self._lines.append(key_ring.line(Key(id=fresh.id, client=client, sha256=fresh.digest, callback=callback)))
        made = self.path.with_suffix(".new")
        made.touch(mode=0o600)
        made.write_text("\n".join(self._lines))
        made.replace(self.path)
        return callback.secret


def _accepted(ticket: str, client: str) -> Event:
    return Event(event=EventName.ACCEPTED, at=time.time(), ticket=ticket, kind="k", node="d", data={"client": client})


def _done(ticket: str) -> Event:
    data = {"outcome": "succeeded", "verdict": "ack"}
    return Event(event=EventName.FINISHED, at=time.time(), ticket=ticket, kind="k", node="n", data=data)


async def _metric(station: Station, line: str) -> float:
    async with aiohttp.ClientSession() as http, http.get(f"{station.url}/metrics") as answer:
        text = await answer.text()
    return next((float(found.rsplit(" ", 1)[1]) for found in text.splitlines() if found.startswith(line + " ")), -1.0)


async def _started(station: Station) -> None:
    program = await asyncio.to_thread(station.start)
    await asyncio.to_thread(program.wait_for_log, "callbacks.known")


def _owed(station: Station) -> list[tuple[Any, ...]]:
    with sqlite3.connect(station.data / "station.db") as store:
        return store.execute("SELECT ticket, state, tries, sent_at, dead_at, last_error FROM callbacks").fetchall()


async def test_a_client_hears_of_each_end_and_each_decision_once_and_can_tell_who_says_so(
    own_station: Station, producers: Producers, killer: Callable[..., Envelope], ticket: str
) -> None:
    async with Receiver() as receiver:
        book = _Book(own_station)
        secret = book.add("acme", receiver.url)
        await _started(own_station)

        # The fleet's word may come before the door's, and any of them twice.
        await producers.events(_done("t-done"))
        await producers.events(_accepted("t-done", "acme"), _accepted("t-other", "nobody"), _done("t-other"))
        await producers.events(_done("t-done"), _accepted("t-done", "acme"))
        await soon(lambda: receiver.states() == ["done"])
        await producers.item(killer())
        await soon(lambda: receiver.states() == ["done", "quarantined"])
        decided = await asyncio.to_thread(own_station.run, "discard", ticket, "--by", "ada", "--reason", "spam")
        assert decided.returncode == 0, decided.stderr
        await soon(lambda: receiver.states() == ["done", "quarantined", "discarded"])

        for call in receiver.calls:
            assert call.is_signed_with(secret)
            assert not call.is_signed_with(Callback.new(receiver.url).secret)
            assert not replace(call, body=call.body + b" ").is_signed_with(secret)
            assert abs(int(call.headers["webhook-timestamp"]) - time.time()) < 60
            assert call.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
            assert call.event["specversion"] == "1.0"
            assert call.event["id"] == call.id
            assert call.event["type"] == f"lazaretto.ticket.{call.event['data']['state']}"
        assert [call.event["subject"] for call in receiver.calls] == ["t-done", ticket, ticket]
        assert len({call.id for call in receiver.calls}) == 3
        assert await _metric(own_station, 'lazaretto_callbacks_total{result="sent"}') == 3


async def test_a_replay_is_told_and_so_is_the_end_of_what_it_began(
    own_station: Station, producers: Producers, killer: Callable[..., Envelope], ticket: str
) -> None:
    async with Receiver() as receiver:
        _Book(own_station).add("acme", receiver.url)
        await _started(own_station)
        await producers.item(killer())
        await soon(lambda: receiver.states() == ["quarantined"])

        replayed = await asyncio.to_thread(own_station.run, "replay", ticket, "--by", "ada", "--reason", "fixed")
        assert replayed.returncode == 0, replayed.stderr
        again = _done(ticket)
        await producers.events(replace(again, stamp=again.stamp._replace(generation=1)))

        await soon(lambda: len(receiver.calls) == 3)
        assert receiver.states() == ["quarantined", "replayed", "done"]
        assert [call.event["data"]["generation"] for call in receiver.calls] == [0, 1, 1]


async def test_what_was_not_taken_is_sent_again_the_same_and_the_rest_of_its_ticket_waits(
    own_station: Station, producers: Producers, killer: Callable[..., Envelope], ticket: str
) -> None:
    answers = [web.Response(status=500), web.Response(status=302, headers={"Location": "/elsewhere"})]

    async def reluctant(_: Call) -> web.Response:
        return answers.pop(0) if answers else web.Response(text="x" * 100_000)

    async with Receiver(reluctant) as receiver:
        _Book(own_station).add("acme", receiver.url)
        await _started(own_station)
        await producers.item(killer())
        await asyncio.to_thread(own_station.program.wait_for_log, "callback.failed")
        decided = await asyncio.to_thread(own_station.run, "discard", ticket, "--by", "ada", "--reason", "spam")
        assert decided.returncode == 0, decided.stderr

        await soon(lambda: len(receiver.calls) == 4, 40)
        first, second, third, last = receiver.calls
        assert first.id == second.id == third.id != last.id
        assert first.body == second.body == third.body
        assert receiver.states() == ["quarantined"] * 3 + ["discarded"]
        await soon(lambda: all(row[3] for row in _owed(own_station)))
        assert await _metric(own_station, 'lazaretto_callbacks_total{result="failed"}') == 2


async def test_a_client_that_is_away_or_never_answers_holds_up_nobody_and_is_given_up_visibly(
    own_station: Station, producers: Producers
) -> None:
    async with Receiver() as receiver, Receiver(never) as silent:
        book = _Book(own_station, LAZARETTO_CALLBACK_PATIENCE="1s")
        book.add("away", f"http://127.0.0.1:{free_port()}/")
        book.add("silent", silent.url)
        book.add("acme", receiver.url)
        await _started(own_station)
        for client in ("away", "silent", "acme"):
            tickets = [f"{client}-{number}" for number in range(3)]
            await producers.events(*(_accepted(name, client) for name in tickets), *map(_done, tickets))

        await soon(lambda: receiver.states() == ["done"] * 3)

        await soon(lambda: all(row[3] or row[4] for row in _owed(own_station)), 60)
        dead = [row for row in _owed(own_station) if row[4]]
        assert {row[0].partition("-")[0] for row in dead} == {"away", "silent"}
        assert await _metric(own_station, 'lazaretto_callbacks_total{result="dead"}') == 6
        assert await _metric(own_station, "lazaretto_callback_lag_seconds") == 0
        assert "callback.dead" in own_station.program.log


async def test_a_station_killed_between_sending_and_marking_sends_it_again_under_the_same_id(
    own_station: Station, producers: Producers
) -> None:
    async def kill(_: Call) -> web.Response:
        if len(own_station.running) == 1:
            await asyncio.to_thread(own_station.program.kill9)
        return web.Response(status=204)

    async with Receiver(kill) as receiver:
        secret = _Book(own_station).add("acme", receiver.url)
        await _started(own_station)
        await producers.events(_accepted("t-1", "acme"), _done("t-1"))
        await soon(lambda: own_station.program.exit_code is not None)
        await _started(own_station)

        await soon(lambda: len(receiver.calls) == 2, 30)

        first, second = receiver.calls
        assert (first.id, first.body) == (second.id, second.body)
        assert second.is_signed_with(secret)
        await soon(lambda: all(row[3] for row in _owed(own_station)))


async def test_a_secret_is_exchanged_without_a_restart_and_both_sign_meanwhile(
    own_station: Station, producers: Producers
) -> None:
    async with Receiver() as receiver:
        book = _Book(own_station)
        old = book.add("acme", receiver.url)
        await _started(own_station)
        new = book.add("acme", receiver.url)
        await asyncio.to_thread(own_station.program.wait_for_log, "callbacks.known", count=2)
        await producers.events(_accepted("t-1", "acme"), _done("t-1"))

        await soon(lambda: receiver.calls)

        assert receiver.calls[0].is_signed_with(old)
        assert receiver.calls[0].is_signed_with(new)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.1.2.3", "169.254.169.254", "[64:ff9b::a00:1]"]
)
async def test_no_callback_reaches_into_a_private_network(host: str) -> None:
    async with Receiver() as receiver:
        port = receiver.url.rsplit(":", 1)[1].partition("/")[0]
        post = Post(private=False)
        with pytest.raises(NotTaken, match="private network"):
            await post.send([Callback.new(f"https://{host}:{port}/")], "id", 1, b"{}")
        with pytest.raises(NotTaken, match="plain http"):
            await post.send([Callback.new(f"http://{host}:{port}/")], "id", 1, b"{}")
        await post.close()

        assert receiver.calls == []


def test_secrets_that_everybody_can_read_are_no_secrets(tmp_path: Path) -> None:
    from gateway.clients import read_file  # noqa: PLC0415 - as the door and the station read it

    fresh = api_key.new()
    path = tmp_path / "keys"
    callback = Callback.new("https://acme.example/hooks")
    path.write_text(key_ring.line(Key(id=fresh.id, client="acme", sha256=fresh.digest, callback=callback)))
    path.chmod(0o644)

    with pytest.raises(BadKeyFile, match="everybody may read it") as refused:
        read_file(path)

    assert callback.secret not in str(refused.value)
    path.chmod(0o640)
    assert read_file(path).callbacks == {"acme": (callback,)}

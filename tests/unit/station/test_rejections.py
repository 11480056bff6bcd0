"""Refusals on record: found, grouped, judged under other limits, and let in anyway by a pass, in either store."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.contract.journal import Event, EventName
from gateway.station import ledger, passes, rejections, what_if
from gateway.station.passes import Given, NotGiven
from gateway.station.rejections import Group, Selection
from gateway.station.store import Store
from gateway.station.tables.audit import audit

LIMITS = {"max_body_bytes": 1000, "max_tokens": 100, "max_attachments": 2}


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


def _refused(request: str, *rules: str, at: float = 1.0, client: str | None = "ana", **facts: Any) -> Event:
    known = {"stage": "tokens", "whole": True, "limits": LIMITS, "fingerprint": f"print of {request}", **facts}
    data: dict[str, Any] = {
        "violations": [{"rule": rule} for rule in rules],
        "bytes": 900,
        "digest": "d",
        "facts": known,
    }
    if client is not None:
        data["client"] = client
    kind = "logs" if request.startswith("l") else "k"
    return Event(event=EventName.REFUSED, at=at, ticket=request, kind=kind, node="door", data=data)


async def _post(store: Store, *events: Event) -> None:
    async with store.writing() as transaction:
        await ledger.post(transaction, events)


async def _filled(store: Store) -> None:
    await _post(
        store,
        _refused("r1", "too_many_tokens", at=1.0, tokens=[150, 150]),
        _refused("r2", "too_many_tokens", at=2.0, client="bo", tokens=[250, 900]),
        _refused("l3", "nul", "too_many_tokens", at=3.0, tokens=[150, 150]),
        _refused("l4", "lossy_text", at=4.0, client="bo", stage="encoding"),
    )


@pytest.mark.parametrize(
    ("selection", "requests"),
    [
        (Selection(), ["l4", "l3", "r2", "r1"]),
        (Selection(kind="logs"), ["l4", "l3"]),
        (Selection(client="ana"), ["l3", "r1"]),
        (Selection(rule="too_many_tokens"), ["l3", "r2", "r1"]),
        (Selection(rule="too_many"), []),
        (Selection(since=2.0, until=3.0), ["l3", "r2"]),
    ],
    ids=["all", "kind", "client", "rule", "part of a rule", "time"],
)
async def test_refusals_are_found_by_what_they_are(store: Store, selection: Selection, requests: list[str]) -> None:
    await _filled(store)
    found, number = await rejections.find(store, selection)
    assert ([refusal.ticket for refusal in found], number) == (requests, len(requests))
    assert [refusal.ticket async for refusal in rejections.each(store, selection)] == requests


async def test_they_are_counted_in_groups_however_many_pages_they_fill(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejections, "_PAGE", 1)
    await _filled(store)
    assert await rejections.group(store, Selection(), ("rule", "client")) == [
        Group(by={"rule": "too_many_tokens", "client": "ana"}, refusals=2, first_at=1.0, last_at=3.0),
        Group(by={"rule": "lossy_text", "client": "bo"}, refusals=1, first_at=4.0, last_at=4.0),
        Group(by={"rule": "nul", "client": "ana"}, refusals=1, first_at=3.0, last_at=3.0),
        Group(by={"rule": "too_many_tokens", "client": "bo"}, refusals=1, first_at=2.0, last_at=2.0),
    ]
    assert [one.by for one in await rejections.group(store, Selection(rule="nul"), ("rule",))] == [{"rule": "nul"}]
    assert [(one.by["kind"], one.refusals) for one in await rejections.group(store, Selection(), ("kind",))] == [
        ("k", 2),
        ("logs", 2),
    ]


async def test_other_limits_are_tried_on_what_is_on_record_and_what_is_not_is_said(store: Store) -> None:
    await _filled(store)
    found = await rejections.outlook(store, Selection(), what_if.suppose(["max_tokens=300", "lossy_text=off"]))
    told = {(one.kind, one.client): (one.passes, one.refused, one.unknown, one.missing) for one in found}
    assert told == {
        ("k", "ana"): (1, 0, 0, {}),
        ("k", "bo"): (0, 0, 1, {"tokens": 1}),
        ("logs", "ana"): (0, 1, 0, {}),
        ("logs", "bo"): (0, 0, 1, {"checks after the first that failed": 1}),
    }


async def test_a_pass_is_for_one_body_of_one_client_for_a_day_and_given_once(store: Store) -> None:
    await _filled(store)
    given = await passes.give(store, "r1", by="eva", reason="a good customer", now=10.0)
    assert isinstance(given, Given)
    assert (given.granted.client, given.granted.kind, given.granted.fingerprint) == ("ana", "k", "print of r1")
    again = await passes.give(store, "r1", by="max", reason="me too", now=11.0)
    assert again == NotGiven(sentence="it has a pass already, given by eva, because: a good customer")
    assert await passes.live(store, 10.0 + passes.LIFETIME - 1) == [given.granted]
    assert await passes.live(store, 10.0 + passes.LIFETIME) == []
    assert isinstance(await passes.give(store, "r1", by="max", reason="again", now=10.0 + 2 * passes.LIFETIME), Given)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (_refused("r", "nul", "too_many_tokens"), "it breaks nul, which is always enforced"),
        (_refused("r"), "it breaks an unknown rule"),
        (_refused("r", "lossy_text", client=None), "ticket r was refused by a node and is in quarantine"),
        (_refused("r", "lossy_text", fingerprint=None), "nothing is on record by which its body"),
    ],
    ids=["no ticket", "no rule", "past the door", "never read"],
)
async def test_what_could_not_come_in_gets_no_pass(store: Store, event: Event, why: str) -> None:
    await _post(store, event)
    refused = await passes.give(store, "r", by="eva", reason="because")
    assert isinstance(refused, NotGiven)
    assert refused.sentence.startswith(why)
    assert await passes.give(store, "x", by="eva", reason="because") == NotGiven(
        sentence="no refusal of a request 'x' is on record"
    )
    assert await passes.live(store, 0.0) == []


async def test_of_two_who_let_the_same_in_at_once_one_gives_a_pass_and_the_other_hears_of_it(store: Store) -> None:
    await _filled(store)
    names = ("eva", "max", "kim", "lou")
    answers = await asyncio.gather(*(passes.give(store, "r1", by=name, reason="mine") for name in names))
    (given,) = [answer for answer in answers if isinstance(answer, Given)]
    others = [answer for answer in answers if isinstance(answer, NotGiven)]
    assert len(others) == 3
    assert all(f"given by {given.granted.by}" in other.sentence for other in others)


async def test_that_a_pass_was_used_is_in_the_tickets_history_once_however_often_it_is_told(store: Store) -> None:
    await _filled(store)
    given = await passes.give(store, "r1", by="eva", reason="a good customer", now=10.0)
    assert isinstance(given, Given)
    told = Event(
        event=EventName.ACCEPTED, at=20.0, ticket="9417", kind="k", node="door", data={"pass": given.granted.id}
    )
    await _post(store, told)
    await _post(store, told, told)
    async with store.reading() as transaction:
        rows = (await transaction.execute(sa.select(audit).order_by(audit.c.id))).all()
    assert [(row.ticket, row.actor, row.act, row.reason) for row in rows] == [
        ("r1", "eva", "pass given", "a good customer"),
        ("9417", "eva", "admitted anyway", "a good customer"),
    ]
    assert [one.used_at is not None for one in await passes.live(store, 11.0)] == [True]

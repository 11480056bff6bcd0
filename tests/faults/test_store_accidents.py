"""The store goes while nodes run: nothing starts without its word; nothing is lost, charged or held for ever (C19)."""

import contextlib
import signal
import sqlite3
from collections import Counter

from tests.support.house import House, call
from tests.support.postgresql import Postgresql
from tests.support.waiting import eventually


def test_store_that_is_down_starts_nothing_and_what_waits_for_it_is_given_back_uncharged(
    house: House, own_postgresql: Postgresql
) -> None:
    house.extra |= {"LAZARETTO_STORE_URL": own_postgresql.database(), "LAZARETTO_FENCE_PATIENCE": "1s"}
    house.door(), house.station()
    node = house.node(workers=2)
    health = node.wait_for_log(r"health=(http://\S+)/healthz")[1]
    house.warm_up()
    running = house.accepted("wait.store", "running")
    eventually(lambda: house.starts(running), 30.0)
    own_postgresql.stop(signal.SIGQUIT)
    waiting = [house.accepted("good", f"waiting-{n}") for n in range(3)]
    node.wait_for_log("run.dependency ticket=waiting", 60.0, count=6)
    assert call("GET", f"{health}/readyz").status == 503
    house.open_gate("wait.store")
    assert {start.ticket for start in house.starts()} == {running}
    own_postgresql.start()
    assert house.balance([running, *waiting], 90.0) == Counter(done=4)
    assert [(start.ticket, start.attempt) for start in house.starts()].count((running, 1)) == 1
    assert {(start.ticket, start.attempt) for start in house.starts() if start.ticket != running} == {
        (ticket, 1) for ticket in waiting
    }
    assert len(house.starts()) == 4
    for ticket in waiting:
        assert set(house.runs(ticket)) == {"dependency", "succeeded"}
    assert house.runs(running) == ["succeeded"]
    eventually(lambda: call("GET", f"{health}/readyz").status == 200, 30.0)


def test_item_that_waits_for_the_store_is_held_aside_when_it_is_older_than_a_wait_may_be(house: House) -> None:
    house.extra |= {"LAZARETTO_FENCE_PATIENCE": "500ms", "LAZARETTO_MAX_WAIT": "3s"}
    house.door(), house.station()
    node = house.node(workers=2)
    house.warm_up()
    with contextlib.closing(sqlite3.connect(house.folder / "data" / "station.db", timeout=20)) as store:
        store.execute("ALTER TABLE starts RENAME TO starts_away")
        house.accepted("good", "patient")
        node.wait_for_log("verdict=quarantine reason=dependency", 60.0)
        store.execute("ALTER TABLE starts_away RENAME TO starts")
    house.until("patient", "quarantined", 60.0)
    assert house.show("patient")["reason"] == "dependency"
    assert not house.starts("patient")


def test_ticket_that_the_store_refuses_is_held_aside_and_its_neighbours_run(house: House) -> None:
    house.door(), house.station()
    node = house.node(workers=4)
    house.warm_up()
    with contextlib.closing(sqlite3.connect(house.folder / "data" / "station.db", timeout=20)) as store:
        store.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON starts WHEN NEW.ticket = 'refused' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
    good = [house.accepted("good", f"neighbour-{n}") for n in range(6)]
    house.accepted("good", "refused")
    good += [house.accepted("good", f"neighbour-{n}") for n in range(6, 12)]
    assert house.balance(good, 60.0) == Counter(done=12)
    node.wait_for_log("item.malformed ticket=refused", 60.0)
    house.until("refused", "quarantined", 60.0)
    assert house.show("refused")["reason"] == "malformed"
    assert not house.starts("refused")
    assert [house.runs(ticket) for ticket in good] == [["succeeded"]] * 12


def test_redelivery_that_nobody_can_ask_about_waits_with_the_question_and_frees_its_slot(
    house: House, own_postgresql: Postgresql
) -> None:
    house.extra |= {"LAZARETTO_STORE_URL": own_postgresql.database(), "LAZARETTO_FENCE_PATIENCE": "1s"}
    house.door(), house.station()
    holder = house.node(workers=1)
    house.warm_up()
    held = house.accepted("wait.asked", "held")
    eventually(lambda: house.starts(held), 30.0)
    other = house.node(workers=1)
    house.node("suspects")
    own_postgresql.stop(signal.SIGQUIT)
    house.kill_family(holder)
    other.wait_for_log("loss.waiting ticket=held", 60.0, count=2)
    house.open_gate("wait.asked")
    own_postgresql.start()
    assert house.balance([held], 90.0) == Counter(done=1)
    assert house.runs(held) == ["lost", "succeeded"]
    assert [start.attempt for start in house.starts(held)] == [1, 2]


def test_node_that_waits_for_no_store_asks_it_all_the_same(house: House) -> None:
    house.extra["LAZARETTO_FENCE_PATIENCE"] = "0"
    house.door(), house.station(), house.node(workers=1)
    accepted = [house.accepted("good", f"asked-{n}") for n in range(3)]
    assert house.balance(accepted) == Counter(done=3)
    assert [house.runs(ticket) for ticket in accepted] == [["succeeded"]] * 3


def test_drain_while_the_store_is_down_gives_back_what_it_has_and_charges_nobody(
    house: House, own_postgresql: Postgresql
) -> None:
    house.extra |= {"LAZARETTO_STORE_URL": own_postgresql.database(), "LAZARETTO_DRAIN_GRACE": "4s"}
    house.door(), house.station()
    node = house.node(workers=3)
    house.warm_up()
    done, given_back, payer = (house.accepted(kind, kind) for kind in ("wait.done", "stubborn.late", "payer.late"))
    eventually(lambda: len(house.starts()) == 3, 30.0)
    own_postgresql.stop(signal.SIGQUIT)
    house.open_gate("wait.done")
    house.open_gate("payer.late")
    node.wait_for_log("fence.unavailable")
    assert node.terminate(60.0) == 0
    own_postgresql.start()
    house.open_gate("stubborn.late")
    house.node(workers=3)
    assert house.balance([done, given_back, payer], 90.0) == Counter(done=3)
    assert house.runs(done) == ["succeeded"]
    assert house.runs(given_back) == ["released", "succeeded"]
    assert set(house.runs(payer)) <= {"released", "succeeded"}  # told of the end, it may still come to its own
    assert {start.attempt for start in house.starts()} == {1}

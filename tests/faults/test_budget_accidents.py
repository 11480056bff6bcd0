"""What an item may cost, and what becomes of suspects: budgets that hold across killed nodes (C7, C10, C13)."""

import contextlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.support.house import House, call
from tests.support.program import Program
from tests.support.waiting import eventually


def metrics(node: Program) -> str:
    health = node.wait_for_log(r"health=(http://\S+)/healthz")[1]
    return str(call("GET", f"{health}/metrics").body["text"])


def policy(house: House, text: str) -> None:
    config = house.folder / "lazaretto.toml"
    config.write_text(text)
    house.extra["LAZARETTO_CONFIG"] = str(config)


def detail(house: House, ticket: str) -> str:
    """What was written down about the last run; the journal may come after the item itself."""

    def told() -> Any:
        runs = house.show(ticket)["runs"]
        return runs and runs[-1]["evidence"].get("detail")

    return str(eventually(told, saying=f"the last run of {ticket} is told of"))


def test_what_a_killed_node_had_paid_is_not_forgotten_and_the_item_is_overspent(house: House) -> None:
    house.extra["LAZARETTO_MAX_SPEND_TOKENS"] = "1000"
    house.door(), house.station()
    ticket = house.accepted("spendkiller", "costly")
    first = house.fleet()
    eventually(lambda: first.exit_code is not None, 30.0)
    node, suspects = house.node(), house.node("suspects")
    good = house.accepted("good", "neighbour")
    assert house.balance([ticket, good]) == Counter(done=1, quarantined=1)
    assert len(house.starts(ticket)) == 1
    assert house.reason(ticket) == "overspent"
    assert "1500 tokens, 1000 is the limit; the last run was lost" in detail(house, ticket)
    assert (node.exit_code, suspects.exit_code) == (None, None)


@contextlib.contextmanager
def store_away(house: House) -> Iterator[None]:
    """Have the fence's store give no answer meanwhile."""
    with contextlib.closing(sqlite3.connect(house.folder / "data" / "station.db", timeout=20)) as store:
        store.execute("ALTER TABLE starts RENAME TO starts_away")
        try:
            yield
        finally:
            store.execute("ALTER TABLE starts_away RENAME TO starts")


def paid(house: House) -> str:
    path = house.folder / "starts.jsonl.paid"
    return path.read_text() if path.exists() else ""


def test_handler_does_not_act_on_what_it_paid_for_before_that_is_in_the_store(house: House) -> None:
    _, _, work, _ = house.open()
    ticket = house.accepted("payer.a", "payer")
    eventually(lambda: house.starts(ticket))
    with store_away(house):
        house.open_gate("payer.a")
        work.wait_for_log("fence.unavailable")
        assert paid(house) == ""
    assert house.balance([ticket]) == Counter(done=1)
    assert paid(house) == '"payer/0/1"\n'
    assert len(house.starts(ticket)) == 1


def test_handler_that_waits_for_the_store_to_take_its_spend_waits_until_its_deadline_at_most(house: House) -> None:
    house.extra["LAZARETTO_RUN_DEADLINE"] = "2s"
    _, _, work, suspects = house.open()
    ticket = house.accepted("payer.b", "payer")
    eventually(lambda: house.starts(ticket))
    with store_away(house):
        house.open_gate("payer.b")
        work.wait_for_log("spend.unnoted ticket=payer")
        work.wait_for_log("worker.exited")
        assert paid(house) == ""
    assert house.balance([ticket]) == Counter(done=1)
    assert house.runs(ticket) == ["timed_out", "succeeded"]
    assert paid(house) == '"payer/0/2"\n'
    assert suspects.exit_code is None


def test_item_that_fails_at_a_price_is_overspent_before_its_attempts_are_used_up(house: House) -> None:
    policy(house, '[kinds."spender"]\nmax_attempts = 9\nmax_spend = { usd = 0.5 }\n')
    house.open()
    ticket = house.accepted("spender", "costly")
    assert house.balance([ticket]) == Counter(quarantined=1)
    assert house.runs(ticket) == ["failed", "failed", "overspent"]
    assert len(house.starts(ticket)) == 3
    assert "0.75 USD, 0.5 is the limit; the last run was failed: ValueError: paid for nothing" in detail(house, ticket)


def test_discarding_kind_ends_in_a_journal_record_and_a_metric(house: House) -> None:
    policy(house, '[kinds."fail.telemetry"]\nmax_attempts = 2\non_exhausted = "discard"\n')
    _, _, work, _ = house.open()
    ticket = house.accepted("fail.telemetry", "sample")
    assert house.balance([ticket]) == Counter(discarded=1)
    assert len(house.starts(ticket)) == 2
    assert house.runs(ticket) == ["failed", "failed"]
    counted = 'lazaretto_discarded_total{kind="fail.telemetry",reason="attempts_exhausted"} 1.0'
    eventually(lambda: counted in metrics(work))  # a node counts an ending after the journal has it


def test_success_in_isolation_clears_a_suspect_and_says_so(house: House) -> None:
    _, _, _, suspects = house.open()
    ticket = house.accepted("killeronce", "innocent")
    assert house.balance([ticket]) == Counter(done=1)
    assert house.runs(ticket) == ["crashed", "succeeded"]
    assert house.evidence(ticket, 2, of="suspicion") == ["isolated", "cleared"]
    suspects.wait_for_log("run.succeeded ticket=innocent .*suspicion=cleared")
    told = metrics(suspects)
    assert 'lazaretto_suspects_total{verdict="cleared"} 1.0' in told
    assert "lazaretto_item_age_seconds_count 1.0" in told
    (age,) = re.findall(r"^lazaretto_item_age_seconds_sum ([\d.e-]+)$", told, re.MULTILINE)
    assert 0 < float(age) < 300, "since it was submitted, not since it was sent to isolation, and not since 1970"


def test_reported_failure_in_isolation_leads_back_to_the_work_lane_without_suspicion(house: House) -> None:
    _, _, work, suspects = house.open()
    ticket = house.accepted("confessor", "confessor")
    assert house.balance([ticket]) == Counter(done=1)
    assert house.runs(ticket) == ["crashed", "failed", "succeeded"]
    suspects.wait_for_log("run.failed ticket=confessor .*suspicion=dropped")
    work.wait_for_log("run.succeeded ticket=confessor")
    assert 'lazaretto_suspects_total{verdict="dropped"} 1.0' in metrics(suspects)


def test_second_death_in_isolation_is_a_conviction_where_the_setting_says_so(house: House) -> None:
    house.extra |= {"LAZARETTO_CONVICT_IN_ISOLATION": "on", "LAZARETTO_MAX_ATTEMPTS": "9"}
    house.open()
    ticket = house.accepted("killer", "convict")
    assert house.balance([ticket]) == Counter(quarantined=1)
    assert len(house.starts(ticket)) == 2
    assert house.reason(ticket) == "crashes_exhausted"
    assert detail(house, ticket).startswith("convicted: it had died before, and died again in isolation")


def test_exhausted_interruptions_are_a_reason_of_their_own_and_no_failure(house: House) -> None:
    house.extra |= {"LAZARETTO_MAX_INTERRUPTIONS": "1", "LAZARETTO_DRAIN_GRACE": "500ms"}
    house.door(), house.station()
    ticket = house.accepted("stubborn", "interrupted")
    for starts in (1, 2):
        node = house.fleet(workers=1)
        eventually(lambda starts=starts: len(house.starts(ticket)) == starts, 30.0)  # type: ignore[misc]
        assert node.terminate() == 0
    assert house.balance([ticket]) == Counter(quarantined=1)
    assert house.reason(ticket) == "interruptions_exhausted"
    assert house.runs(ticket) == ["released", "released"]
    assert [start.attempt for start in house.starts(ticket)] == [1, 1]

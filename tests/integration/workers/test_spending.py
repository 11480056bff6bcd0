"""What a run reports as spent is durable before its handler goes on, and its report comes after that."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from consumer.inline import Inline
from consumer.pool import Pool
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Outcome
from tests.integration.workers.conftest import HANDLER, NewPool
from tests.integration.workers.orders import order
from tests.support.waiting import soon

pytestmark = pytest.mark.timeout(60)
ASYNC = "tests.integration.workers.accidents:handle_async"


class Book:
    """Where totals are kept: takes as long as a test wants."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.asked: list[Spent] = []
        self.kept: list[Spent] = []
        self.at_once = 0
        self.most_at_once = 0
        self.may_write = asyncio.Event()
        if is_open:
            self.may_write.set()

    async def keep(self, total: Spent) -> None:
        self.asked.append(total)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.may_write.wait()
        await asyncio.sleep(0)
        self.at_once -= 1
        self.kept.append(total)


@pytest.mark.parametrize("handler", [HANDLER, ASYNC])
async def test_handler_goes_on_only_when_what_it_spent_is_durable(
    new_pool: NewPool, tmp_path: Path, handler: str
) -> None:
    pool, book, beyond = new_pool(handler=handler), Book(is_open=False), tmp_path / "beyond"
    await pool.start()
    run = asyncio.create_task(pool.run(order(f"pay {beyond}"), spent=book.keep))
    await soon(lambda: book.asked)
    (worker,) = pool.worker_pids()
    await soon(lambda: _sleeps(worker))
    assert not beyond.exists()
    book.may_write.set()
    report = await run
    assert beyond.exists()
    assert (report.outcome, report.spent, book.kept) == (Outcome.SUCCEEDED, Spent(tokens=5), [Spent(tokens=5)])


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


async def test_without_a_place_to_keep_it_spending_is_acknowledged_at_once(pool: Pool, tmp_path: Path) -> None:
    report = await pool.run(order(f"pay {tmp_path / 'beyond'}"))
    assert (report.outcome, report.spent) == (Outcome.SUCCEEDED, Spent(tokens=5))


async def test_reports_of_many_threads_are_kept_one_after_the_other_and_none_is_forgotten(pool: Pool) -> None:
    book = Book()
    report = await pool.run(order("pay_often 200"), spent=book.keep)
    assert (report.outcome, report.spent) == (Outcome.SUCCEEDED, Spent(tokens=200))
    assert book.most_at_once == 1
    assert book.kept[-1] == Spent(tokens=200)
    assert sorted(book.kept, key=lambda total: total.tokens) == book.kept


async def test_worker_that_dies_while_its_spending_is_written_is_reported_after_that(
    pool: Pool, tmp_path: Path
) -> None:
    book = Book(is_open=False)
    run = asyncio.create_task(pool.run(order(f"pay {tmp_path / 'beyond'}"), spent=book.keep))
    await soon(lambda: book.asked)
    (victim,) = pool.worker_pids()
    os.kill(victim, signal.SIGKILL)
    await soon(lambda: victim not in pool.worker_pids() and pool.ready == 1)
    assert not run.done()
    book.may_write.set()
    report = await run
    assert (report.outcome, report.spent, book.kept) == (Outcome.CRASHED, Spent(tokens=5), [Spent(tokens=5)])


async def test_deadline_goes_on_while_spending_is_written(pool: Pool, tmp_path: Path) -> None:
    book = Book(is_open=False)
    run = asyncio.create_task(pool.run(order(f"pay {tmp_path / 'beyond'}", deadline=0.5), spent=book.keep))
    await soon(lambda: book.asked)
    (late,) = pool.worker_pids()
    await soon(lambda: late not in pool.worker_pids())
    book.may_write.set()
    report = await run
    assert (report.outcome, report.spent) == (Outcome.TIMED_OUT, Spent(tokens=5))
    assert not (tmp_path / "beyond").exists()


async def test_lost_claim_ends_the_wait_for_what_cannot_be_written(pool: Pool, tmp_path: Path) -> None:
    book, beyond = Book(is_open=False), tmp_path / "beyond"
    paying = order(f"pay {beyond}")
    run = asyncio.create_task(pool.run(paying, spent=book.keep))
    await soon(lambda: book.asked)
    pool.revoke(paying.run, outcome=Outcome.OUTAGE, grace=20)
    await soon(beyond.exists)
    book.may_write.set()
    assert (await run).outcome is Outcome.SUCCEEDED, "nobody asked whether the claim is gone"


async def test_spending_that_cannot_be_kept_is_not_acknowledged(pool: Pool, tmp_path: Path) -> None:
    async def refuse(total: Spent) -> None:
        raise OSError(f"no room for {total}")

    report = await pool.run(order(f"pay {tmp_path / 'beyond'}", deadline=0.5), spent=refuse)
    assert (report.outcome, report.spent) == (Outcome.TIMED_OUT, Spent(tokens=5))
    assert not (tmp_path / "beyond").exists()


async def test_what_a_thread_spends_after_its_run_burdens_no_other_ticket(pool: Pool, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = await pool.run(order(f"pay_later {gate}"))
    second = asyncio.create_task(pool.run(order(f"wait {tmp_path / 'go'}")))
    gate.touch()
    await soon(lambda: not gate.exists(), saying="the thread is not held up for ever either")
    (tmp_path / "go").touch()
    report = await second
    assert first.worker == report.worker
    assert (report.outcome, first.spent, report.spent) == (Outcome.SUCCEEDED, Spent(), Spent())


async def test_process_that_a_handler_forks_may_report_and_takes_no_word_from_its_parent(pool: Pool) -> None:
    report = await pool.run(order("pay_in_child"))
    assert (report.outcome, report.spent) == (Outcome.SUCCEEDED, Spent(tokens=5))
    assert (await pool.run(order("fine"))).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("accident", ["spend", "spend_in_thread"])
async def test_inline_run_is_reported_only_when_what_it_spent_is_durable(accident: str) -> None:
    inline, book = Inline.load(ASYNC, slots=1), Book(is_open=False)
    run = asyncio.create_task(inline.run(order(accident), spent=book.keep))
    await soon(lambda: book.asked)
    assert not run.done()
    book.may_write.set()
    report = await run
    assert (report.outcome, report.spent, book.kept) == (Outcome.SUCCEEDED, Spent(tokens=7), [Spent(tokens=7)])

import asyncio
import os
import struct
from pathlib import Path

import pytest

from consumer.execution import RunReport
from consumer.pool import Pool
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Outcome
from tests.integration.workers.conftest import NewPool
from tests.integration.workers.orders import MIB, order
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(30)


async def test_handler_that_returns_has_succeeded(pool: Pool) -> None:
    report = await pool.run(order("fine"))
    assert report.outcome is Outcome.SUCCEEDED
    assert report.worker in pool.worker_pids()
    assert report.evidence["build"] == pool.build


async def test_exception_is_a_failure_with_its_traceback_and_text_that_can_be_stored(pool: Pool) -> None:
    report = await pool.run(order("raise"))
    assert (report.outcome, report.code) == (Outcome.FAILED, "ValueError")
    assert report.detail.startswith("ValueError: something")
    assert "\x00" not in report.detail
    assert "accidents.py" in report.evidence["traceback"]


async def test_exception_that_is_no_exception_is_a_failure_too(pool: Pool) -> None:
    report = await pool.run(order("panic"))
    assert (report.outcome, report.evidence["error_type"]) == (Outcome.FAILED, "asyncio.exceptions.CancelledError")


async def test_words_of_the_handler_become_outcomes(pool: Pool) -> None:
    rejected = await pool.run(order("reject"))
    retry = await pool.run(order("retry"))
    down = await pool.run(order("down"))
    assert (rejected.outcome, rejected.detail) == (Outcome.REJECTED, "not a ticket")
    assert (retry.outcome, retry.after, retry.detail) == (Outcome.FAILED, 60, "rate limited")
    assert (down.outcome, down.after, down.dependency) == (Outcome.DEPENDENCY, 30, "the-model")


async def test_what_was_spent_survives_the_worker(pool: Pool) -> None:
    report = await pool.run(order("spend"))
    assert (report.outcome, report.spent) == (Outcome.CRASHED, Spent(tokens=1500, usd=0.004))


async def test_exit_status_and_last_lines_are_evidence(pool: Pool) -> None:
    report = await pool.run(order("exit 3"))
    assert (report.outcome, report.code, report.evidence["exit_status"]) == (Outcome.CRASHED, "exit:3", 3)
    assert report.evidence["log_tail"] == "one last line\n"


async def test_segfault_leaves_signal_last_words_and_stack(pool: Pool) -> None:
    report = await pool.run(order("segfault"))
    assert (report.outcome, report.code, report.evidence["signal"]) == (Outcome.CRASHED, "signal:11", 11)
    assert report.evidence["progress"] == "about to read address 0"
    assert "Segmentation fault" in report.evidence["stack"]
    assert "in handle" in report.evidence["stack"]
    assert report.evidence["peak_rss"] > MIB


async def test_regular_expression_that_never_ends_is_killed_at_the_deadline(pool: Pool) -> None:
    report = await pool.run(order("redos", deadline=0.3))
    assert (report.outcome, report.code, report.evidence["cause"]) == (Outcome.TIMED_OUT, "deadline", "deadline")
    assert 0.3 <= report.seconds < 2


async def test_worker_that_writes_nonsense_is_killed_and_its_run_crashed(pool: Pool) -> None:
    report = await pool.run(order("garble"))
    assert (report.outcome, report.code) == (Outcome.CRASHED, "pipe")
    assert (await pool.run(order())).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("lie", ["tokens", "spend", "depth"])
async def test_worker_that_says_what_no_store_can_hold_is_killed_and_its_run_crashed(pool: Pool, lie: str) -> None:
    report = await pool.run(order(f"lie {lie}", examine=True))
    assert (report.outcome, report.code) == (Outcome.CRASHED, "pipe")
    assert report.spent == Spent()
    assert report.admission is None or report.admission.bytes == len(f"lie {lie}"), "measured before the lie"


async def test_handler_whose_words_cannot_be_read_has_still_said_them(new_pool: NewPool) -> None:
    pool = new_pool(handler="tests.integration.workers.accidents:handle_async")
    await pool.start()
    report = await pool.run(order("mute"))
    assert (report.outcome, report.code) == (Outcome.REJECTED, "Reject")


async def test_start_is_told_when_the_order_has_a_worker_and_not_before(pool: Pool, tmp_path: Path) -> None:
    started: list[int] = []
    first = asyncio.create_task(pool.run(order(f"wait {tmp_path / 'go'}"), started=started.append))
    second, unstarted = order(), order()
    runs = [asyncio.create_task(pool.run(one, started=started.append)) for one in (second, unstarted)]
    await asyncio.sleep(0)
    assert started == pool.worker_pids()
    pool.revoke(unstarted.run, outcome=Outcome.RELEASED, grace=5)
    (tmp_path / "go").touch()
    reports = [await first, *[await run for run in runs]]
    assert [report.outcome for report in reports] == [Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.RELEASED]
    assert started == [reports[0].worker, reports[1].worker]


async def test_last_words_on_the_output_are_logged_with_their_ticket(
    pool: Pool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    murmurs = order(f"murmur {tmp_path / 'done'}")
    run = asyncio.create_task(pool.run(murmurs))
    await asyncio.sleep(0)
    eventually((tmp_path / "done").exists)  # the loop stands still meanwhile and finds all that was said at once
    assert (await run).outcome is Outcome.SUCCEEDED
    (said,) = [vars(record)["lazaretto_fields"] for record in caplog.records if record.msg == "output"]
    assert (said["ticket"], said["line"]) == (murmurs.ticket, "almost done")


async def test_item_that_came_past_the_door_is_examined_before_the_handler(pool: Pool) -> None:
    refused = await pool.run(order(body=b"\xff\xfe" + "exit 9".encode("utf-16-le") + b"\x00\xd8", examine=True))
    passed = await pool.run(order("exit 9", examine=True))
    assert (refused.outcome, refused.evidence.get("exit_status")) == (Outcome.INADMISSIBLE, None)
    assert refused.evidence["violations"][0]["rule"] == refused.code
    assert (passed.outcome, passed.code) == (Outcome.CRASHED, "exit:9")
    assert passed.admission is not None, "measured before the handler could die of it"
    assert passed.admission.bytes == 6


async def test_image_that_claims_to_be_huge_passes_undecoded_and_costs_only_the_run_that_decodes_it(pool: Pool) -> None:
    header = b"\x89PNG\r\n\x1a\n" + struct.pack("!I4sII", 13, b"IHDR", 40_000, 40_000)
    parts = b'--x\r\nContent-Disposition: form-data; name="body"\r\n\r\nbitmap\r\n'
    parts += b'--x\r\nContent-Disposition: form-data; name="a"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
    parts += header + b"\r\n--x--\r\n"
    claimed = order(body=parts, content_type="multipart/form-data; boundary=x", examine=True, memory_limit=200 * MIB)
    report = await pool.run(claimed)
    assert report.admission is not None
    assert report.admission.attachments == 1, "examined by what it is, not by what it claims"
    assert report.outcome is Outcome.MEMORY
    assert (await pool.run(order("fine"))).outcome is Outcome.SUCCEEDED


async def test_item_that_came_past_the_door_has_the_limits_of_its_kind(new_pool: NewPool) -> None:
    own = order("exit 9", examine=True)
    pool = new_pool(limits={"max_body_bytes": 1000, "kinds": {own.kind: {"max_body_bytes": 5}}})
    await pool.start()

    refused = await pool.run(own)

    assert (refused.outcome, refused.code) == (Outcome.INADMISSIBLE, "body_too_large")


async def test_large_body_reaches_the_worker_whole(pool: Pool) -> None:
    report = await pool.run(order("size " + "ü" * 250_000))
    assert report.evidence["progress"] == str(250_000 + 5)


async def test_flood_of_output_is_bounded_and_does_not_hold_up_the_run(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    report = await pool.run(order("flood"))
    assert report.outcome is Outcome.SUCCEEDED
    passed = sum(1 for record in caplog.records if record.getMessage() == "output")
    assert 0 < passed <= 1200


async def test_worker_has_no_descriptor_but_its_own(new_pool: NewPool) -> None:
    pool = new_pool(slots=3)
    await pool.start()
    names = (await pool.run(order("descriptors"))).evidence["progress"].split()
    # standard input, output twice, the pipe, files for its peak and its stacks, and what its event loop is made of
    own_loop = {"anon_inode": 1, "socket": 1 + 2}
    own_files = {f"/proc/{_pid_of(names)}/clear_refs": 1, "/memfd": 1}
    counts = {name: names.count(name) for name in set(names)}
    assert counts == {"/dev/null": 1, "pipe": 2, **own_files, **own_loop}


def _pid_of(names: list[str]) -> str:
    return next(name.split("/")[2] for name in names if name.endswith("clear_refs"))


async def test_revoked_run_that_listens_and_returns_has_given_up_and_is_not_done(pool: Pool, tmp_path: Path) -> None:
    waiting = order(f"wait {tmp_path / 'never'}")
    run = asyncio.create_task(pool.run(waiting))
    await asyncio.sleep(0)
    pool.revoke(waiting.run, outcome=Outcome.OUTAGE, grace=10)
    report = await run
    assert (report.outcome, report.code) == (Outcome.OUTAGE, "gave_up")


async def test_revoked_run_that_finishes_its_work_within_the_grace_is_done(pool: Pool, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    deaf = order(f"deaf {gate}")
    run = asyncio.create_task(pool.run(deaf))
    await asyncio.sleep(0)
    pool.revoke(deaf.run, outcome=Outcome.OUTAGE, grace=10)
    gate.touch()
    assert (await run).outcome is Outcome.SUCCEEDED


async def test_revoked_run_that_is_deaf_is_killed_after_the_grace(pool: Pool, tmp_path: Path) -> None:
    deaf = order(f"deaf {tmp_path / 'never'}", deadline=20)
    run = asyncio.create_task(pool.run(deaf))
    await asyncio.sleep(0)
    pool.revoke(deaf.run, outcome=Outcome.OUTAGE, grace=0.2)
    report = await run
    assert (report.outcome, report.code) == (Outcome.OUTAGE, "revoked")
    assert report.seconds < 20, "the grace has ended it, not the deadline"


async def test_revoked_run_is_not_blamed_for_a_deadline_that_comes_first(pool: Pool, tmp_path: Path) -> None:
    deaf = order(f"deaf {tmp_path / 'never'}", deadline=0.2)
    run = asyncio.create_task(pool.run(deaf))
    await asyncio.sleep(0)
    pool.revoke(deaf.run, outcome=Outcome.RELEASED, grace=10)
    assert (await run).outcome is Outcome.RELEASED


async def test_run_that_waits_for_a_worker_can_be_revoked_unstarted(pool: Pool, tmp_path: Path) -> None:
    first = asyncio.create_task(pool.run(order(f"wait {tmp_path / 'go'}")))
    second = order()
    waiting = asyncio.create_task(pool.run(second))
    await asyncio.sleep(0)
    pool.revoke(second.run, outcome=Outcome.RELEASED, grace=5)
    assert (await waiting).outcome is Outcome.RELEASED
    (tmp_path / "go").touch()
    assert (await first).outcome is Outcome.SUCCEEDED


async def test_stop_releases_what_still_runs(new_pool: NewPool, tmp_path: Path) -> None:
    pool = new_pool(slots=2)
    await pool.start()
    runs = [asyncio.create_task(pool.run(order(f"deaf {tmp_path / 'never'}"))) for _ in range(3)]
    await asyncio.sleep(0)
    await pool.stop()
    reports: list[RunReport] = await asyncio.gather(*runs)
    assert [report.outcome for report in reports] == [Outcome.RELEASED] * 3
    assert (await pool.run(order())).outcome is Outcome.RELEASED


async def test_task_left_behind_by_one_run_is_not_met_by_the_next(new_pool: NewPool) -> None:
    pool = new_pool(handler="tests.integration.workers.accidents:handle_async")
    await pool.start()
    first = await pool.run(order("linger"))
    report = await pool.run(order("neighbours"))
    assert report.detail == f"{first.worker} []"


async def test_task_that_refuses_to_end_costs_its_worker_and_not_the_next_run(new_pool: NewPool) -> None:
    pool = new_pool(handler="tests.integration.workers.accidents:handle_async")
    await pool.start()
    first = await pool.run(order("cling"))
    report = await pool.run(order("neighbours"))
    assert first.outcome is Outcome.SUCCEEDED
    assert report.detail.endswith(" []")
    assert report.worker != first.worker


async def test_fresh_pool_gives_every_run_a_worker_of_its_own(new_pool: NewPool) -> None:
    pool = new_pool(fresh=True)
    await pool.start()
    workers = [(await pool.run(order())).worker for _ in range(3)]
    assert len(set(workers)) == 3
    assert os.getpid() not in workers

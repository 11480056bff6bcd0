"""Where a ticket stands does not depend on the order in which reports arrive (P18)."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.contract.outcomes import Stamp, Standing, TicketState
from gateway.station import standings
from gateway.station.standings import Report
from gateway.station.store import Store, TicketStatus

_counts = st.integers(0, 2)
_stamps = st.builds(Stamp, generation=_counts, attempt=st.integers(1, 3), interruptions=_counts)
_standings = st.builds(Standing, stamp=_stamps, state=st.sampled_from(TicketState))


async def _merged(folder: Path, reports: Sequence[Report]) -> TicketStatus:
    store = await Store.open(f"sqlite+aiosqlite:///{folder}/station.db")
    try:
        for report in reports:
            async with store.writing() as transaction:
                await standings.merge(transaction, [report])
        found = await store.ticket_status(reports[0].ticket)
    finally:
        await store.close()
    assert found is not None
    return found


_numbers = itertools.count()


def _report(ticket: str, standing: Standing, at: float) -> Report:
    excusable = standing.state is TicketState.RUNNING
    attempts = standing.stamp.attempt
    return Report(ticket=ticket, kind="k", standing=standing, attempts=attempts, excusable=excusable, at=at)


@settings(max_examples=25)
@given(reported=st.lists(_standings, min_size=1, max_size=6), seed=st.randoms(use_true_random=False))
def test_any_order_of_reports_ends_in_the_merge_of_all(
    tmp_path_factory: pytest.TempPathFactory, reported: list[Standing], seed: random.Random
) -> None:
    shuffled = list(enumerate(reported))
    seed.shuffle(shuffled)
    expected = reduce(Standing.merge, reported)
    folder = _folder(tmp_path_factory)

    async def both() -> tuple[TicketStatus, TicketStatus]:
        first, second = f"a{next(_numbers)}", f"b{next(_numbers)}"
        one = await _merged(folder, [_report(first, each, at) for at, each in enumerate(reported)])
        other = await _merged(folder, [_report(second, each, at) for at, each in shuffled])
        return one, other

    one, other = asyncio.run(both())

    assert (one.state, one.generation) == (expected.state, expected.stamp.generation)
    assert (one.state, one.generation, one.attempts, one.updated_at) == (
        other.state,
        other.generation,
        other.attempts,
        other.updated_at,
    )


def _folder(factory: pytest.TempPathFactory) -> Path:
    folder = factory.getbasetemp() / "standings"
    folder.mkdir(exist_ok=True)
    return folder

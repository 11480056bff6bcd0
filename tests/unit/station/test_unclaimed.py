"""What may be removed from the depot: never what anything unfinished or undecided could still want (G13, Q9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.outcomes import TicketState
from gateway.depot import Folder
from gateway.station.unclaimed import LOOKS_APART, Claims, Patience, Standing, may_go

DAY = 86_400.0
PATIENCE = Patience(retention=30 * DAY, grace=DAY)
WRITTEN = 1_000_000.0
FOLDER = Folder(name="t~" + "0" * 32, newest=WRITTEN, bytes=1)
NOW = WRITTEN + 100 * DAY
QUIET = [NOW - 2 * LOOKS_APART, NOW - LOOKS_APART]
ENDED = [TicketState.DONE, TicketState.DISCARDED]
UNFINISHED = [state for state in TicketState if state not in ENDED]

_moments = st.floats(WRITTEN - 200 * DAY, WRITTEN + 200 * DAY)
_claims = st.builds(
    Claims,
    owner=st.none() | st.builds(Standing, state=st.sampled_from(TicketState), updated_at=_moments),
    kept=st.booleans(),
    started=st.booleans(),
    on_hold=st.booleans(),
)
_quiet = st.lists(_moments, max_size=4).map(sorted)


def _ended(at: float, state: TicketState = TicketState.DONE) -> Claims:
    return Claims(owner=Standing(state=state, updated_at=at))


@given(claims=_claims, quiet=_quiet, now=_moments)
def test_nothing_goes_that_anything_unfinished_or_undecided_refers_to(
    claims: Claims, quiet: list[float], now: float
) -> None:
    gone = may_go(FOLDER, claims, PATIENCE, quiet=quiet, now=now)
    unfinished = claims.owner is not None and claims.owner.state in UNFINISHED
    assert not (gone and (claims.kept or claims.started or claims.on_hold or unfinished))


@given(claims=_claims, quiet=_quiet, more=_quiet, now=_moments, later=_moments)
def test_what_may_go_may_go_later_and_after_further_quiet_looks(
    claims: Claims, quiet: list[float], more: list[float], now: float, later: float
) -> None:
    if may_go(FOLDER, claims, PATIENCE, quiet=quiet, now=now):
        assert may_go(FOLDER, claims, PATIENCE, quiet=sorted(quiet + more), now=max(now, later))


@pytest.mark.parametrize("state", ENDED)
def test_what_has_ended_goes_when_its_retention_is_over_whatever_the_queues_hold(state: TicketState) -> None:
    ended = WRITTEN + DAY
    assert not may_go(FOLDER, _ended(ended, state), PATIENCE, quiet=[], now=ended + 30 * DAY - 1)
    assert may_go(FOLDER, _ended(ended, state), PATIENCE, quiet=[], now=ended + 30 * DAY)


def test_silence_is_no_end() -> None:
    assert not may_go(FOLDER, Claims(), PATIENCE, quiet=[], now=NOW)


def test_what_nobody_heard_of_goes_after_two_quiet_looks_that_came_late_enough() -> None:
    assert may_go(FOLDER, Claims(), PATIENCE, quiet=QUIET, now=NOW)
    assert not may_go(FOLDER, Claims(), PATIENCE, quiet=QUIET[:1], now=NOW)
    early = WRITTEN + DAY - 1
    assert not may_go(FOLDER, Claims(), PATIENCE, quiet=[early, early + LOOKS_APART - 1], now=NOW)
    assert not may_go(FOLDER, Claims(), PATIENCE, quiet=[early, early + LOOKS_APART], now=NOW)
    assert not may_go(FOLDER, Claims(), PATIENCE, quiet=[NOW - LOOKS_APART + 1, NOW], now=NOW)


def test_the_end_of_an_earlier_ticket_of_the_same_id_is_not_its_end() -> None:
    assert not may_go(FOLDER, _ended(WRITTEN - DAY), PATIENCE, quiet=[], now=NOW)
    assert may_go(FOLDER, _ended(WRITTEN - DAY), PATIENCE, quiet=QUIET, now=NOW)

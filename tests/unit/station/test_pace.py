"""People get a bounded number of messages, and nothing that is due is held back without a message that tells of it."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.station.holding import AlertEvent
from gateway.station.pace import Pace, Rate, Turn
from gateway.station.rollup import MOST_NAMED, Mention, rolled_up

ARRIVALS = st.lists(st.tuples(st.floats(0.1, 30.0), st.integers(0, 200)), min_size=1, max_size=60)


@given(arrivals=ARRIVALS, most=st.integers(0, 12))
def test_in_any_span_there_are_at_most_so_many_single_messages_and_one_of_many(
    arrivals: list[tuple[float, int]], most: int
) -> None:
    rate = Rate(most=most, span=60.0)
    pace = Pace(rate)
    now, waiting = 1000.0, 0
    single: list[float] = []
    together: list[float] = []
    for pause, number in arrivals:
        now, waiting = now + pause, waiting + number
        if not waiting:
            continue
        match pace.turn(waiting, now):
            case Turn.SINGLY:
                single += [now] * waiting
                for _ in range(waiting):
                    pace.sent(Turn.SINGLY, now)
                waiting = 0
            case Turn.TOGETHER:
                together.append(now)
                pace.sent(Turn.TOGETHER, now)
                waiting = 0
            case Turn.LATER:
                assert any(now - moment < rate.span for moment in together)
    for begin in (*single, *together):
        assert sum(begin <= moment < begin + rate.span for moment in single) <= most
        assert sum(begin <= moment < begin + rate.span for moment in together) <= 1


def test_few_alerts_are_told_one_by_one_and_many_in_one() -> None:
    pace = Pace(Rate(most=3, span=60.0))
    assert pace.turn(3, 0.0) is Turn.SINGLY
    assert pace.turn(4, 0.0) is Turn.TOGETHER
    pace.sent(Turn.TOGETHER, 0.0)
    assert pace.turn(4, 59.0) is Turn.LATER
    assert pace.turn(3, 59.0) is Turn.SINGLY
    assert pace.turn(4, 60.0) is Turn.TOGETHER


@given(numbers=st.tuples(st.integers(0, 120), st.integers(0, 120), st.integers(0, 120)).filter(any))
def test_one_message_counts_all_names_as_many_as_fit_and_says_where_the_others_are(
    numbers: tuple[int, int, int],
) -> None:
    held, suspected, decided = numbers
    mentions = [
        *(Mention(event=AlertEvent.QUARANTINED, ticket=f"q-{n}", kind="k", reason="r") for n in range(held)),
        *(Mention(event=AlertEvent.SUSPECT, ticket=f"s-{n}") for n in range(suspected)),
        *(Mention(event=AlertEvent.RESOLVED, ticket=f"d-{n}", kind="k", reason="r") for n in range(decided)),
    ]
    notice = rolled_up(mentions, "http://desk", 1.0)

    assert notice.fields["told"] == len(mentions)
    assert notice.text.endswith("All of them are on the desk: http://desk/")
    for number, letter, words in ((held, "q", "in quarantine"), (decided, "d", "out of quarantine")):
        assert (f"{number} {words}" in notice.title) == (number > 0)
        assert (f"{letter}-0" in notice.text) == (number > 0)
        assert (f" and {number - MOST_NAMED} more" in notice.text) == (number > MOST_NAMED)


def test_a_hostile_name_is_one_printable_line_in_it() -> None:
    hostile = Mention(event=AlertEvent.QUARANTINED, ticket="a\nb\x1b[31m" + "x" * 500, kind="k\n", reason="r")
    notice = rolled_up([hostile], "http://desk", 1.0)
    assert notice.text.isprintable()
    assert len(notice.text) < 500

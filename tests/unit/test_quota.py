"""What a token bucket promises: never more than the quota and what came in since, and a wait that is long enough."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.quota import Allowance, Bucket, Exceeded, Policy, Rate

rates = st.builds(Rate, amount=st.integers(1, 10**9), seconds=st.integers(1, 86_400))
steps = st.lists(st.tuples(st.floats(0, 1000), st.integers(1, 10**9)), max_size=50)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50/s", Rate(amount=50, seconds=1)),
        ("1000/10m", Rate(amount=1000, seconds=600)),
        ("5MiB/s", Rate(amount=5 << 20, seconds=1)),
        (" 2.5KiB / 2h ", Rate(amount=2560, seconds=7200)),
        ("1/d", Rate(amount=1, seconds=86_400)),
    ],
)
def test_a_rate_is_read_as_written(text: str, rate: Rate) -> None:
    assert Rate.read(text) == rate


@pytest.mark.parametrize("text", ["", "50", "50/", "/s", "0/s", "5/0s", "-1/s", "5/w", "5/s/s", "999999999999999999/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|leave it out"):
        Rate.read(text)


@given(rates)
def test_a_rate_is_read_as_it_is_shown(rate: Rate) -> None:
    assert Rate.read(str(rate)) == rate


@given(rates, st.integers(1, 10**9))
def test_a_rate_that_holds_a_ticket_is_never_faster(rate: Rate, ticket: int) -> None:
    wide = rate.holding(ticket)

    assert wide.amount >= ticket
    assert wide.amount * rate.seconds <= rate.amount * wide.seconds


@given(rates, steps)
def test_no_more_is_taken_than_the_quota_and_what_came_in_meanwhile(
    rate: Rate, taking: list[tuple[float, int]]
) -> None:
    bucket, now, taken = Bucket(rate, now=0), 0.0, 0
    for pause, amount in taking:
        now += pause
        if bucket.take(amount, now):
            taken += amount

    most = rate.amount + now * rate.amount / rate.seconds
    assert taken <= most * (1 + 1e-9)


@given(rates, steps)
def test_what_is_left_is_never_negative_and_never_above_the_quota(
    rate: Rate, draining: list[tuple[float, int]]
) -> None:
    bucket, now = Bucket(rate, now=0), 0.0
    for pause, amount in draining:
        now += pause
        bucket.drain(amount, now)
        assert 0 <= bucket.left(now) <= rate.amount
        assert 0 <= bucket.left(now - 500) <= rate.amount, "also when the clock went back"


@given(rates, st.integers(1, 10**9))
def test_after_the_wait_it_can_be_taken(rate: Rate, amount: int) -> None:
    bucket = Bucket(rate, now=0)
    bucket.drain(rate.amount, 0)

    wait = math.ceil(bucket.wait(amount, 0)) + 1

    assert bucket.take(min(amount, rate.amount), wait)


@given(rates, rates, st.integers(0, 10**9))
def test_a_change_of_the_rate_gives_nothing_away(old: Rate, new: Rate, used: int) -> None:
    bucket = Bucket(old, now=0)
    bucket.drain(used, 0)

    assert bucket.refitted(new, 0).left(0) <= min(new.amount, int(bucket.left(0)))


def test_a_bucket_is_full_again_after_its_time() -> None:
    bucket = Bucket(Rate(amount=10, seconds=5), now=0)
    assert bucket.take(10, 0)
    assert not bucket.take(1, 0.4)
    assert bucket.take(1, 0.5)
    assert bucket.left(6) == 10


def test_bytes_that_have_come_are_taken_even_when_they_are_too_many() -> None:
    allowance = Allowance(requests=None, size=Rate(amount=100, seconds=10), now=0)

    assert allowance.arrived(60, 60, 0) is None
    assert allowance.arrived(60, 120, 0) == Exceeded(policy=Policy.BYTES, wait=10)
    assert allowance.covers(1, 0.05) == Exceeded(policy=Policy.BYTES, wait=1)


def test_a_declared_size_takes_nothing() -> None:
    allowance = Allowance(requests=None, size=Rate(amount=100, seconds=10), now=0)
    assert allowance.covers(100, 0) is None
    assert allowance.covers(100, 0) is None


def test_without_a_quota_everything_passes_and_no_field_is_sent() -> None:
    allowance = Allowance(requests=None, size=None, now=0)

    assert [allowance.request(0), allowance.covers(10**12, 0), allowance.arrived(10**12, 10**12, 0)] == [None] * 3
    assert allowance.fields(0) == {}


def test_the_fields_name_the_quota_what_is_left_and_when_it_is_whole() -> None:
    allowance = Allowance(requests=Rate(amount=2, seconds=60), size=Rate(amount=1000, seconds=10), now=0)
    assert allowance.request(0) is None
    assert allowance.arrived(250, 250, 0) is None

    assert allowance.fields(0) == {
        "RateLimit-Policy": '"requests";q=2;w=60, "bytes";q=1000;qu="content-bytes";w=10',
        "RateLimit": '"requests";r=1;t=30, "bytes";r=750;t=3',
    }


@given(rates, rates, steps)
def test_the_fields_are_well_formed_structured_fields(
    requests: Rate, size: Rate, taking: list[tuple[float, int]]
) -> None:
    allowance, now = Allowance(requests=requests, size=size, now=0), 0.0
    for pause, amount in taking:
        now += pause
        allowance.request(now)
        allowance.arrived(amount, amount, now)

    item = r'"[a-z]+"(;[a-z]+=(\d{1,15}|"[a-z-]+"))+'
    for value in allowance.fields(now).values():
        assert re.fullmatch(f"{item}(, {item})*", value)

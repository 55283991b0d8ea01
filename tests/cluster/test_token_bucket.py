"""How often something may be done."""

from hypothesis import given
from hypothesis import strategies as st

from webhook.cluster.token_bucket import Buckets, Rate, TokenBucket

RATE = Rate(burst=3, per_second=2)


def test_a_full_bucket_gives_its_burst_and_then_as_much_as_time_brings_back() -> None:
    bucket = TokenBucket(RATE)
    assert [bucket.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(10.5), bucket.take(10.5)] == [True, False]
    assert [bucket.take(1000.0) for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_goes_back_brings_nothing() -> None:
    bucket = TokenBucket(RATE)
    assert [bucket.take(10.0) for _ in range(3)] == [True] * 3
    assert not bucket.take(0.0)


@given(st.lists(st.floats(0, 2), max_size=60))
def test_never_more_than_the_burst_and_what_the_time_is_worth(waits: list[float]) -> None:
    bucket, now, taken = TokenBucket(RATE), 0.0, 0
    for wait in waits:
        now += wait
        taken += bucket.take(now)
    assert taken <= RATE.burst + now * RATE.per_second + 1e-6


def test_one_key_does_not_hold_up_another() -> None:
    buckets = Buckets(each=RATE, total=Rate(burst=5, per_second=1))
    assert [buckets.take("a", 0.0) for _ in range(10)].count(True) == 3
    assert [buckets.take("b", 0.0) for _ in range(3)] == [True, True, False]


def test_a_key_that_was_refused_for_the_sake_of_all_loses_no_token() -> None:
    buckets = Buckets(each=Rate(burst=1, per_second=0), total=Rate(burst=1, per_second=1))
    assert buckets.take("a", 0.0)
    assert not buckets.take("b", 0.0)
    assert buckets.take("b", 1.0)


def test_the_key_that_was_not_used_for_the_longest_time_is_forgotten() -> None:
    buckets = Buckets(each=Rate(burst=1, per_second=0), total=Rate(burst=100, per_second=1), kept=2)
    assert buckets.take("a", 0.0)
    assert buckets.take("b", 0.0)
    assert not buckets.take("a", 0.0)
    assert buckets.take("c", 0.0)
    assert not buckets.take("a", 0.0)
    assert buckets.take("b", 0.0)

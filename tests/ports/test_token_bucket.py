"""cronhpa.ports.token_bucket: so many at once after a pause, and so many a second from then on."""

import pytest

from cronhpa.ports.token_bucket import Pace, TokenBucket, TokenBuckets


def test_a_bucket_gives_its_burst_and_then_its_pace():
    bucket = TokenBucket(Pace(per_second=2, burst=3))

    assert [True, True, True, False] == [bucket.take(100) for _ in range(4)]
    assert [True, False] == [bucket.take(100.5) for _ in range(2)]
    assert [True, True, True, False] == [bucket.take(200) for _ in range(4)]


def test_a_reservation_tells_when_it_may_be_used():
    bucket = TokenBucket(Pace(per_second=2, burst=1))

    assert [0, 0.5, 1] == [bucket.reserve(100) for _ in range(3)]
    assert pytest.approx(1) == bucket.reserve(100.5)


def test_a_clock_that_goes_back_gives_nothing():
    bucket = TokenBucket(Pace(per_second=1, burst=1))
    bucket.take(100)

    assert [False, False, True] == [bucket.take(now) for now in (50, 100.5, 101)]


def test_each_key_has_a_bucket_of_its_own():
    buckets = TokenBuckets(Pace(per_second=1, burst=1))

    assert [True, False, True] == [buckets.take(key, 100) for key in "aab"]


def test_of_very_many_keys_the_one_that_was_used_longest_ago_is_forgotten():
    buckets = TokenBuckets(Pace(per_second=1, burst=2))
    buckets.take("first", 100)
    for number in range(4095):
        buckets.take(str(number), 100)
    before = buckets.left("first", 100)
    buckets.take("one more", 100)

    assert (1, 2) == (before, buckets.left("0", 100))
    assert 1 == buckets.left("first", 100)

"""cronhpa.sources.page_worker: counters of a pod become rates."""

import gc
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

import cronhpa.sources.page_worker
from cronhpa.sources.exposition import PageSample
from cronhpa.sources.page_worker import PodRates


def counters(**values):
    return tuple(PageSample((("path", path),), value) for path, value in values.items())


def test_a_rate_is_the_increase_over_the_time_between_two_scrapes():
    pod = PodRates()

    assert pod.rates(counters(a=100, b=7), 10.0) is None
    assert ([5.0, 0.0], 4.0) == pod.rates(counters(a=120, b=7), 14.0)


def test_a_counter_that_began_anew_has_increased_by_what_it_says():
    """A container that was started again: from 100 to 0, and from there to 20."""
    pod = PodRates()
    pod.rates(counters(a=100), 10.0)

    assert ([5.0], 4.0) == pod.rates(counters(a=20), 14.0)


def test_a_counter_that_was_not_there_before_began_at_zero():
    pod = PodRates()
    pod.rates(counters(a=100), 10.0)

    assert ([0.0, 3.0], 2.0) == pod.rates(counters(a=100, b=6), 12.0)


def test_two_scrapes_in_a_moment_make_no_rate_and_do_not_spoil_the_next():
    pod = PodRates()
    pod.rates(counters(a=100), 10.0)

    assert pod.rates(counters(a=101), 10.1) is None
    assert ([5.0], 2.0) == pod.rates(counters(a=110), 12.0)


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=20))
def test_no_rate_is_below_zero(values):
    pod = PodRates()
    steps = [pod.rates(counters(a=value), float(at)) for at, value in enumerate(values)]

    assert all(rates[0][0] >= 0 for rates in steps[1:])


def test_the_counters_of_a_pod_are_remembered_in_little_memory():
    """A page holds 2,000 of a metric. With their labels they would be half a megabyte, of each pod for each object."""

    def page():
        return tuple(PageSample((("path", f"/{number:04d}"), ("verb", "GET")), float(number)) for number in range(2000))

    rates = PodRates()
    tracemalloc.start()
    try:
        rates.rates(page(), 0.0)
        gc.collect()  # it gives back the tuples that Python keeps for the next ones
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # Threads of other tests may be at work in this process: only what these two files asked for is theirs.
    here = [tracemalloc.Filter(True, file) for file in (__file__, cronhpa.sources.page_worker.__file__)]
    kept = sum(trace.size for trace in snapshot.filter_traces(here).traces)

    assert kept < 48 * 1024
    assert ([0.0] * 2000, 1.0) == rates.rates(page(), 1.0)

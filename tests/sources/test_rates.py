"""cronhpa.sources.rates: counters of a pod become rates."""

from hypothesis import given
from hypothesis import strategies as st

from cronhpa.sources.exposition import PageSample
from cronhpa.sources.rates import PodRates


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
    found = [pod.rates(counters(a=value), float(at)) for at, value in enumerate(values)]

    assert all(rates[0][0] >= 0 for rates in found[1:])

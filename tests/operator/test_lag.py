"""cronhpa.operator.lag: how late decisions are, in buckets."""

from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.instant import MILLISECOND, SECOND
from cronhpa.operator.families import DECISION_LAG
from cronhpa.operator.lag import BOUNDS, LagHistogram


def test_a_bucket_counts_the_lags_up_to_its_bound():
    """5 ms are in the first bucket, 5.1 and 7.5 ms in the second, two minutes in the last."""
    lag = LagHistogram()
    for milliseconds in (5, 5.1, 7.5, 120_000):
        lag.note(round(milliseconds * MILLISECOND))

    assert [1, 2, 0] == lag.counts[:3]
    assert 1 == lag.counts[-1]


def test_prometheus_gets_cumulative_buckets():
    lag = LagHistogram()
    for milliseconds in (1, 6, 6):
        lag.note(milliseconds * MILLISECOND)

    samples = {sample.labels.get("le", sample.name): sample.value for sample in DECISION_LAG.histogram(lag).samples}

    assert (1, 3, 3) == (samples["0.005"], samples["0.0075"], samples["+Inf"])
    assert 0.013 == samples["cronhpa_decision_lag_seconds_sum"]


@given(st.lists(st.integers(-SECOND, 100 * SECOND)))
def test_every_lag_is_in_the_bucket_that_bounds_it(lags):
    lag = LagHistogram()
    for each in lags:
        lag.note(each)

    for index, bound in enumerate(BOUNDS):
        assert sum(each <= bound for each in lags) == sum(lag.counts[: index + 1])
    assert len(lags) == sum(lag.counts)

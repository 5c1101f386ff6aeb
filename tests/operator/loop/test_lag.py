"""cronhpa.operator.loop.loop_metrics: how late decisions are, in buckets."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import MILLISECOND, SECOND
from cronhpa.operator.loop.loop_metrics import BOUNDS, LagHistogram, note_lags
from cronhpa.operator.monitoring.families import DECISION_LAG


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
    for nanoseconds in lags:
        lag.note(nanoseconds)

    for index, bound in enumerate(BOUNDS):
        assert sum(nanoseconds <= bound for nanoseconds in lags) == sum(lag.counts[: index + 1])
    assert len(lags) == sum(lag.counts)


def test_the_lags_of_many_objects_that_were_due_at_one_instant_are_counted_at_once():
    """Three were due 5 ms ago, and one 7 ms ago."""
    lag, now = LagHistogram(), 100 * SECOND
    states = [
        SimpleNamespace(due=SimpleNamespace(at=now - milliseconds * MILLISECOND)) for milliseconds in (5, 5, 7, 5)
    ]
    note_lags(lag, states, now)

    assert [3, 1] == lag.counts[:2]

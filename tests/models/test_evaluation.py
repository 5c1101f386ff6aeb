"""Scores, each with its arithmetic, and the rolling origin."""

import gzip
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas import DataFrame, Timedelta, date_range

from cronhpa_models.evaluation import coverage, mase, pinball_loss, read_series, rolling_origin, scores
from cronhpa_models.method import Quantiles

NAN = float("nan")


def test_too_low_costs_the_level_and_too_high_the_rest():
    """Level 0.9: two units too low cost 1.8, two units too high 0.2; the mean is 1.0."""
    assert pytest.approx(1.0) == pinball_loss(np.array([10.0, 10.0]), np.array([8.0, 12.0]), 0.9)


def test_coverage_counts_outcomes_at_or_below_the_forecast():
    assert 0.75 == coverage(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 3.5, 3.0]))


def test_mase_is_the_error_relative_to_yesterdays():
    """Errors 1 and 1 against 2 and 2 of repeating yesterday."""
    assert 0.5 == mase(np.array([5.0, 7.0]), np.array([6.0, 6.0]), np.array([3.0, 5.0]))


def test_pairs_with_a_gap_are_left_out_of_every_score():
    actual, forecast = np.array([10.0, NAN, 10.0]), np.array([8.0, 8.0, NAN])

    assert pytest.approx(1.8) == pinball_loss(actual, forecast, 0.9)
    assert 0.0 == coverage(actual, forecast)
    assert 0.5 == mase(actual, forecast, np.array([6.0, 6.0, 6.0]))


def test_scores_of_nothing_are_unknown():
    nothing = np.array([NAN])

    assert all(math.isnan(x) for x in (pinball_loss(nothing, nothing, 0.9), coverage(nothing, nothing)))
    assert math.isnan(mase(nothing, nothing, nothing))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.sampled_from([0.5, 0.9, 0.95]), st.floats(0, 100))
def test_no_constant_has_less_pinball_loss_than_the_quantile(outcomes, level, constant):
    actual = np.array(outcomes)
    quantile = np.full_like(actual, np.quantile(actual, level, method="inverted_cdf"))

    best = pinball_loss(actual, quantile, level)

    assert best <= pinball_loss(actual, np.full_like(actual, constant), level) + 1e-9


class Recorded:
    """A method that says the last value again, and keeps what it was shown."""

    def __init__(self):
        self.fitted, self.shown = [], []

    def fit(self, history):
        self.fitted.append(history.index[-1])
        return b""

    def forecast(self, _fitted, recent, levels):
        self.shown.append(recent.index[-1])
        step = Timedelta(hours=1)
        values = np.full((len(levels), 2, recent.shape[1]), recent.iloc[-1, 0])
        return Quantiles(
            tuple(levels), date_range(recent.index[-1] + step, periods=2, freq=step), recent.columns, values
        )


def hours(count):
    return DataFrame({"web": np.arange(count) * 1.0}, index=date_range("2026-03-01", periods=count, freq="h", tz="UTC"))


def test_each_origin_sees_the_rows_before_it_and_a_fit_lasts_a_day():
    load, method = hours(80), Recorded()

    backtest = rolling_origin(method, load, first=48, levels=(0.5,))

    assert list(load.index[47:79]) == method.shown
    assert [load.index[47], load.index[71]] == method.fitted
    assert list(load.index[48:]) == list(backtest.origins)


def test_outcomes_stand_beside_their_forecasts():
    """The load rises by one an hour: the last value is one too low, then two; yesterday's was 24 too low."""
    backtest = rolling_origin(Recorded(), hours(80), first=48, levels=(0.5,))

    assert [48.0, 49.0] == backtest.outcomes[0, :, 0].tolist()
    assert [47.0, 47.0] == backtest.forecasts[0, 0, :, 0].tolist()
    assert [24.0, 25.0] == backtest.day_before[0, :, 0].tolist()
    assert math.isnan(backtest.outcomes[-1, 1, 0])
    assert pytest.approx((1.0 * 32 + 2.0 * 31) / 63 / 24) == scores(backtest)["mase"]


def test_a_recorded_series_is_read_as_maxima_with_its_gaps(tmp_path):
    path = tmp_path / "web.csv.gz"
    lines = [
        "timestamp,value",
        "2026-03-01T00:00:00Z,1",
        "2026-03-01T00:01:00Z,3",
        "2026-03-01T00:06:00Z,",
        "2026-03-01T00:11:00Z,2",
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))

    load = read_series(path)["web"]

    assert [3.0, 2.0] == load.dropna().tolist()
    assert 3 == len(load)

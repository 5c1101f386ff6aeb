"""What each point forecast follows and what it forgets, and the quantiles that its errors make."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas import Series, date_range

from cronhpa_models.clock import quantiles_at_clock
from cronhpa_models.conformal import Calibrated
from cronhpa_models.decomposed import Decomposed
from cronhpa_models.exponential_smoothing import Additive, ExponentialSmoothing
from cronhpa_models.hourly_profile import expected as hourly
from cronhpa_models.periodic_autoregression import PeriodicAutoregression
from cronhpa_models.seasonal_naive import expected as seasonal
from cronhpa_models.time_of_week import TimeOfWeek

DAY = 288
SIX_O_CLOCK = 72


def series(load, steps=DAY):
    index = date_range("2026-03-01", periods=len(load), freq=f"{86_400 // steps}s", tz="UTC")
    return Series(np.asarray(load, dtype=float), index=index)


def noise(days, seed=1):
    return np.random.default_rng(seed).normal(size=days * DAY)


def newest(method, load, fitted_days, levels=(0.5, 0.9, 0.95)):
    """(levels, horizon): fitted on whole days, forecast from the end of `load`."""
    fitted = method.fit(load.iloc[: fitted_days * DAY], horizon=2)
    return fitted.quantiles(load.iloc[fitted_days * DAY :], levels).load[:, -1]


def test_yesterday_is_expected_at_the_same_clock():
    """Four steps a day: after row 5 (of the second day) come rows 2 and 3 of the first."""
    assert [2.0, 3.0] == seasonal(np.arange(8.0), 2, day=4)[5].tolist()


def test_the_hour_is_expected_as_a_mean_and_the_same_weekday_counts_twice():
    """An hour of two steps holds 1 and 3, in seven days: mean 2; a week ago it held 10 and 12: (6 * 2 + 2 * 11) / 8."""
    day = 48
    load = np.tile([1.0, 3.0], 7 * day // 2)
    load[:2] = [10.0, 12.0]

    assert pytest.approx((6 * 2 + 2 * 11) / 8) == hourly(load, 1, day=day)[-1, 0]


def test_the_clock_tells_the_least_value_that_covers_a_level():
    """
    The day before weighs 0.87 in the middle and half of it beside, the day before that 0.76: of 1, 9, 1 and 5, 5, 5 a
    total of 3.26 the fives and ones cover 2.39, which is 0.73.
    """
    values = np.array([5.0, 5.0, 5.0, 0, 1.0, 9.0, 1.0, 0, 0, 0])

    found = quantiles_at_clock(values, np.array([9]), [0.25, 0.73, 0.74], day=4, days=2)

    assert [1.0, 5.0, 9.0] == found[:, 0].tolist()


def test_a_clock_without_a_past_says_nothing():
    assert np.isnan(quantiles_at_clock(np.arange(3.0), np.array([2]), [0.5], day=4, days=2)).all()


def test_a_busier_day_lifts_the_time_of_week_when_it_is_corrected():
    """Twice the usual load for a quarter of an hour."""
    load = series(np.concatenate([np.full(10 * DAY, 4.0), np.full(3, 8.0)]))

    assert [4.0, 4.0] == newest(TimeOfWeek(corrected=False), load, 10)[0].tolist()
    assert [8.0, 8.0] == newest(TimeOfWeek(corrected=True), load, 10)[0].tolist()


def test_a_jump_that_comes_every_day_is_stated_before_it_comes():
    """
    `low` until 06:00, 10 after it. At 05:55 the 0.95 quantile of 06:00 is near the usual 10 cores, though the night
    before was unlike any other.
    """
    nightly = np.repeat(np.random.default_rng(7).uniform(0.5, 2.0, size=11), DAY)
    load = np.where(np.arange(11 * DAY) % DAY < SIX_O_CLOCK, nightly, 10.0) * np.exp(0.05 * noise(11))

    upper = newest(PeriodicAutoregression(), series(load[: 10 * DAY + SIX_O_CLOCK]), 10)[2]

    assert 10.0 <= upper[0] <= 12.5


@pytest.mark.parametrize("method", [PeriodicAutoregression(), ExponentialSmoothing(), Decomposed()], ids=repr)
def test_a_level_that_lasts_is_followed(method):
    """Days that differ by a factor which holds all day: today's, never seen before, is 1.5."""
    factor = np.repeat([1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.2, 1.5], DAY)
    curve = 5 + 2 * np.sin(np.arange(8 * DAY) / DAY * 2 * np.pi)

    median = newest(method, series((factor * curve)[: 7 * DAY + 150]), 7)[0]

    assert np.allclose(1.5 * curve[7 * DAY + 150 : 7 * DAY + 152], median, rtol=0.1)


@pytest.mark.parametrize("end", [7 * DAY + 60, 7 * DAY + 144])
def test_the_clock_is_kept_when_history_ends_in_the_middle_of_a_day(end):
    """Fitted until 05:00 or 12:00, the jump at 06:00 is at 06:00."""
    load = series(np.where(np.arange(9 * DAY) % DAY < SIX_O_CLOCK, 1.0, 10.0) * np.exp(0.05 * noise(9)))

    fitted = PeriodicAutoregression().fit(load.iloc[:end], horizon=1)
    upper = fitted.quantiles(load.iloc[end:], [0.9]).at(0.9)[1]

    assert upper[load.index[8 * DAY + SIX_O_CLOCK - 2]] < 5.0
    assert upper[load.index[8 * DAY + SIX_O_CLOCK - 1]] > 9.5


def test_the_recursion_between_fits_is_that_of_the_fitted_model():
    """Expectations of one step are the fitted values of statsmodels, which knows other start values."""
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    clock = np.arange(10 * 24) / 24 * 2 * np.pi
    load = 3 + np.sin(clock) + 0.1 * np.random.default_rng(2).standard_normal(len(clock))
    model = ETSModel(
        load, error="add", trend="add", seasonal="add", seasonal_periods=24, initialization_method="heuristic"
    )
    found = model.smooth([0.3, 0.01, 0.2])

    own = Additive(0.3, 0.01, 0.2, found.initial_level, found.initial_trend, tuple(found.initial_seasonal))(load, 2)

    np.testing.assert_allclose(found.fittedvalues[24:], own[23:-1, 0], atol=1e-9)
    np.testing.assert_allclose(found.forecast(2), own[-1], atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(200, 20 * 24 - 4), st.integers(1, 3))
def test_an_error_counts_only_once_its_outcome_is_known(seed, row, horizon):
    """Whatever is expected: what a load is changed to after an origin leaves the scale and the margin there alone."""
    random = np.random.default_rng(seed)
    load = series(random.gamma(3.0, 2.0, 20 * 24), 24)
    other = load.copy()
    other.iloc[row + 1 :] = 1000.0
    begin = row - 30

    one, two = (
        calibrated(each.iloc[:begin], 6.0, horizon).quantiles(each.iloc[begin:], [0.5, 0.9]).load
        for each in (load, other)
    )

    np.testing.assert_array_equal(one[:, : row - begin + 2], two[:, : row - begin + 2])


def test_a_noisy_hour_is_given_more_room_than_a_quiet_one():
    """A level of 10, known as such, with twenty days that are noisy from noon on: at noon the 0.9 quantile leaps."""
    loud = np.where(np.arange(21 * 24) % 24 < 12, 0.01, 0.5)
    load = series(10 * np.exp(loud * np.random.default_rng(3).standard_normal(21 * 24)), 24)

    upper = calibrated(load.iloc[: 20 * 24], level=10.0).quantiles(load.iloc[20 * 24 :], [0.9]).load[0, :, 0]

    assert upper[6:11].max() < 13.0
    assert 14.0 < upper[14:20].min()


def test_few_errors_make_no_quantile():
    """Two days of hours are 47 errors; fifty are the least."""
    load = series(np.full(49, 4.0), 24)

    assert np.isnan(newest_of_hours(load.iloc[:48])).all()
    assert np.isfinite(newest_of_hours(series(np.full(24 * 3, 4.0), 24))).all()


def newest_of_hours(load):
    return calibrated(load, level=4.0).quantiles(load.iloc[:0], [0.9]).load


def calibrated(history, level, horizon=1):
    """A method that always expects one load."""

    def expect(z, ahead):
        return np.full((len(z), ahead), np.log(level + 0.2))

    return Calibrated(history, 0.2, horizon, expect)


def test_a_load_unseen_for_three_steps_is_still_forecast_and_then_no_more():
    load = series(np.full(4 * DAY, 4.0))
    load.iloc[-4:] = np.nan

    found = PeriodicAutoregression().fit(load.iloc[:-6], horizon=1).quantiles(load.iloc[-6:], [0.9]).load[0, :, 0]

    assert [4.0] * 6 == pytest.approx(found[:6].tolist())
    assert np.isnan(found[6])

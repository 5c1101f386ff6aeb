"""
cronhpa_models.conformal, cronhpa_models.decomposed, cronhpa_models.exponential_mean,
cronhpa_models.exponential_smoothing, cronhpa_models.periodic_autoregression, cronhpa_models.time_of_week: what each
point forecast follows and forgets, and the quantiles of its errors.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa_models.conformal import Calibrated
from cronhpa_models.decomposed import Decomposed
from cronhpa_models.exponential_smoothing import Additive, ExponentialSmoothing
from cronhpa_models.method import on_grid
from cronhpa_models.periodic_autoregression import PeriodicAutoregression
from cronhpa_models.time_of_week import TimeOfWeek

DAY = 288
SIX_O_CLOCK = 72


def noise(days, seed=1):
    return np.random.default_rng(seed).normal(size=days * DAY)


def quantiles(fitted, later, levels):
    """(levels, origins, windows), from the end of the fit on."""
    rows = len(fitted.load) - 1 + np.arange(len(later) + 1)
    predicted = fitted.distribution(later, on_grid(fitted.load, later, rows))
    windows = range(len(predicted.load))
    return np.moveaxis(
        np.array([[predicted.quantile(0, window, level) for window in windows] for level in levels]), 1, 2
    )


def newest(method, load, fitted_days, levels=(0.5, 0.9, 0.95)):
    """(levels, windows): fitted on whole days, forecast from the end of `load`."""
    fitted = method.fit(load[: fitted_days * DAY], steps_per_day=DAY, windows=(1, 2))
    return quantiles(fitted, load[fitted_days * DAY :], levels)[:, -1]


def test_a_busier_day_lifts_the_time_of_week_when_it_is_corrected():
    """Twice the usual load for a quarter of an hour."""
    load = np.concatenate([np.full(10 * DAY, 4.0), np.full(3, 8.0)])

    assert [4.0, 4.0] == newest(TimeOfWeek(is_corrected=False), load, 10)[0].tolist()
    assert [8.0, 8.0] == newest(TimeOfWeek(is_corrected=True), load, 10)[0].tolist()


def test_a_jump_that_comes_every_day_is_stated_before_it_comes():
    """
    `low` until 06:00, 10 after it. At 05:55 the 0.95 quantile of 06:00 is near the usual 10 cores, though the night
    before was unlike any other.
    """
    nightly = np.repeat(np.random.default_rng(7).uniform(0.5, 2.0, size=11), DAY)
    load = np.where(np.arange(11 * DAY) % DAY < SIX_O_CLOCK, nightly, 10.0) * np.exp(0.05 * noise(11))

    upper = newest(PeriodicAutoregression(), load[: 10 * DAY + SIX_O_CLOCK], 10)[2]

    assert 10.0 <= upper[0] <= 12.5


@pytest.mark.parametrize(
    "method", [PeriodicAutoregression(), ExponentialSmoothing(), Decomposed()], ids=lambda case: case.name
)
def test_a_level_that_lasts_is_followed(method):
    """Days that differ by a factor which holds all day: today's, never seen before, is 1.5."""
    factor = np.repeat([1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.2, 1.5], DAY)
    curve = 5 + 2 * np.sin(np.arange(8 * DAY) / DAY * 2 * np.pi)

    median = newest(method, (factor * curve)[: 7 * DAY + 150], 7)[0]

    assert np.allclose(1.5 * curve[7 * DAY + 150 : 7 * DAY + 152], median, rtol=0.1)


@pytest.mark.parametrize("end", [7 * DAY + 60, 7 * DAY + 144])
def test_the_clock_is_kept_when_history_ends_in_the_middle_of_a_day(end):
    """Fitted until 05:00 or 12:00, the jump at 06:00 is at 06:00."""
    load = np.where(np.arange(9 * DAY) % DAY < SIX_O_CLOCK, 1.0, 10.0) * np.exp(0.05 * noise(9))

    fitted = PeriodicAutoregression().fit(load[:end], steps_per_day=DAY, windows=(1,))
    upper = quantiles(fitted, load[end:], [0.9])[0, :, 0]  # the first is of row end - 1

    assert upper[8 * DAY + SIX_O_CLOCK - 2 - (end - 1)] < 5.0
    assert upper[8 * DAY + SIX_O_CLOCK - 1 - (end - 1)] > 9.5


def test_the_recursion_between_fits_is_that_of_the_fitted_model():
    """Expectations of one step are the fitted values of statsmodels, which knows other start values."""
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    clock = np.arange(10 * 24) / 24 * 2 * np.pi
    load = 3 + np.sin(clock) + 0.1 * np.random.default_rng(2).standard_normal(len(clock))
    model = ETSModel(
        load, error="add", trend="add", seasonal="add", seasonal_periods=24, initialization_method="heuristic"
    )
    smoothed = model.smooth([0.3, 0.01, 0.2])

    own = Additive(0.3, 0.01, 0.2, smoothed.initial_level, smoothed.initial_trend, tuple(smoothed.initial_seasonal))(
        load, 2
    )

    np.testing.assert_allclose(smoothed.fittedvalues[24:], own[23:-1, 0], atol=1e-9)
    np.testing.assert_allclose(smoothed.forecast(2), own[-1], atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(200, 20 * 24 - 4), st.integers(1, 3))
def test_an_error_counts_only_once_its_outcome_is_known(seed, row, horizon):
    """For any expectation: a changed load after an origin changes neither scale nor margin at the origin."""
    random = np.random.default_rng(seed)
    load = random.gamma(3.0, 2.0, 20 * 24)
    other = load.copy()
    other[row + 1 :] = 1000.0
    begin = row - 30

    one, two = (
        quantiles(always(6.0, history[:begin], horizon), history[begin:], [0.5, 0.9]) for history in (load, other)
    )

    np.testing.assert_array_equal(one[:, : row - begin + 2], two[:, : row - begin + 2])


def test_a_noisy_hour_is_given_more_room_than_a_quiet_one():
    """A level of 10, known as such, with twenty days that are noisy from noon on: at noon the 0.9 quantile leaps."""
    loud = np.where(np.arange(21 * 24) % 24 < 12, 0.01, 0.5)
    load = 10 * np.exp(loud * np.random.default_rng(3).standard_normal(21 * 24))

    upper = quantiles(always(10.0, load[: 20 * 24]), load[20 * 24 :], [0.9])[0, :, 0]

    assert upper[6:11].max() < 13.0
    assert 14.0 < upper[14:20].min()


def test_few_errors_make_no_quantile():
    """Two days of hours are 47 errors; fifty are the least."""
    assert np.isnan(quantiles(always(4.0, np.full(48, 4.0)), np.array([]), [0.9])).all()
    assert np.isfinite(quantiles(always(4.0, np.full(24 * 3, 4.0)), np.array([]), [0.9])).all()


def always(level, history, horizon=1):
    """A method that always expects one load."""

    class Expected:
        def __call__(self, z, ahead):
            return np.full((len(z), ahead), np.log(level + 0.2))

        def gain(self, rows, ahead):
            return np.zeros((len(rows), ahead))

    return Calibrated(history, 0.2, 24, tuple(range(1, horizon + 1)), Expected())


def test_a_load_unseen_for_three_steps_is_still_forecast_and_then_no_more():
    load = np.full(4 * DAY, 4.0)
    load[-4:] = np.nan

    fitted = PeriodicAutoregression().fit(load[:-6], steps_per_day=DAY, windows=(1,))
    upper = quantiles(fitted, load[-6:], [0.9])[0, :, 0]

    assert [4.0] * 6 == pytest.approx(upper[:6].tolist())
    assert np.isnan(upper[6])

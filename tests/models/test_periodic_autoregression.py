"""The method: what it follows, what it forgets, what it refuses, and that it never looks ahead."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas import DataFrame, Timestamp, date_range

from cronhpa_models import periodic_autoregression as method
from cronhpa_models.evaluation import coverage, rolling_origin

DAY = 288
SIX_HOURS = 72
SIX_O_CLOCK = 72


def frame(load, start="2026-03-01T00:00:00Z"):
    """Five-minute maxima from midnight; columns are named by their number."""
    values = np.asarray(load, dtype=float)
    if values.ndim == 1:
        values = values[:, None]
    index = date_range(Timestamp(start), periods=len(values), freq="5min")
    return DataFrame(values, index=index, columns=[str(i) for i in range(values.shape[1])])


def noise(days, seed=1, objects=1):
    return np.random.default_rng(seed).normal(size=(days * DAY, objects))


def days_with_a_jump(days, *, low, high):
    """`low` cores until 06:00, `high` after, 5 % noise, a nightly level that says nothing about the coming day."""
    nightly = np.repeat(np.random.default_rng(7).uniform(0.5, 2.0, size=days), DAY)
    clock = np.arange(days * DAY) % DAY
    load = np.where(clock < SIX_O_CLOCK, low * nightly, high)
    return load * np.exp(0.05 * noise(days)[:, 0])


def next_hour(load, levels=(0.5, 0.9, 0.95), fitted_days=None):
    """Fitted on whole days only, as the operator does, then forecast from the end of `load`."""
    history = load.iloc[: fitted_days * DAY] if fitted_days else load
    return method.forecast(method.fit(history), load.iloc[-SIX_HOURS:], levels)


def test_a_constant_load_is_forecast_as_it_is():
    quantiles = next_hour(frame(np.full(3 * DAY, 4.0)))

    assert np.allclose(4.0, quantiles.load)


def test_forecasts_begin_with_the_step_after_the_last_row():
    quantiles = next_hour(frame(np.full(2 * DAY, 4.0)))

    assert Timestamp("2026-03-03T00:00:00Z") == quantiles.steps[0]
    assert Timestamp("2026-03-03T00:55:00Z") == quantiles.steps[-1]
    assert ["0"] == list(quantiles.objects)


def test_a_jump_that_comes_every_day_is_stated_before_it_comes():
    """At 05:55 the 0.95 quantile of 06:00 is near the usual 10 cores, though the night before was unlike any other."""
    load = frame(days_with_a_jump(11, low=1.0, high=10.0)[: 10 * DAY + SIX_O_CLOCK])

    upper = next_hour(load, fitted_days=10).at(0.95)["0"]

    assert 10.0 <= upper.iloc[0] <= 12.5


def test_a_level_that_lasts_is_followed():
    """Days that differ by a factor which holds all day: today's, never seen before, is 1.5."""
    factor = np.repeat([1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.2, 1.5], DAY)
    curve = 5 + 2 * np.sin(np.arange(8 * DAY) / DAY * 2 * np.pi)
    load = frame((factor * curve)[: 7 * DAY + 150])

    median = next_hour(load, fitted_days=7).at(0.5)["0"]

    assert np.allclose(1.5 * curve[7 * DAY + 150 : 7 * DAY + 162], median, rtol=0.1)


def test_the_quantile_covers_as_often_as_it_says():
    load = frame(np.exp(0.3 * noise(12)[:, 0] + np.sin(np.arange(12 * DAY) / DAY * 2 * np.pi)))

    backtest = rolling_origin(method, load, first=8 * DAY, levels=(0.9,), every=2)

    # 576 origins, two steps each: two standard errors are about 0.025.
    assert 0.875 <= coverage(backtest.outcomes[:, :2], backtest.forecasts[:, 0, :2]) <= 0.925


def test_nothing_forecast_before_an_instant_changes_when_the_future_does():
    """The leak test: after row `known` the load is replaced by noise."""
    load = frame(days_with_a_jump(6, low=1.0, high=10.0))
    known = 5 * DAY + 100
    other = load.copy()
    other.iloc[known:] = np.random.default_rng(3).uniform(0, 1000, size=(len(load) - known, 1))

    backtests = [rolling_origin(method, each, first=3 * DAY, levels=(0.9,), every=11) for each in (load, other)]

    before = sum(row <= known for row in range(3 * DAY, len(load), 11))
    assert np.array_equal(backtests[0].forecasts[:before], backtests[1].forecasts[:before])
    assert not np.array_equal(backtests[0].forecasts[before:], backtests[1].forecasts[before:])


def test_an_error_counts_for_the_scale_only_once_its_outcome_is_known():
    """A single error of 8, made at step 10 about four steps ahead, is first known at step 14."""
    size = np.zeros((30, method.HORIZON))
    size[10, 3] = 8.0

    known = method._recent_errors(size)[:, 3]

    assert 14 == int(np.flatnonzero(known > 0)[0])


def test_the_scale_in_calibration_is_the_scale_in_a_forecast():
    """What a fit sees at its last step is what a forecast made there would see; errors yet to come are NaN there."""
    errors = np.random.default_rng(5).normal(size=(SIX_HOURS, method.HORIZON))
    for h in range(method.HORIZON):
        errors[SIX_HOURS - 1 - h :, h] = np.nan

    in_calibration = method._recent_errors(np.abs(errors))[-1]
    in_forecast = method._recent_error(errors[None])[0]

    assert np.allclose(in_calibration, in_forecast)


def test_a_gap_in_history_is_not_taken_for_a_load_of_zero():
    load = frame(np.full(6 * DAY, 4.0))
    load.iloc[2 * DAY : 3 * DAY + 50] = np.nan

    assert np.allclose(4.0, next_hour(load).load)


def test_a_load_unseen_for_fifteen_minutes_is_still_forecast_and_then_no_more():
    load = frame(np.full((4 * DAY, 2), 4.0))
    load.iloc[-3:, 0] = np.nan
    load.iloc[-4:, 1] = np.nan

    values = next_hour(load).at(0.9)

    assert np.allclose(4.0, values["0"])
    assert values["1"].isna().all()


def test_an_object_without_history_has_no_forecast_and_spoils_no_other():
    load = frame(np.full((4 * DAY, 2), 4.0))
    load.iloc[:, 0] = np.nan

    values = next_hour(load).at(0.9)

    assert values["0"].isna().all()
    assert np.allclose(4.0, values["1"])


def test_a_load_of_zero_is_forecast_as_zero():
    assert np.allclose(0.0, next_hour(frame(np.zeros(3 * DAY))).load)


def test_the_clock_is_kept_when_history_ends_in_the_middle_of_a_day():
    """Fitted at 05:00 or at 12:00, the jump at 06:00 is at 06:00."""
    load = days_with_a_jump(9, low=1.0, high=10.0)
    recent = frame(load).iloc[8 * DAY : 8 * DAY + SIX_O_CLOCK - 1]

    for end in (7 * DAY + 60, 7 * DAY + 144):
        upper = method.forecast(method.fit(frame(load[:end])), recent, [0.9]).at(0.9)["0"]
        assert upper.iloc[0] < 5.0
        assert upper.iloc[1] > 9.5


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), days=st.integers(2, 5), gaps=st.floats(0, 0.5))
def test_a_higher_level_is_never_a_smaller_load_and_no_load_is_negative(seed, days, gaps):
    random = np.random.default_rng(seed)
    load = np.exp(random.normal(size=days * DAY))
    load[random.uniform(size=len(load)) < gaps] = np.nan

    values = next_hour(frame(load), levels=(0.1, 0.5, 0.9, 0.925, 0.99)).load

    known = values[:, :, ~np.isnan(values).any(axis=(0, 1))]
    assert (np.diff(known, axis=0) >= 0).all()
    assert (known >= 0).all()
    assert np.isfinite(known).all()


@settings(max_examples=10, deadline=None)
@given(factor=st.floats(1e-3, 1e9))
def test_a_load_in_other_units_has_the_same_forecast_in_those_units(factor):
    load = days_with_a_jump(4, low=1.0, high=10.0)

    expected = factor * next_hour(frame(load)).load

    assert np.allclose(expected, next_hour(frame(factor * load)).load, rtol=1e-4)


def test_an_object_is_forecast_alike_alone_and_among_others():
    load = frame(np.exp(0.2 * noise(4, objects=3)))

    among = next_hour(load).at(0.9)[["1"]]
    alone = next_hour(load[["1"]]).at(0.9)

    assert np.allclose(alone, among)


def test_a_fit_of_many_forecasts_any_of_them_in_any_order():
    load = frame(np.exp(0.2 * noise(4, objects=3)))
    fitted = method.fit(load)

    everything = method.forecast(fitted, load.iloc[-SIX_HOURS:], [0.9]).at(0.9)
    some = method.forecast(fitted, load.iloc[-SIX_HOURS:][["2", "0"]], [0.9]).at(0.9)

    assert np.array_equal(everything[["2", "0"]], some)


def test_an_object_that_was_not_fitted_is_named():
    load = frame(np.full(2 * DAY, 4.0))
    fitted = method.fit(load)

    with pytest.raises(KeyError, match="web was not fitted: this state is of 0"):
        method.forecast(fitted, load.rename(columns={"0": "web"}), [0.9])


def test_levels_that_were_not_learnt_are_refused():
    load = frame(np.full(2 * DAY, 4.0))

    with pytest.raises(ValueError, match=r"level 0\.999 cannot be stated"):
        method.forecast(method.fit(load), load, [0.9, 0.999])


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (lambda load: load.tz_localize(None), "a DatetimeIndex in UTC is needed"),
        (lambda load: load.drop(load.index[5]), "a regular rising grid is needed"),
        (lambda load: load.iloc[::-1], "a regular rising grid is needed"),
        (lambda load: load.iloc[:1], "1 rows"),
    ],
)
def test_a_grid_that_is_none_is_refused(broken, found):
    with pytest.raises(ValueError, match=found):
        method.fit(broken(frame(np.full(2 * DAY, 4.0))))


def test_a_state_that_would_execute_code_is_refused():
    pickled = io.BytesIO()
    np.savez(pickled, columns=np.array([{"an": "object"}], dtype=object))

    with pytest.raises(ValueError, match="allow_pickle=False"):
        method.forecast(pickled.getvalue(), frame(np.full(DAY, 4.0)), [0.9])

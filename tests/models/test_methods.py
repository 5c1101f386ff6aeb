"""What every method of the catalog keeps: blind to the future, at home in any unit, calm in gaps and on flat loads."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas import Series, Timestamp, date_range

from cronhpa_models import error_mixture
from cronhpa_models.catalog import CATALOG
from cronhpa_models.evaluation import rolling_origin
from cronhpa_models.method import steps_per_day

DAY = 24
LEVELS = (0.5, 0.9, 0.95)
every_method = pytest.mark.parametrize("name", CATALOG)
# What is calibrated on errors, and what says how often a load came at its clock, with 14 of them at most.
CONFORMAL = (
    "LastValue",
    "SeasonalNaive",
    "HourlyProfile",
    "PeriodicAutoregression",
    "ExponentialSmoothing",
    "Decomposed",
)


def series(load, steps=DAY):
    index = date_range("2026-03-01", periods=len(load), freq=f"{86_400 // steps}s", tz="UTC")
    return Series(np.asarray(load, dtype=float), index=index)


def rhythm(days, seed=1, noise=0.2, steps=DAY):
    clock = np.arange(days * steps) / steps * 2 * np.pi
    draw = np.random.default_rng(seed).standard_normal(len(clock))
    return series((10 + 4 * np.sin(clock)) * np.exp(noise * draw), steps)


def forecast(name, load, fitted_days, levels=LEVELS, steps=DAY, horizon=2):
    """(levels, origins, horizon), from the end of the fit on."""
    rows = fitted_days * steps
    fitted = CATALOG[name].fit(load.iloc[:rows], horizon=horizon)
    return fitted.quantiles(load.iloc[rows:], levels)


@every_method
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.integers(10 * DAY, 12 * DAY - 1))
def test_nothing_after_an_origin_changes_what_is_said_at_it(name, seed, origin):
    """The leak test: fitted daily, what follows an origin is replaced by noise."""
    load = rhythm(12)
    other = load.copy()
    other.iloc[origin + 1 :] = np.random.default_rng(seed).gamma(1.0, 50.0, len(load) - origin - 1)

    one, two = (rolling_origin(CATALOG[name], each, first=10 * DAY, levels=LEVELS, horizon=2) for each in (load, other))

    before = origin - 10 * DAY + 2  # the first origin is the row before the first that is forecast
    np.testing.assert_array_equal(one.forecasts[:, :before], two.forecasts[:, :before])


@every_method
def test_a_forecast_knows_the_load_of_its_origin(name):
    """The other half of the leak test; the time of the week alone knows other days only."""
    load = rhythm(11)
    other = load.copy()
    other.iloc[-1] *= 3

    one, two = (forecast(name, each, 10).load for each in (load, other))

    assert (name == "TimeOfWeek") == np.array_equal(one[:, -1], two[:, -1])


@pytest.mark.parametrize("name", CONFORMAL)
def test_nine_tenths_of_outcomes_lie_below_the_nine_tenths_quantile(name):
    """24 days of hours after 14: two standard errors of 576 outcomes are 0.025; ranks among 168 errors round up."""
    load = rhythm(38, seed=3)

    made = rolling_origin(CATALOG[name], load, first=14 * DAY, levels=(0.9,), horizon=2)

    for ahead in range(2):
        covered = (made.outcomes[:, ahead] <= made.forecasts[0, :, ahead])[: -1 - ahead].mean()
        assert 0.87 <= covered <= 0.95


@every_method
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), days=st.integers(8, 12), gaps=st.floats(0, 0.15))
def test_a_higher_level_or_a_longer_span_is_never_a_smaller_load_and_none_is_negative(name, seed, days, gaps):
    random = np.random.default_rng(seed)
    load = series(np.exp(random.normal(size=days * DAY)))
    load[random.uniform(size=len(load)) < gaps] = np.nan

    values = forecast(name, load, days - 1).load

    known = values[:, ~np.isnan(values).any(axis=(0, 2))]
    assert (np.diff(known, axis=0) >= 0).all()
    assert (known >= 0).all()
    assert np.isfinite(known).all()
    assert (np.diff(known, axis=2) >= 0).all()


@every_method
def test_a_load_in_other_units_has_the_same_forecast_in_those_units(name):
    load = rhythm(9)

    for factor in (1e-3, 1e9):
        np.testing.assert_allclose(
            factor * forecast(name, load, 8).load, forecast(name, load * factor, 8).load, rtol=1e-3
        )


@every_method
@pytest.mark.parametrize("level", [0.0, 4.0])
def test_a_load_that_never_moves_is_forecast_as_it_is(name, level):
    found = forecast(name, series(np.full(8 * DAY, level)), 7).load

    np.testing.assert_allclose(found, level, atol=1e-6)


@every_method
def test_a_gap_in_history_is_not_taken_for_a_load_of_zero(name):
    load = series(np.full(10 * DAY, 4.0))
    load.iloc[5 * DAY : 6 * DAY + 10] = np.nan

    np.testing.assert_allclose(forecast(name, load, 9).load, 4.0, rtol=1e-6)


@every_method
def test_nothing_is_learnt_from_nothing(name):
    assert (
        CATALOG[name].fit(series(np.full(3 * DAY, np.nan)), horizon=2) is None
        or np.isnan(forecast(name, series(np.full(4 * DAY, np.nan)), 3).load).all()
    )


@every_method
@pytest.mark.parametrize("days", [1, 2, 4])
def test_a_short_history_gives_a_forecast_or_says_nothing(name, days):
    load = rhythm(days + 1)

    fitted = CATALOG[name].fit(load.iloc[: days * DAY], horizon=2)

    if fitted is not None:
        found = fitted.quantiles(load.iloc[days * DAY :], LEVELS)
        assert (3, DAY + 1, 2) == found.load.shape
        assert (found.load[~np.isnan(found.load)] >= 0).all()


@every_method
def test_origins_are_the_last_step_of_the_history_and_each_that_came_later(name):
    load = rhythm(8)

    found = forecast(name, load.iloc[: 7 * DAY + 3], 7)

    assert list(load.index[7 * DAY - 1 : 7 * DAY + 3]) == list(found.origins)
    assert [1, 2] == list(found.at(0.9).columns)
    assert load.index[7 * DAY - 1] == found.at(0.9).index[0]


@every_method
def test_what_does_not_go_on_where_the_history_ended_is_refused(name):
    load = rhythm(8)
    fitted = CATALOG[name].fit(load.iloc[: 7 * DAY], horizon=1)

    with pytest.raises(ValueError, match="the history goes on at 2026-03-08 00:00:00"):
        fitted.quantiles(load.iloc[7 * DAY + 1 :], LEVELS)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (lambda load: load.tz_localize(None), "a DatetimeIndex in UTC is needed"),
        (lambda load: load.drop(load.index[5]), "a regular rising grid is needed"),
        (lambda load: load.iloc[::-1], "a regular rising grid is needed"),
        (lambda load: load.iloc[:1], "1 rows"),
        (
            lambda load: load.set_axis(date_range("2026-03-01", periods=len(load), freq="7min", tz="UTC")),
            "divide a day",
        ),
    ],
    ids=["no zone", "a row missing", "backwards", "one row", "seven minutes"],
)
def test_a_grid_that_is_none_is_refused(broken, found):
    with pytest.raises(ValueError, match=found):
        steps_per_day(broken(rhythm(2)).index)


def test_the_operators_own_methods_are_all_in_the_catalog():
    assert set(error_mixture.METHODS) <= set(CATALOG)


def test_statsmodels_is_imported_by_the_first_fit_that_needs_it():
    """A second and 75 MB that workers which fit no such method do not pay."""
    check = "import sys, cronhpa_models.catalog, cronhpa_models.evaluation; print('statsmodels' in sys.modules)"

    assert "False\n" == subprocess.run([sys.executable, "-c", check], capture_output=True, check=True, text=True).stdout


def test_a_level_that_was_not_asked_for_is_refused():
    with pytest.raises(ValueError):
        forecast("LastValue", rhythm(3), 2).at(0.99)


def test_a_forecast_speaks_of_its_own_steps():
    """A cliff at 06:00 known from ten days: the origin of 05:00 sees it in the first step, that of 04:00 in two."""
    load = series(np.tile(np.where(np.arange(DAY) < 6, 1.0, 10.0), 11))

    found = forecast("PeriodicAutoregression", load, 10).at(0.5)

    assert [1.0, 1.0] == pytest.approx(found.loc[Timestamp("2026-03-11T03:00Z")].tolist(), rel=1e-3)
    assert [1.0, 10.0] == pytest.approx(found.loc[Timestamp("2026-03-11T04:00Z")].tolist(), rel=1e-3)
    assert [10.0, 10.0] == pytest.approx(found.loc[Timestamp("2026-03-11T05:00Z")].tolist(), rel=1e-3)

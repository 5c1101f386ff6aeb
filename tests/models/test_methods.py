"""
cronhpa_models.method, cronhpa_models.state, cronhpa_models.whole_steps: what every method keeps, blind to the future,
calm in gaps.
"""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronhpa_models.catalog import ChosenMethod, built_in
from cronhpa_models.evaluation import rolling_origin
from cronhpa_models.method import LAGS, Distribution, Origins, fault, on_grid

DAY = 24
LEVELS = (0.5, 0.9, 0.95)
METHODS = {variant: chosen.method for chosen in built_in() for variant in chosen.variants}
every_method = pytest.mark.parametrize("name", METHODS)
# What is calibrated on errors, and what says how often a load came at its clock, with 14 of them at most.
CONFORMAL = (
    "LastValue",
    "SeasonalNaive",
    "HourlyProfile",
    "PeriodicAutoregression",
    "ExponentialSmoothing",
    "Decomposed",
)


def rhythm(days, seed=1, noise=0.2, steps=DAY):
    clock = np.arange(days * steps) / steps * 2 * np.pi
    draw = np.random.default_rng(seed).standard_normal(len(clock))
    return (10 + 4 * np.sin(clock)) * np.exp(noise * draw)


def fitted_to(name, load, windows=(1, 2), steps=DAY):
    return METHODS[name].fit(load, steps_per_day=steps, windows=windows)


def distribution(fitted, later, rows=None):
    """At the last row of the fit and at each row of what came later, or at some of them."""
    every = len(fitted.load) - 1 + np.arange(len(later) + 1)
    return fitted.distribution(later, on_grid(fitted.load, later, every if rows is None else every[rows]))


def quantiles(name, predicted, levels=LEVELS):
    """(levels, origins, windows)"""
    place = METHODS[name].variants.index(name)
    windows = range(len(predicted.load))
    return np.moveaxis(
        np.array([[predicted.quantile(place, window, level) for window in windows] for level in levels]), 1, 2
    )


def forecast(name, load, fitted_days, levels=LEVELS, steps=DAY):
    """(levels, origins, windows), from the end of the fit on."""
    rows = fitted_days * steps
    return quantiles(name, distribution(fitted_to(name, load[:rows], steps=steps), load[rows:]), levels)


def backtest(name, load, first, levels):
    chosen = ChosenMethod(METHODS[name], (name,))
    return rolling_origin(chosen, load, steps_per_day=DAY, first=first, levels=levels, horizon=2)


@every_method
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.integers(10 * DAY, 12 * DAY - 1))
def test_nothing_after_an_origin_changes_what_is_said_at_it(name, seed, origin):
    """The leak test: the method is fitted daily, and the loads after an origin are replaced by noise."""
    load = rhythm(12)
    other = load.copy()
    other[origin + 1 :] = np.random.default_rng(seed).gamma(1.0, 50.0, len(load) - origin - 1)

    one, two = (backtest(name, history, 10 * DAY, LEVELS) for history in (load, other))

    before = origin - 10 * DAY + 2  # the first origin is the row before the first that is forecast
    np.testing.assert_array_equal(one.forecasts[:, :, :before], two.forecasts[:, :, :before])


@every_method
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, DAY - 1), st.floats(0, 0.99))
def test_an_origin_within_a_step_knows_the_steps_that_have_ended_and_what_it_brings_along(name, seed, ended, part):
    """The leak test between two steps: of the step under way and those behind it only `recent` may tell."""
    load = rhythm(12)
    draw = np.random.default_rng(seed)
    fitted = fitted_to(name, load[: 10 * DAY])
    later = load[10 * DAY : 11 * DAY]
    other = np.concatenate([later[:ended], draw.gamma(1.0, 50.0, DAY - ended)])
    recent = draw.uniform(5.0, 15.0, (1, LAGS))
    origin = Origins(np.array([len(fitted.load) - 1 + ended + part]), recent)

    one, two = (fitted.distribution(came, origin) for came in (later, other))

    np.testing.assert_array_equal(one.load, two.load)
    np.testing.assert_array_equal(one.cdf, two.cdf)


@every_method
def test_a_forecast_knows_the_load_of_its_origin(name):
    """The other half of the leak test; the time of the week alone knows other days only."""
    load = rhythm(11)
    other = load.copy()
    other[-1] *= 3

    one, two = (forecast(name, history, 10) for history in (load, other))

    assert (name == "TimeOfWeek") == np.array_equal(one[:, -1], two[:, -1])


@every_method
def test_one_origin_is_told_the_same_as_many(name):
    """The worker forecasts each minute, a tried day all of its minutes at once: their floors must be the same."""
    load = rhythm(12)
    fitted, later = fitted_to(name, load[: 10 * DAY]), load[10 * DAY :]
    position = len(fitted.load) - 1 + np.arange(0, 2 * DAY, 0.7)
    recent = np.random.default_rng(1).uniform(5.0, 15.0, (len(position), LAGS))

    many = fitted.distribution(later, Origins(position, recent))

    for number in (0, 9, len(position) - 1):
        fitted_rows = int(position[number]) + 1 - len(fitted.load)
        single = fitted.distribution(later[:fitted_rows], Origins(position[[number]], recent[[number]]))
        for level in (0.3, *LEVELS):
            for window in range(2):
                np.testing.assert_allclose(
                    many.quantile(0, window, level)[number], single.quantile(0, window, level)[0], rtol=1e-9
                )


@every_method
def test_just_after_a_step_and_just_before_the_next_the_forecasts_are_those_of_the_steps(name):
    """
    A thousandth of a step after one and before the next, the maxima of the last steps being theirs. Medians: how wide
    a distribution is changes with each error, which is known when its step has ended.
    """
    load = rhythm(12)
    fitted, later = fitted_to(name, load[: 10 * DAY]), load[10 * DAY : 10 * DAY + 7]
    at_steps = on_grid(fitted.load, later, len(fitted.load) - 1 + np.array([5, 6]))
    beside = Origins(at_steps.position + np.array([0.001, -0.001]), at_steps.recent)

    expected, beside_steps = (
        quantiles(name, fitted.distribution(later, origins), (0.5,)) for origins in (at_steps, beside)
    )

    np.testing.assert_allclose(beside_steps, expected, rtol=0.05)


@pytest.mark.parametrize("name", [*CONFORMAL, "Clock"])
def test_nine_tenths_of_outcomes_lie_below_the_nine_tenths_quantile_by_the_minute(name):
    """
    Steps of 5 minutes, origins at each: two days, 2,880 minutes whose windows overlap, of a load with a memory.

    What is forecast at 7.4 is the largest minute of the five that follow.
    """
    days, steps = 12, 288
    draw = np.random.default_rng(11).standard_normal(days * 1440 + 60)
    wave = np.convolve(draw, np.exp(-np.arange(60) / 15), "valid")[: days * 1440]
    minutes = (10 + 4 * np.sin(np.arange(days * 1440) / 1440 * 2 * np.pi)) * np.exp(0.1 * wave)
    load = minutes.reshape(-1, 5).max(axis=1)
    fitted, later = fitted_to(name, load[: 10 * steps], windows=(1,), steps=steps), load[10 * steps :]
    ends = np.arange(10 * 1440, days * 1440 - 5)  # minutes that are known at each origin
    windows = np.lib.stride_tricks.sliding_window_view(minutes, 5).max(axis=1)
    recent = windows[ends[:, None] - 5 - 5 * np.arange(LAGS)]
    first = len(load[: 10 * steps]) - len(fitted.load)
    origins = Origins(ends / 5 - 1 - first, recent)

    upper = fitted.distribution(later, origins).quantile(0, 0, 0.9)

    for minute in range(5):
        covered = (windows[ends] <= upper)[minute::5].mean()
        assert 0.83 <= covered <= 0.97


@pytest.mark.parametrize("name", CONFORMAL)
def test_nine_tenths_of_outcomes_lie_below_the_nine_tenths_quantile(name):
    """24 days of hours after 14: two standard errors of 576 outcomes are 0.025; ranks among 168 errors round up."""
    load = rhythm(38, seed=3)

    made = backtest(name, load, 14 * DAY, (0.9,))

    for ahead in range(2):
        covered = (made.outcomes[:, ahead] <= made.forecasts[0, 0, :, ahead])[: -1 - ahead].mean()
        assert 0.87 <= covered <= 0.95


@every_method
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), days=st.integers(8, 12), gaps=st.floats(0, 0.15))
def test_a_higher_level_is_never_a_smaller_load_and_none_is_negative(name, seed, days, gaps):
    random = np.random.default_rng(seed)
    load = np.exp(random.normal(size=days * DAY))
    load[random.uniform(size=len(load)) < gaps] = np.nan

    values = forecast(name, load, days - 1)

    known_values = values[:, ~np.isnan(values).any(axis=(0, 2))]
    assert (np.diff(known_values, axis=0) >= 0).all()
    assert (known_values >= 0).all()
    assert np.isfinite(known_values).all()


@every_method
def test_a_load_in_other_units_has_the_same_forecast_in_those_units(name):
    load = rhythm(9)

    for factor in (1e-3, 1e9):
        np.testing.assert_allclose(factor * forecast(name, load, 8), forecast(name, load * factor, 8), rtol=1e-3)


@every_method
@pytest.mark.parametrize("level", [0.0, 4.0])
def test_a_load_that_never_moves_is_forecast_as_it_is(name, level):
    forecasts = forecast(name, np.full(8 * DAY, level), 7)

    np.testing.assert_allclose(forecasts, level, atol=1e-6)


@every_method
def test_a_gap_in_history_is_not_taken_for_a_load_of_zero(name):
    load = np.full(10 * DAY, 4.0)
    load[5 * DAY : 6 * DAY + 10] = np.nan

    np.testing.assert_allclose(forecast(name, load, 9), 4.0, rtol=1e-6)


@every_method
def test_nothing_is_learnt_from_nothing(name):
    assert (
        fitted_to(name, np.full(3 * DAY, np.nan)) is None or np.isnan(forecast(name, np.full(4 * DAY, np.nan), 3)).all()
    )


@every_method
@pytest.mark.parametrize("days", [1, 2, 4])
def test_a_short_history_gives_a_forecast_or_says_nothing(name, days):
    load = rhythm(days + 1)

    fitted = fitted_to(name, load[: days * DAY])

    if fitted is not None:
        forecast_quantiles = quantiles(name, distribution(fitted, load[days * DAY :]))
        assert (3, DAY + 1, 2) == forecast_quantiles.shape
        assert (forecast_quantiles[~np.isnan(forecast_quantiles)] >= 0).all()


@every_method
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), gaps=st.floats(0, 0.3), parts=st.sampled_from([0.0, 0.2, 0.5]))
def test_a_distribution_is_sound(name, seed, gaps, parts):
    """Rising loads and a cdf that rises to one, or nothing said, on and between steps, in gaps too."""
    random = np.random.default_rng(seed)
    load = np.exp(random.normal(size=9 * DAY))
    load[random.uniform(size=len(load)) < gaps] = np.nan
    fitted = fitted_to(name, load[: 8 * DAY])
    assume(fitted is not None)  # with many gaps a method may know too few errors
    origins = on_grid(fitted.load, load[8 * DAY :], len(fitted.load) - 1 + np.arange(DAY))

    predicted = fitted.distribution(load[8 * DAY :], Origins(origins.position + parts, origins.recent))

    assert fault(predicted, variants=len(METHODS[name].variants), windows=2, origins=DAY) is None


@every_method
def test_a_fit_survives_being_written_and_read(name):
    """Loads are kept with 24 bits."""
    load = rhythm(12)
    fitted, later = fitted_to(name, load[: 10 * DAY]), load[10 * DAY :]
    read = METHODS[name].decode(fitted.encode())

    one, two = (quantiles(name, distribution(fit, later)) for fit in (fitted, read))

    assert (1, 2) == read.windows
    np.testing.assert_allclose(fitted.load, read.load, rtol=1e-6)
    np.testing.assert_allclose(one, two, rtol=1e-4)


@every_method
def test_the_nearest_windows_alone_are_forecast_alike(name):
    load = rhythm(11)
    fitted, later = fitted_to(name, load[: 10 * DAY]), load[10 * DAY :]
    origins = on_grid(fitted.load, later, len(fitted.load) - 1 + np.arange(DAY))

    both, near = fitted.distribution(later, origins), fitted.distribution(later, origins, 1)

    assert 1 == len(near.load)
    np.testing.assert_array_equal(both.load[:1], near.load)
    np.testing.assert_array_equal(both.cdf[:, :1], near.cdf)


@pytest.mark.parametrize(
    ("load", "cdf", "problem"),
    [
        (np.ones((1, 1, 2)), np.ones((1, 1, 1, 2)), None),
        (np.full((1, 1, 2), np.nan), np.ones((1, 1, 1, 2)), None),
        (np.ones((1, 2, 2)), np.ones((1, 1, 2, 2)), r"loads have the shape \(1, 2, 2\)"),
        (np.ones((1, 1, 2)), np.ones((2, 1, 1, 2)), r"the cdf has the shape \(2, 1, 1, 2\)"),
        (np.array([[[-1.0, 2.0]]]), np.ones((1, 1, 1, 2)), "negative, infinite or missing"),
        (np.array([[[1.0, np.inf]]]), np.ones((1, 1, 1, 2)), "negative, infinite or missing"),
        (np.array([[[1.0, np.nan]]]), np.ones((1, 1, 1, 2)), "negative, infinite or missing"),
        (np.array([[[2.0, 1.0]]]), np.ones((1, 1, 1, 2)), "loads fall"),
        (np.ones((1, 1, 2)), np.array([[[[1.0, 0.9]]]]), "the cdf falls"),
        (np.ones((1, 1, 2)), np.array([[[[np.nan, 1.0]]]]), "is no number"),
        (np.ones((1, 1, 2)), np.array([[[[0.5, 0.9]]]]), "does not end at one"),
    ],
)
def test_an_answer_that_cannot_be_used_is_known_by_what_is_wrong(load, cdf, problem):
    complaint = fault(Distribution(load, cdf), variants=1, windows=1, origins=1)

    assert complaint is None if problem is None else re.search(problem, complaint)


def test_a_quantile_is_the_lowest_load_that_reaches_the_level():
    stated = Distribution(np.array([[[1.0, 2.0, 5.0]]]), np.array([[[[0.3, 0.9, 1.0]]]]))

    assert [1.0, 2.0, 2.0, 5.0] == [stated.quantile(0, 0, level)[0] for level in (0.3, 0.31, 0.9, 0.95)]


def test_neither_pandas_nor_statsmodels_is_imported_before_a_fit_that_needs_it():
    """A second and 120 MB that workers which fit no such method do not pay."""
    check = (
        "import sys, cronhpa_models.catalog as catalog, cronhpa_models.evaluation, cronhpa_models.spike_hazard;"
        "catalog.default();"
        "print(sorted({'pandas', 'scipy', 'statsmodels'} & set(sys.modules)))"
    )

    assert "[]\n" == subprocess.run([sys.executable, "-c", check], capture_output=True, check=True, text=True).stdout


def test_a_forecast_speaks_of_its_own_steps():
    """A cliff at 06:00 known from ten days: the origin of 05:00 sees it in the first step, that of 04:00 in two."""
    load = np.tile(np.where(np.arange(DAY) < 6, 1.0, 10.0), 11)

    median = forecast("PeriodicAutoregression", load, 10)[0]

    # The first origin is 23:00 of the day before.
    assert [1.0, 1.0] == pytest.approx(median[4].tolist(), rel=1e-3)
    assert [1.0, 10.0] == pytest.approx(median[5].tolist(), rel=1e-3)
    assert [10.0, 10.0] == pytest.approx(median[6].tolist(), rel=1e-3)


@pytest.mark.parametrize("name", ["PeriodicAutoregression", "TimeOfWeek", "SeasonalNaive"])
def test_a_cliff_comes_as_likely_as_the_window_has_moved_into_its_step(name):
    """
    At 04:24 the coming hour reaches 24 minutes into the step of 05:00 to 06:00, whose maximum is known to be high.

    Whatever minute of it the high load comes in: within the hour it comes with a probability of 24 / 60.
    """
    load = np.tile(np.where(np.arange(DAY) == 5, 10.0, 1.0), 11)
    fitted = fitted_to(name, load[: 10 * DAY], windows=(1,))
    three = on_grid(fitted.load, load[10 * DAY :], np.array([len(fitted.load) + 3]))

    predicted = fitted.distribution(load[10 * DAY : 10 * DAY + 4], Origins(three.position + 0.4, three.recent))

    assert [1.0, 10.0] == pytest.approx([predicted.quantile(0, 0, level)[0] for level in (0.55, 0.7)], rel=1e-2)

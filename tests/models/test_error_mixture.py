"""cronhpa_models.mixture_forecast: error mixtures, calibrated, blind to the future, aware of clocks, hours and gaps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa_models.error_mixture import ErrorMixture
from cronhpa_models.method import LAGS, Origins, on_grid
from cronhpa_models.mixture_forecast import VARIANTS, distributions

DAY = 288
MIXTURE = ErrorMixture()
PLACES = {variant: place for place, variant in enumerate(VARIANTS)}
NONE = np.array([])


def daily_jump(days, seed=1):
    """1 until 06:00, 10 after it, with 10 % of noise."""
    clock = np.arange(days * DAY) % DAY
    return np.where(clock < 72, 1.0, 10.0) * np.exp(0.1 * np.random.default_rng(seed).standard_normal(days * DAY))


def at(load, origin, windows=(1, 2)):
    fitted = MIXTURE.fit(load, steps_per_day=DAY, windows=windows)
    return fitted.distribution(NONE, on_grid(fitted.load, NONE, np.array([origin])))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_jump_that_comes_every_day_is_expected_one_step_before_it(variant):
    """The last step before 06:00 begins at 05:55: after it the next step holds the jump."""
    load = daily_jump(11)[: 10 * DAY + 72]

    distribution = at(load, len(load) - 1)

    assert distribution.quantile(PLACES[variant], 0, 0.5)[0] == pytest.approx(10.0, rel=0.3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_nine_tenths_of_outcomes_lie_below_the_nine_tenths_quantile(variant):
    """3 days of noise after 14: 864 outcomes tell 0.9 within 0.02, two standard errors."""
    draw = np.random.default_rng(3)
    clock = np.arange(17 * DAY) / DAY * 2 * np.pi
    load = (10 + 4 * np.sin(clock)) * np.exp(0.2 * draw.standard_normal(len(clock)))
    fitted = MIXTURE.fit(load[: 14 * DAY], steps_per_day=DAY, windows=(1,))
    rows = np.arange(14 * DAY, 17 * DAY - 1)

    predicted = fitted.distribution(load[14 * DAY :], on_grid(fitted.load, load[14 * DAY :], rows))
    covered = (load[rows + 1] <= predicted.quantile(PLACES[variant], 0, 0.9)).mean()

    assert 0.86 <= covered <= 0.96


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(4 * DAY, 5 * DAY - 2))
def test_nothing_after_an_origin_is_looked_at(seed, origin):
    """The leak test: loads after an origin do not change its forecast."""
    load = daily_jump(5, seed=2)
    noise = np.random.default_rng(seed).gamma(1.0, 50.0, len(load) - origin - 1)
    other = np.concatenate([load[: origin + 1], noise])
    fitted = MIXTURE.fit(load[: 4 * DAY], steps_per_day=DAY)
    rows = np.arange(4 * DAY, origin + 1)

    one, two = (
        fitted.distribution(history[4 * DAY :], on_grid(fitted.load, history[4 * DAY :], rows))
        for history in (load, other)
    )

    np.testing.assert_array_equal(one.load, two.load)
    np.testing.assert_array_equal(one.cdf, two.cdf)


def test_an_origin_between_two_steps_is_between_what_they_say():
    """Three minutes into a step the window has moved by three fifths; half of the neighbours' errors count more."""
    load = daily_jump(10)
    fitted = MIXTURE.fit(load, steps_per_day=DAY, windows=(1,))
    recent = np.full((1, LAGS), 1.0)

    levels = [
        fitted.distribution(NONE, Origins(np.array([9 * DAY + 70 + part]), recent)).quantile(
            PLACES["NearClock"], 0, 0.6
        )[0]
        for part in (0.0, 0.6, 1.0)
    ]

    assert levels[0] < 2.0
    assert levels[2] > 5.0
    assert levels[0] <= levels[1] <= levels[2] * 1.1


def test_a_cdf_rises_to_one_and_loads_rise_with_it():
    distribution = at(daily_jump(6), 6 * DAY - 1)

    assert (np.diff(distribution.load, axis=-1) >= 0).all()
    assert (np.diff(distribution.cdf, axis=-1) >= -1e-12).all()
    np.testing.assert_allclose(distribution.cdf[..., -1], 1.0)


def test_gaps_mask_only_what_they_touch():
    load = daily_jump(8)
    load[3 * DAY + 100 : 3 * DAY + 200] = np.nan

    distribution = at(load, len(load) - 1)

    assert np.isfinite(distribution.load).all()


def test_less_than_half_a_day_is_not_fitted():
    assert MIXTURE.fit(daily_jump(1)[:140], steps_per_day=DAY) is None
    assert MIXTURE.fit(np.full(3 * DAY, np.nan), steps_per_day=DAY) is None


def test_a_fit_survives_being_written_and_read():
    load = daily_jump(4)
    fitted = MIXTURE.fit(load, steps_per_day=DAY)

    read = MIXTURE.decode(fitted.encode())

    assert (DAY, (1, 2)) == (read.steps_per_day, read.windows)
    np.testing.assert_allclose(load, read.load, rtol=1e-6)
    np.testing.assert_array_equal(fitted.coefficients, read.coefficients)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(60, 1500), min_size=2, max_size=5), st.sampled_from([None, 1]))
def test_several_fits_at_once_are_forecast_as_each_alone_to_the_last_bit(seed, lengths, windows):
    """Of histories of other lengths and units, with gaps, fitted minutes to two days ago, at one origin or many."""
    draw = np.random.default_rng(seed)
    day = 48
    several, later, origins = [], [], []
    for length in lengths:
        load = np.exp(draw.normal(size=length + 2 * day)) * 10.0 ** draw.integers(-3, 6)
        load[draw.uniform(size=len(load)) < draw.choice([0.0, 0.1])] = np.nan
        fitted = MIXTURE.fit(load[:length], steps_per_day=day, windows=(1, 3))
        if fitted is None:
            continue
        came = load[length : length + int(draw.integers(0, 2 * day))]
        rows = len(fitted.load) - 1 + np.sort(draw.choice(len(came) + 1, int(draw.integers(1, len(came) + 2))))
        grid = on_grid(fitted.load, came, rows)
        several.append(MIXTURE.decode(fitted.encode()) if draw.random() < 0.5 else fitted)
        later.append(came)
        origins.append(Origins(grid.position + draw.choice([0.0, 0.2, 0.6]), grid.recent))
    if not several:
        return

    together = distributions(several, later, origins, windows)
    alone = [fit.distribution(came, at, windows) for fit, came, at in zip(several, later, origins, strict=True)]

    for one, two in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.load, two.load)
        np.testing.assert_array_equal(one.cdf, two.cdf)


def test_fits_of_other_windows_are_not_forecast_at_once():
    one, two = (MIXTURE.fit(daily_jump(3), steps_per_day=DAY, windows=windows) for windows in ((1,), (1, 2)))
    origins = on_grid(one.load, NONE, np.array([3 * DAY - 1]))

    with pytest.raises(AssertionError):
        distributions([one, two], [NONE, NONE], [origins, origins])


def test_loads_of_which_no_step_is_known_after_another_are_forecast():
    """Two steps measured, two not: no move leads to an error that is known."""
    load = np.where(np.arange(4 * DAY) % 4 < 2, 5.0, np.nan)

    distribution = at(load, len(load) - 3, (1,))

    np.testing.assert_allclose(distribution.quantile(0, 0, 0.9), 5.0)

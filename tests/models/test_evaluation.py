"""Scores, each with its arithmetic, and the rolling origin."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa_models.catalog import ChosenMethod
from cronhpa_models.evaluation import coverage, mase, pinball_loss, rolling_origin, scored
from cronhpa_models.method import Distribution

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


class Repeated:
    """A method, and its fit: it says the newest value again, and keeps what it was shown."""

    name, variants, needs = "Repeated", ("Repeated",), ()

    def __init__(self):
        self.fitted, self.shown = [], []

    def fit(self, load, *, steps_per_day, windows):  # noqa: ARG002 - a Method takes it
        self.fitted.append(load[-1])
        self.load, self.windows = load, windows
        return self

    def distribution(self, _later, origins):
        self.shown += origins.recent[:, 0].tolist()
        load = np.tile(origins.recent[:, :1], (len(self.windows), 1, 1))
        return Distribution(load, np.ones((1, *load.shape)))


def hours(count):
    return np.arange(count) * 1.0


def backtest(method, load, **options):
    return rolling_origin(
        ChosenMethod(method, method.variants), load, steps_per_day=24, first=48, levels=(0.5,), **options
    )


def test_each_row_is_forecast_from_the_one_before_it_and_a_fit_lasts_a_day():
    """The load of a row is its number."""
    method = Repeated()

    backtested = backtest(method, hours(80))

    assert list(range(47, 79)) == method.shown == backtested.origins.tolist()
    assert [47, 71] == method.fitted


def test_outcomes_stand_beside_their_forecasts():
    """The load rises by one an hour: the newest value is one too low, then two; yesterday's was 24 too low."""
    backtested = backtest(Repeated(), hours(80), horizon=2)

    assert [48.0, 49.0] == backtested.outcomes[0].tolist()
    assert [47.0, 47.0] == backtested.forecasts[0, 0, 0].tolist()
    assert [24.0, 25.0] == backtested.day_before[0].tolist()
    assert math.isnan(backtested.outcomes[-1, 1])


def test_a_method_is_scored_on_the_coming_step():
    """
    Always one too low: none covered, an error of 1 against yesterday's 24, and a loss of 0.9 over a mean load of 63.5.
    """
    scores = scored(ChosenMethod(Repeated(), ("Repeated",)), hours(80), steps_per_day=24, first=48)["Repeated"]

    assert (0.0, 1.0) == (scores.coverage, scores.known)
    assert pytest.approx(1 / 24) == scores.mase
    assert pytest.approx(100 * 0.9 / 63.5) == scores.pinball


def test_what_was_not_forecast_is_counted_and_not_scored():
    class Silent(Repeated):
        def fit(self, load, **options):
            return None if len(self.fitted) else super().fit(load, **options)

    scores = scored(ChosenMethod(Silent(), ("Repeated",)), hours(96), steps_per_day=24, first=48)["Repeated"]

    assert 0.5 == scores.known
    assert pytest.approx(1 / 24) == scores.mase


def test_a_quantile_that_is_rounded_covers_the_load_that_made_it():
    """exp(log(4.0 + 0.2)) - 0.2 is 4 less 4e-16."""
    assert 1.0 == coverage(np.array([4.0]), np.array([np.exp(np.log(4.0 + 0.2)) - 0.2]))

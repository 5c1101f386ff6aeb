"""What a forecast may cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.situations import NOW
from cronhpa.core.instant import HOUR
from cronhpa.core.predictive.budget import Hour, exhausted, share

HOUR_NOW = NOW // HOUR


def hours(*counted):
    """The last hours, the running one at the end: (pods added, pods without), each for a whole hour."""
    first = HOUR_NOW - len(counted) + 1
    return {first + i: Hour(extra * 3600.0, base * 3600.0) for i, (extra, base) in enumerate(counted)}


def test_the_share_is_what_was_added_over_what_there_would_be():
    """One pod more at ten for each of 168 hours."""
    assert pytest.approx(0.1) == share(hours(*[(1, 10)] * 168), NOW, 168, 10)


def test_hours_of_which_nothing_is_known_count_as_ordinary_ones():
    """Five pods for one hour of a week at ten: 5 / 1680."""
    assert pytest.approx(5 / 1680) == share(hours((0, 10), (5, 10)), NOW, 168, 99)


def test_before_a_whole_hour_is_known_the_pods_of_now_are_ordinary():
    assert pytest.approx(5 / 1680) == share(hours((5, 10)), NOW, 168, 10)


def test_what_is_older_than_the_span_does_not_count():
    assert share(hours((100, 10), *[(0, 10)] * 24), NOW, 24, 10) == 0


def test_over_a_week_the_budget_is_what_the_user_stated():
    """168 hours of ten are 1680; five percent of them 84."""
    within, over = [(0.49, 10)] * 168, [(0.5, 10)] * 168

    assert exhausted(hours(*within), NOW, 10, 5) is None
    assert (
        "the forecast added 5.0 % pod-hours over the last seven days, budgetPercent allows 5 %"
        == exhausted(hours(*over), NOW, 10, 5).message
    )


def test_over_a_day_it_is_twice_that():
    """24 of 240 pod-hours are a tenth; of the week's 1680 they are 1.4 %."""
    within, over = [(0, 10)] * 144 + [(0.99, 10)] * 24, [(0, 10)] * 144 + [(1, 10)] * 24

    assert exhausted(hours(*within), NOW, 10, 5) is None
    assert (
        "the forecast added 10.0 % pod-hours over the last day, 2 x the 5 % of budgetPercent are allowed"
        == exhausted(hours(*over), NOW, 10, 5).message
    )


def test_a_budget_of_nothing_is_spent_before_it_is_used():
    assert "BudgetSpent" == exhausted({}, NOW, 10, 0).reason


def test_a_target_at_zero_whose_every_pod_is_of_the_forecasts_making_is_over_any_budget():
    assert "BudgetSpent" == exhausted(hours((1, 0), (1, 0)), NOW, 0, 100).reason


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 100)), min_size=1, max_size=200), st.integers(0, 100))
def test_more_spent_is_never_less_of_the_budget(counted, budget):
    once, twice = hours(*counted), hours(*((2 * extra, base) for extra, base in counted))

    assert share(once, NOW, 168, 5) <= share(twice, NOW, 168, 5)
    assert exhausted(once, NOW, 5, budget) is None or exhausted(twice, NOW, 5, budget) is not None

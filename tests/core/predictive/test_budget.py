"""What a forecast may cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.situations import NOW
from cronhpa.core.instant import HOUR
from cronhpa.core.observation import Absent
from cronhpa.core.predictive.budget import Hour, share, thrift

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


@pytest.mark.parametrize(("extra", "level"), [(0.44, 0), (0.45, 1), (0.49, 1), (0.5, 2), (0.549, 2)])
def test_over_a_week_a_pod_counts_as_dearer_from_nine_tenths_of_the_budget_on(extra, level):
    """168 hours of ten pods, and a budget of 5 %: half a pod more is all of it, 0.45 are 90 %, 0.55 are 110 %."""
    assert level == thrift(hours(*[(extra, 10)] * 168), NOW, 10, 5)


def test_from_110_percent_of_the_budget_on_the_forecast_abstains():
    assert (
        "the forecast added 5.5 % pod-hours over the last seven days, budgetPercent allows 5 %"
        == thrift(hours(*[(0.55, 10)] * 168), NOW, 10, 5).message
    )


def test_over_a_day_it_is_twice_that():
    """24 of 240 pod-hours are a tenth, all of a day's budget; of the week's 1680 they are 1.4 %. 26.4 are 110 %."""
    within, near, over = ([(0, 10)] * 144 + [(extra, 10)] * 24 for extra in (0.89, 0.9, 1.1))

    assert [0, 1] == [thrift(hours(*days), NOW, 10, 5) for days in (within, near)]
    assert (
        "the forecast added 11.0 % pod-hours over the last day, 2 x the 5 % of budgetPercent are allowed"
        == thrift(hours(*over), NOW, 10, 5).message
    )


def test_a_budget_of_nothing_is_spent_before_it_is_used():
    assert "BudgetSpent" == thrift({}, NOW, 10, 0).reason


def test_a_target_at_zero_whose_every_pod_is_of_the_forecasts_making_is_over_any_budget():
    assert "BudgetSpent" == thrift(hours((1, 0), (1, 0)), NOW, 0, 100).reason


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 100)), min_size=1, max_size=200), st.integers(0, 100))
def test_more_spent_is_never_less_of_the_budget(counted, budget):
    once, twice = hours(*counted), hours(*((2 * extra, base) for extra, base in counted))

    assert share(once, NOW, 168, 5) <= share(twice, NOW, 168, 5)
    levels = [thrift(counted, NOW, 5, budget) for counted in (once, twice)]
    of_once, of_twice = (9 if isinstance(level, Absent) else level for level in levels)
    assert of_once <= of_twice


@given(st.floats(0, 20), st.floats(0, 20))
def test_a_forecast_that_asks_for_nothing_at_its_dearest_adds_no_more_in_a_week_than_its_budget(usual, dearer):
    """Ten pods, and a budget of 5 % of 1,680 pod-hours: 84, and what is added within the hour that passes a limit."""
    counted: dict[int, Hour] = {}
    for hour in range(HOUR_NOW, HOUR_NOW + 168):
        level = thrift(counted, hour * HOUR, 10, 5)
        extra = 0.0 if isinstance(level, Absent) else (usual, dearer, 0.0)[level]
        counted[hour] = Hour(extra * 3600.0, 10 * 3600.0)

    assert sum(hour.extra for hour in counted.values()) / 3600 <= 84 + max(usual, dearer) + 1e-6

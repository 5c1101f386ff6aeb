"""What a forecast may cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.situations import NOW
from cronhpa.core.forecasts.budget import PodHour, budget_level, share, spent_percent
from cronhpa.core.model.instant import HOUR
from cronhpa.core.model.observation import Absent

HOUR_NOW = NOW // HOUR


def hours(*counted):
    """The last hours, the running one at the end: (pods added, pods without), each for a whole hour."""
    first = HOUR_NOW - len(counted) + 1
    return {first + i: PodHour(extra * 3600.0, base * 3600.0) for i, (extra, base) in enumerate(counted)}


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


def test_what_was_spent_leaves_the_running_hour_out():
    """Half a pod more at ten for a week, and now a hundred: 0.5 / 10."""
    assert pytest.approx(5.0) == spent_percent(hours(*[(0.5, 10)] * 168, (100, 10)), NOW)


def test_what_was_spent_is_not_known_before_an_hour_is_over():
    assert spent_percent(hours((5, 10)), NOW) is None


@pytest.mark.parametrize(
    ("extra", "level"), [(0.44, 0), (0.45, 1), (0.49, 1), (0.5, 2), (0.549, 2), (0.55, 3), (0.599, 3)]
)
def test_over_a_week_a_pod_counts_as_dearer_from_nine_tenths_of_the_budget_on(extra, level):
    """168 hours of ten pods, and a budget of 5 %: half a pod more is all of it, 0.45 are 90 %, 0.55 are 110 %."""
    assert level == budget_level(hours(*[(extra, 10)] * 168), NOW, 10, 5)


def test_from_120_percent_of_the_budget_on_the_forecast_abstains():
    """0.6 of a pod more at ten."""
    assert (
        "the forecast added 6.0 % pod-hours over the last seven days: it pauses from 6 % on, "
        "1.2 x the 5 % of budgetPercent" == budget_level(hours(*[(0.6, 10)] * 168), NOW, 10, 5).message
    )


def test_over_a_day_it_is_twice_that():
    """24 of 240 pod-hours are a tenth, all of a day's budget; of the week's 1680 they are 1.4 %. 28.8 are 120 %."""
    within, near, past, over = ([(0, 10)] * 144 + [(extra, 10)] * 24 for extra in (0.89, 0.9, 1.1, 1.2))

    assert [0, 1, 3] == [budget_level(hours(*days), NOW, 10, 5) for days in (within, near, past)]
    assert (
        "the forecast added 12.0 % pod-hours over the last day: it pauses from 12 % on, "
        "2.4 x the 5 % of budgetPercent" == budget_level(hours(*over), NOW, 10, 5).message
    )


def test_a_budget_of_nothing_is_spent_before_it_is_used():
    assert "BudgetSpent" == budget_level({}, NOW, 10, 0).reason


def test_a_target_at_zero_whose_every_pod_is_of_the_forecasts_making_is_over_any_budget():
    assert "BudgetSpent" == budget_level(hours((1, 0), (1, 0)), NOW, 0, 100).reason


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 100)), min_size=1, max_size=200), st.integers(0, 100))
def test_more_spent_is_never_less_of_the_budget(counted, budget):
    once, twice = hours(*counted), hours(*((2 * extra, base) for extra, base in counted))

    assert share(once, NOW, 168, 5) <= share(twice, NOW, 168, 5)
    levels = [budget_level(counted, NOW, 5, budget) for counted in (once, twice)]
    of_once, of_twice = (9 if isinstance(level, Absent) else level for level in levels)
    assert of_once <= of_twice


def spent_in_a_week(asked):
    """Pod-hours that a forecast adds to ten pods with a budget of 5 %, by what it asks for at each budget level."""
    counted: dict[int, PodHour] = {}
    for hour in range(HOUR_NOW, HOUR_NOW + 168):
        level = budget_level(counted, hour * HOUR, 10, 5)
        extra = 0.0 if isinstance(level, Absent) else asked[level]
        counted[hour] = PodHour(extra * 3600.0, 10 * 3600.0)
    return sum(hour.extra for hour in counted.values()) / 3600


@given(st.floats(0, 20), st.floats(0, 20))
def test_a_forecast_that_asks_for_nothing_beyond_its_budget_adds_no_more_in_a_week(usual, dearer):
    """5 % of 1,680 pod-hours are 84; what is added within the hour that passes a limit comes on top."""
    assert spent_in_a_week((usual, dearer, 0.0, 0.0)) <= 84 + max(usual, dearer) + 1e-6


@given(st.lists(st.floats(0, 20), min_size=4, max_size=4))
def test_whatever_a_forecast_asks_for_it_adds_a_fifth_more_than_its_budget_at_most(asked):
    """120 % of 84 pod-hours are 100.8."""
    assert spent_in_a_week(asked) <= 100.8 + max(asked) + 1e-6

"""What a forecast adds is what the target has more than without it, over a week of its own decisions."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from core.situations import NOW, cpu, spec
from cronhpa.core.forecasts.budget import PodHour
from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.spec import ForecastSettings, Span
from cronhpa.simulation.forecast_effect import asking_for
from cronhpa.simulation.load import Load, Shape
from cronhpa.simulation.run import run
from cronhpa.simulation.target import Environment

ONE_CORE = Environment(capacity=1.0, requests={"cpu": 1000}, start_up=2 * MINUTE)
# A budget that is never exhausted, so all extra pods are counted.
OBJECT = spec(minimum=1, maximum=1000, metrics=(cpu(60),), forecast=ForecastSettings(budget_percent=100))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_what_is_counted_is_what_a_run_without_the_forecast_has_less(seed):
    """
    Jumps to three times the load for five minutes, a floor 10 min ahead of two of three, and by mistake elsewhere.

    A floor that stands at a jump spares pods, too: those that metrics ask for while the load is on too few. Counted as
    if it only added some, what this forecast costs would be up to a fifth more.
    """
    draw = random.Random(seed)
    jumps = [draw.random() < 0.2 for _ in range(24 * 6)]
    load = Load(
        [
            (NOW + (i * 10 + minute) * MINUTE, (18.0 if is_jump and minute < 5 else 6.0) * draw.uniform(0.95, 1.05))
            for i, is_jump in enumerate(jumps)
            for minute in range(10)
        ],
        shape=Shape.STEPS,
    )
    asked = [draw.random() < (0.7 if following else 0.05) for following in [*jumps[1:], False]]
    span = Span(NOW, NOW + DAY)
    forecasts = asking_for([22 if is_asked else 0 for is_asked in asked for _ in range(10)], OBJECT, ONE_CORE, NOW)
    tracker = BudgetTracker()

    with_it = run(OBJECT, load, ONE_CORE, span, forecasts=forecasts, budget=tracker).score
    without = run(replace(OBJECT, forecast=None), load, ONE_CORE, span).score

    counted = sum(hour.extra for hour in tracker.hours.values()) * SECOND / HOUR
    base = sum(hour.base for hour in tracker.hours.values()) * SECOND / HOUR
    assert counted == pytest.approx(with_it.pod_hours - without.pod_hours, abs=0.01 * without.pod_hours)
    assert base == pytest.approx(without.pod_hours, rel=0.01)
    assert any(hour.extra < 0 for hour in tracker.hours.values()), "an hour in which nothing is spared proves nothing"


def test_an_hour_that_a_clock_which_was_ahead_has_left_voids_no_budget():
    """A week of ten pods, and an hour of a clock a year ahead: a fifth was added, 5 % are allowed."""
    hour, tracker = NOW // HOUR, BudgetTracker()
    tracker.restate({hour - back: PodHour(7_200.0, 36_000.0) for back in range(1, 168)} | {hour + 8_760: PodHour()})
    forecast = asking_for([22], OBJECT, ONE_CORE, NOW)(NOW)

    limited = tracker.limit(replace(OBJECT, forecast=ForecastSettings(budget_percent=5)), forecast, NOW)

    assert "BudgetSpent" == getattr(limited, "reason", "")

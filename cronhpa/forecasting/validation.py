"""
A choice of the shadow run, confirmed: what it comes to on a day by the decisions of the object itself.

The columns that chose it know the upstream's default behavior and nothing of the object's own bounds, policies, windows
and schedules. Imports numpy: for workers only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from cronhpa.core.instant import DAY, MINUTE, SECOND, Nanoseconds
from cronhpa.core.memory import START_UP_UNKNOWN
from cronhpa.core.predictive.floor import forecast_source
from cronhpa.core.spec import Span
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Counts
from cronhpa.forecasting.selection import CANDIDATES, Candidate, Choice, Day, WorkloadModel
from cronhpa.simulation.forecast_effect import ForecastEffect, asking_for, measure_effect
from cronhpa.simulation.load import Load, Shape
from cronhpa.simulation.target import Environment

if TYPE_CHECKING:
    from cronhpa.forecasting.messages import ForecastTarget


def effect_of_choice(
    subject: ForecastTarget, settings: WorkloadModel, choice: Choice, day: Day, begin: Nanoseconds, floors: Counts
) -> ForecastEffect | None:
    """
    What a choice comes to on the day from `begin` on, a turn a minute; None where nothing of the load is known.

    floors: those of all candidates, as `candidate_floors` states them for the day with its run-up.
    """
    spec = subject.spec
    metric = forecast_source(spec)
    points = _points(day, begin)
    if metric is None or not points:
        return None
    environment = Environment(
        capacity=settings.capacity,
        requests={} if subject.request is None else {subject.series.metric: subject.request},
        start_up=START_UP_UNKNOWN if subject.start_up is None else subject.start_up,
        metric_delay=settings.delay_seconds * SECOND,
    )
    # Of other metrics the load is not known here.
    alone = replace(spec, metrics=(metric,))
    # A floor is known when its minute, or its step, is over, and in force at the turn that follows.
    known_after = 1 if day.minutes is not None else MINUTES_PER_STEP + 1
    asked = _floors_of(choice, floors)[day.run_up * MINUTES_PER_STEP - known_after :]
    forecasts = asking_for(asked.tolist(), alone, environment, begin)
    load = Load(points, shape=Shape.STEPS)
    return measure_effect(alone, load, environment, forecasts, Span(begin, begin + DAY), sync_period=MINUTE)


def _floors_of(choice: Choice, floors: Counts) -> Counts:
    """(minutes,): what a choice asks for on a day of which the floors of all candidates are known."""
    if math.isinf(choice.price):
        return np.full(floors.shape[1], choice.least, np.int16)
    # The first row is plain reactive scaling.
    row = 1 + CANDIDATES.index(Candidate(choice.method, choice.price, 0.0))
    asked: Counts = np.maximum(floors[row], np.int16(choice.least))
    return asked


def _points(day: Day, begin: Nanoseconds) -> list[tuple[Nanoseconds, float]]:
    """The load of a day from an hour before its begin on, each point until the next."""
    first = begin - day.run_up * MINUTES_PER_STEP * MINUTE
    if day.minutes is not None:
        values, apart = day.minutes[-len(day.steps) * MINUTES_PER_STEP :], MINUTE
    else:
        # What rises within a step is taken to rise in its first minute, as in the columns.
        first, values, apart = first + MINUTE, day.steps, MINUTES_PER_STEP * MINUTE
    return [(first + i * apart, value) for i, value in enumerate(values.tolist()) if not math.isnan(value)]

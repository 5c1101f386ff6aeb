"""
The floors of two recorded series, pinned: a change of the forecast's code keeps them, or says what it changes.

`python tests/forecasting/test_pinned_floors.py` (with `tests` on the path) writes what the code gives now.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Span, Spec, TargetRef
from cronhpa.forecasting.candidates import Candidate
from cronhpa.forecasting.evaluation import past_day, provisioned_on_day
from cronhpa.forecasting.fitted_models import KnownLoad
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.policy import Attempts
from cronhpa.forecasting.walk_forward import WalkForward
from cronhpa.forecasting.workload import workload_of
from cronhpa.history.database.series import Series
from cronhpa.history.imports.files import read_points
from cronhpa_models import catalog

LOADS = Path(__file__).parents[2] / "benchmarks" / "traces"
PINNED = Path(__file__).with_name("pinned_floors.json")
SERIES = ("k8s_app11_cpu_1m", "k8s_app12_cpu_1m")
PINNED_CANDIDATES = (
    Candidate("Clock", 0.35, 0.0),
    Candidate("NearClock", 0.15, 0.0),
    Candidate("ClockAndLoad", 0.6, 0.03),
    Candidate("", 0.25, 0.0),
    Candidate("", float("inf"), 0.05),
)
TESTED_DAY = 12
WORKER_HOURS = range(6, 10)
DELAY = 30 * SECOND


def subject(name, points):
    """A target of 60 % on pods that request what makes the mean load one of twenty pods."""
    mean = sum(value for _, value in points) / len(points)
    spec = Spec(
        TargetRef("apps/v1", "Deployment", name),
        1,
        200,
        namespace="shop",
        metrics=(ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60)),),
        forecast=ForecastSettings(),
    )
    request = round(1000 * mean / (20 * 0.6))
    return ForecastTarget(Series("shop", name, "cpu"), spec, start_up=120 * SECOND, request=request)


def floors_of_the_day(name):
    """By candidate: the floors of each minute of the tested day, as [count, minutes] runs."""
    points = read_points(LOADS / f"{name}.csv.gz")
    workload = workload_of(subject(name, points))
    minutes = np.array([value for _, value in points])[: (TESTED_DAY + 1) * 1440]
    history = KnownLoad(minutes.reshape(-1, 5).max(axis=1), minutes)
    floors = provisioned_on_day(past_day(history, 1), workload, catalog.default(), PINNED_CANDIDATES, Attempts())
    return {
        f"{pinned_candidate.method or 'Jump'} {pinned_candidate.cost} {pinned_candidate.constant_share}": runs(row)
        for pinned_candidate, row in zip(PINNED_CANDIDATES, floors[1:], strict=True)
    }


def floors_of_the_worker(name):
    """What the worker's forecasts of some hours of the tested day ask for, [near load, far load] a minute."""
    points = read_points(LOADS / f"{name}.csv.gz")
    begin = points[0][0] + TESTED_DAY * DAY
    span = Span(begin + WORKER_HOURS[0] * HOUR, begin + WORKER_HOURS[-1] * HOUR)
    walk = WalkForward(points, subject(name, points), span, delay=DELAY)
    for now in range(span.begin, span.end + MINUTE, MINUTE):
        walk(now + DELAY)
    return [
        [round(answer.load[0], 3), round(answer.load[-1], 3)] if isinstance(answer, Forecast) else None
        for _, answer in walk.answers
    ]


def runs(values):
    places = np.flatnonzero(np.diff(values, prepend=-1))
    ends = np.append(places[1:], len(values))
    return [[int(values[i]), int(j - i)] for i, j in zip(places, ends, strict=True)]


@pytest.mark.parametrize("name", SERIES)
def test_the_floors_of_a_recorded_day_are_those_that_are_pinned(name):
    assert json.loads(PINNED.read_text())[name]["day"] == floors_of_the_day(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERIES)
def test_the_worker_forecasts_of_a_recorded_day_are_those_that_are_pinned(name):
    expected = json.loads(PINNED.read_text())[name]["worker"]

    assert expected == floors_of_the_worker(name)


if __name__ == "__main__":
    pinned = {name: {"day": floors_of_the_day(name), "worker": floors_of_the_worker(name)} for name in SERIES}
    PINNED.write_text(json.dumps(pinned) + "\n")

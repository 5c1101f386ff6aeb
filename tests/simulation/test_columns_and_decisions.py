"""Screening in columns and the simulator, which decides with `decide`, on the same load and the same floors."""

from __future__ import annotations

import numpy as np
import pytest

from core.situations import cpu, spec
from cronhpa.core.model.instant import DAY, MINUTE, SECOND
from cronhpa.core.model.spec import ForecastSettings, Span
from cronhpa.forecasting.columns import AutoscalerModel, simulate
from cronhpa.simulation.forecast_effect import asking_for
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import run
from cronhpa.simulation.target import Environment
from testbed.loads import K8S_APP11, Trace

_TICK = 15 * SECOND
_DELAY = 30 * SECOND
# What a pod is planned to carry at most, of what it can.
_GUARD = 0.9


@pytest.fixture(scope="module")
def recorded():
    """(load in pods, its span): a day of k8s_app11 with two hours before it, 20 pods on average at a target of 60 %."""
    trace = Trace.read(K8S_APP11)
    one_pod = sum(trace.values) / len(trace.values) / (20 * 0.6)
    load = Load(zip(trace.instants, (value / one_pod for value in trace.values), strict=True))
    begin = trace.start + 10 * DAY
    return load, Span(begin, begin + DAY)


def floors(load, span):
    """By name, the floor of each minute of a day."""
    peaks = [max(load.at(span.begin + (5 * step + m) * MINUTE) for m in range(10)) for step in range(288)]
    ahead = np.repeat([int(np.ceil(peak / _GUARD)) for peak in peaks], 5)
    return {
        "none": np.zeros(1440, int),
        "constant": np.full(1440, 8),
        "knowing": ahead,
        "exaggerating": ahead + ahead // 4,
        "by day": np.where((np.arange(1440) // 60 % 24 >= 1) & (np.arange(1440) // 60 % 24 < 15), 20, 0),
    }


def simulated(load, span, floor, start_up):
    """The score of the simulator with forecasts that ask for this floor, each in force from 30 s after its minute."""
    of = spec(minimum=1, maximum=10_000, metrics=(cpu(60),), forecast=ForecastSettings())
    environment = Environment(capacity=1.0, requests={"cpu": 1000}, start_up=start_up * SECOND)
    forecasts = asking_for([floor[0], *floor], of, environment, span.begin + _DELAY - MINUTE)
    return run(of, load, environment, span, forecasts=forecasts).score


@pytest.mark.slow
@pytest.mark.parametrize("start_up", [120, 240])
def test_columns_tell_what_the_decisions_themselves_come_to(recorded, start_up):
    """
    For each of five floors: pod-hours within 0.1 %, under-provisioned minutes within 1 % or half a minute; and the
    order of the five, by which the best is chosen, is the same.
    """
    load, span = recorded
    tried = floors(load, span)
    ticks = np.array([load.at(span.begin + tick * _TICK) for tick in range(DAY // _TICK)])

    outcomes = simulate(ticks, np.array(list(tried.values()), np.int16), AutoscalerModel(start_up_seconds=start_up))
    screened = dict(
        zip(tried, zip(outcomes.under.sum(axis=1) / 60, outcomes.pods.mean(axis=1) * 24, strict=True), strict=True)
    )
    scores = {name: simulated(load, span, floor, start_up) for name, floor in tried.items()}

    for name, (minutes, pod_hours) in screened.items():
        assert scores[name].under_provisioned_minutes == pytest.approx(minutes, rel=0.01, abs=0.5), name
        assert scores[name].pod_hours == pytest.approx(pod_hours, rel=0.001), name
    assert screened["none"][0] > 10, "a load that is never short proves nothing"
    assert sorted(tried, key=lambda name: screened[name][0]) == sorted(
        tried, key=lambda name: scores[name].under_provisioned_minutes
    )

"""Forecasts that the operator would have had: made step by step, from what was known then and nothing else."""

from __future__ import annotations

import importlib.util
import math
import random

import pytest

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.observation import Absent
from cronhpa.core.spec import ForecastSettings, MetricTarget, ResourceMetric, Span, Spec, TargetRef
from cronhpa.learning.hindsight import Hindsight, NotInstalledError, hindsight
from cronhpa.learning.store import STEP, Series
from cronhpa.learning.subject import Subject

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
SPEC = Spec(
    TargetRef("apps/v1", "Deployment", "web"),
    1,
    100,
    namespace="shop",
    metrics=(ResourceMetric("cpu", MetricTarget("AverageValue", average_value=1000)),),
    forecast=ForecastSettings(),
)
WEB = Subject(Series("shop", "web", "cpu"), SPEC)
DELAY = 30 * SECOND


def days(number, noise_from=None):
    """A point each minute of the days before MIDNIGHT and the one after it; behind `noise_from` anything may come."""
    chance = random.Random(7)
    found = []
    for minute in range(-number * 24 * 60, 24 * 60):
        at = MIDNIGHT + minute * MINUTE
        value = 10 + 8 * math.sin(2 * math.pi * minute / 1440)
        found.append((at, value if noise_from is None or at < noise_from else chance.uniform(0, 1000)))
    return found


def asked(points, hours=1.0):
    return hindsight(points, WEB, Span(MIDNIGHT, MIDNIGHT + round(hours * HOUR)), delay=DELAY)


def test_a_forecast_is_made_at_every_step_once_its_load_is_measured():
    found = asked(days(3))

    assert [MIDNIGHT + k * STEP + DELAY for k in range(12)] == [at for at, _ in found.answers]
    assert all(isinstance(answer, Forecast) for _, answer in found.answers)
    assert [MIDNIGHT + k * STEP for k in range(12)] == [answer.start for _, answer in found.answers]
    assert [at for at, _ in found.answers] == [answer.issued_at for _, answer in found.answers]


def test_the_newest_forecast_issued_by_then_is_answered():
    found = asked(days(3))
    first, second = (answer for _, answer in found.answers[:2])

    assert isinstance(found(MIDNIGHT + DELAY - 1), Absent)
    assert first is found(MIDNIGHT + DELAY)
    assert first is found(MIDNIGHT + STEP + DELAY - 1)
    assert second is found(MIDNIGHT + STEP + DELAY)
    assert found.answers[-1][1] is found(MIDNIGHT + DAY)


def test_nothing_that_comes_later_is_known():
    """Where all behind 00:30 is noise, every forecast made up to 00:30:30 is the same."""
    turn = MIDNIGHT + 30 * MINUTE

    known, noisy = (asked(points).answers for points in (days(3), days(3, noise_from=turn)))

    assert known[:7] == noisy[:7]
    assert turn + DELAY == known[6][0]
    assert known[7:] != noisy[7:]


def test_a_history_too_short_to_learn_from_says_so():
    found = asked(days(1))

    assert {"Learning"} == {answer.reason for _, answer in found.answers}
    assert found.summary.startswith("12 times none (Learning, at last: 24 h of cpu measured over 24 h: ")


def test_a_summary_counts_forecasts_by_model():
    assert asked(days(3), hours=0.5).summary.startswith("6 by ")
    assert "none was made" == Hindsight([]).summary


def test_progress_is_told_step_by_step():
    steps = []

    hindsight(days(1), WEB, Span(MIDNIGHT, MIDNIGHT + HOUR), progress=lambda *step: steps.append(step))

    assert [(number, 12) for number in range(1, 13)] == steps


def test_without_pandas_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pandas" else object())

    with pytest.raises(NotInstalledError, match=r"pandas are not installed: pip install 'cronhpa\[forecast\]'"):
        asked(days(1))

"""Forecasts that the operator would have had: made step by step, from what was known then and nothing else."""

from __future__ import annotations

import importlib.util
import random

import msgspec
import pytest

from cronhpa.core.forecasts.budget import PodHour
from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Span, Spec, TargetRef
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.walk_forward import NotInstalledError, WalkForward
from cronhpa.history.database.series import STEP, Series

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
SPEC = Spec(
    TargetRef("apps/v1", "Deployment", "web"),
    1,
    100,
    namespace="shop",
    metrics=(ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60)),),
    forecast=ForecastSettings(),
)
WEB = ForecastTarget(Series("shop", "web", "cpu"), SPEC, start_up=120 * SECOND, request=1000)
DELAY = 30 * SECOND


def days(number, noise_from=None, every=1):
    """
    A point each minute of the days before MIDNIGHT and the one after it: 6 cores, and 12 in every fourth hour, which
    plain reactive scaling is late for. Behind `noise_from` anything may come; the point at it ends what was before.
    """
    chance = random.Random(7)
    requests = []
    for minute in range(-number * 24 * 60, 24 * 60, every):
        at = MIDNIGHT + minute * MINUTE
        value = 12.0 if minute // 60 % 4 == 1 else 6.0
        requests.append((at, value if noise_from is None or at <= noise_from else chance.uniform(0, 1000)))
    return requests


def asked(points, hours=1.0, target=WEB, **rest):
    """All that is answered in these hours, asked for every half minute."""
    span = Span(MIDNIGHT, MIDNIGHT + round(hours * HOUR))
    walk = WalkForward(points, target, span, delay=DELAY, **rest)
    for now in range(span.begin, span.end + HOUR, DELAY):
        walk(now)
    return walk


def test_a_forecast_is_made_every_minute_once_its_load_is_measured():
    walk = asked(days(4))

    assert [MIDNIGHT + minute * MINUTE + DELAY for minute in range(60)] == [at for at, _ in walk.answers]
    assert all(isinstance(answer, Forecast) for _, answer in walk.answers)
    assert [at for at, _ in walk.answers] == [answer.issued_at for _, answer in walk.answers]


def test_of_a_history_of_five_minutes_one_is_made_at_every_step():
    walk = asked(days(4, every=5))

    assert [MIDNIGHT + k * STEP + DELAY for k in range(12)] == [at for at, _ in walk.answers]


def test_the_newest_that_was_issued_by_then_is_answered():
    walk = WalkForward(days(4), WEB, Span(MIDNIGHT, MIDNIGHT + HOUR), delay=DELAY)

    assert isinstance(walk(MIDNIGHT + DELAY - 1), Absent)
    first = walk(MIDNIGHT + DELAY)
    assert MIDNIGHT + DELAY == first.issued_at
    assert first is walk(MIDNIGHT + MINUTE + DELAY - 1)
    assert MIDNIGHT + MINUTE + DELAY == walk(MIDNIGHT + MINUTE + DELAY).issued_at
    assert MIDNIGHT + 59 * MINUTE + DELAY == walk(MIDNIGHT + DAY).issued_at


def test_nothing_that_comes_later_is_known():
    """Where all behind 00:30 is noise, every forecast made up to 00:30:30 is the same."""
    cut = MIDNIGHT + 30 * MINUTE

    plain, noisy = (asked(points).answers for points in (days(4), days(4, noise_from=cut)))

    assert cut + DELAY == plain[30][0]
    assert plain[:31] == noisy[:31]
    assert plain[31:] != noisy[31:]


def test_a_history_too_short_to_learn_from_says_so():
    walk = asked(days(1))

    assert {"Learning"} == {answer.reason for _, answer in walk.answers}
    assert walk.summary.startswith("60 times none (Learning, at last: 24 h of cpu measured over ")


def test_a_summary_counts_forecasts_by_model():
    walk = asked(days(4), hours=0.25)
    (model,) = {answer.model for _, answer in walk.answers}

    assert f"15 by {model}" == walk.summary
    assert "none was made" == WalkForward([], WEB, Span(0, 1)).summary


def test_of_nothing_recorded_it_is_learning():
    assert {"Learning"} == {answer.reason for _, answer in asked([]).answers}


def test_it_has_fitted_for_two_weeks_when_the_span_begins():
    """Of five days each but the first was evaluated, once a day: the record counts the last three and the next."""
    (at, first), *_ = asked(days(5), hours=0.1).answers

    assert MIDNIGHT + DELAY == at
    assert MIDNIGHT == first.trained_until
    assert first.track_record.days > 1


def noisy(number):
    """Five minutes apart, up to 30 % more."""
    return [(at, value * (1 + 0.3 * random.Random(at).random())) for at, value in days(number, every=5)]


@pytest.mark.parametrize(
    ("spent", "running", "cost"),
    [(0.0, 0.0, 0.71), (0.2, 0.0, 0.63), (0.0, 0.2, 0.71)],
    ids=["nothing", "the hours before", "the hour that runs"],
)
def test_what_the_forecasts_cost_is_known_to_the_next_choice(spent, running, cost):
    """
    A fifth more pods in each of the five hours that are over at midnight leaves less of a budget of 1 %: what is chosen
    costs 0.63 % for the 14 of 20 minutes that cost 0.71 % where nothing was spent.
    """
    tracker = BudgetTracker()
    for back in range(5, -1, -1):
        tracker.add(MIDNIGHT // HOUR - back, PodHour(extra=36_000.0 * (spent if back else running), base=36_000.0))
    one_percent = msgspec.structs.replace(SPEC, forecast=ForecastSettings(budget_percent=1))
    target = msgspec.structs.replace(WEB, spec=one_percent)

    (_, answer), *_ = asked(noisy(6), 0.1, target, tracker=tracker).answers

    record = answer.track_record
    assert (14, 20, cost) == (round(record.avoided), round(record.of), round(record.extra_percent, 2))


def test_without_numpy_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numpy" else object())

    with pytest.raises(NotInstalledError, match=r"numpy is not installed: pip install 'cronhpa\[forecast\]'"):
        asked(days(1))

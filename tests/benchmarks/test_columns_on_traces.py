"""The vectorized autoscaler and `decide` on every shipped series: equal within half a percentage point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cronhpa.core.forecasts.budget import WEEK_HOURS, PodHour, spent_percent
from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.model.decision import Source
from cronhpa.core.model.instant import HOUR
from cronhpa.core.model.observation import Absent
from cronhpa.forecasting.columns import AutoscalerModel, simulate
from forecasting.literal_autoscaler import decided

pytestmark = pytest.mark.usefixtures("benchmark_scripts")

TRACES = Path(__file__).parents[2] / "benchmarks" / "traces"
NAMES = sorted(path.name.removesuffix(".csv.gz") for path in TRACES.glob("*.csv.gz"))
# Of those that are replayed on their own calendar.
CALENDAR = [name for name in NAMES if name.endswith(("_1m", "_5m"))]
MODEL = AutoscalerModel()
POINT = 0.01
TICKS_PER_MINUTE, TICKS_PER_STEP, TICKS_PER_HOUR = 4, 20, 240
SLICE_HOURS = 6


def load_of(name):
    """(ticks,): the load of the test."""
    import recorded

    series = recorded.read(TRACES / f"{name}.csv.gz")
    return series.load[series.first_step * TICKS_PER_STEP :]


def from_calm(load):
    """
    From the first minute after which the load moves by no more than a fifth for two minutes.

    ms_mongo_machine begins with a rise from 7 to 19 pods within a minute. In its first ten minutes, and nowhere else,
    the columns are short for 22 s less: they have had the first load for two hours, the object for one reconciliation.
    """
    minute = next(
        begin for begin in range(0, len(load), TICKS_PER_MINUTE)
        if np.ptp(load[begin : begin + 2 * TICKS_PER_MINUTE + 1]) <= 0.2 * load[begin]
    )  # fmt: skip
    return load[minute:]


def busiest(load):
    """The hours around the steepest rise within five minutes."""
    rise = load[TICKS_PER_STEP:] - load[:-TICKS_PER_STEP]
    begin = int(np.argmax(rise)) // TICKS_PER_HOUR * TICKS_PER_HOUR - SLICE_HOURS // 2 * TICKS_PER_HOUR
    begin = min(max(begin, 0), len(load) - SLICE_HOURS * TICKS_PER_HOUR)
    return load[begin : begin + SLICE_HOURS * TICKS_PER_HOUR]


def knowing(load):
    """(minutes,): floors for the largest load of the ten minutes to come; for one half hour of ten there is none."""
    minutes = load[::TICKS_PER_MINUTE]
    peaks = np.array([minutes[i : i + 10].max() for i in range(len(minutes))])
    is_asked = np.random.default_rng(1).random(-(-len(minutes) // 30)).repeat(30)[: len(minutes)] < 0.9
    return np.where(is_asked, np.ceil(peaks / 0.9), 0).astype(np.int16)


def assert_alike(load):
    """Minutes and pod-hours with and without floors, and what the floors change: within half a point of the plain."""
    floors = np.stack([np.zeros(len(load) // TICKS_PER_MINUTE, np.int16), knowing(load)])
    outcomes = simulate(load, floors, MODEL)
    columns = np.stack([outcomes.under.sum(axis=1) / 60, outcomes.pods.sum(axis=1) / 12], axis=1)
    scores = [decided(load, row, MODEL).score for row in floors]
    decisions = np.array([[score.under_provisioned_minutes, score.pod_hours] for score in scores])

    # A series that is never short has no percentages: ten seconds are as good as equal.
    slack = 0.5 * POINT * decisions[0] + [1 / 6, 0.0]
    np.testing.assert_array_less(np.abs(columns - decisions), np.broadcast_to(slack, columns.shape))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_steepest_hours_of_a_series_are_alike(name):
    assert_alike(busiest(load_of(name)))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_all_of_a_series_is_alike(name):
    load = from_calm(load_of(name))
    assert_alike(load[: len(load) // TICKS_PER_STEP * TICKS_PER_STEP])


class Noted(BudgetTracker):
    """A budget tracker, what it counted in each hour, and the budget level of its newest answer; None: it abstained."""

    __slots__ = ("counted", "level")

    def __init__(self):
        super().__init__()
        self.counted = {}
        self.level: int | None = 0

    def add(self, hour, counted):
        super().add(hour, counted)
        self.counted[hour] = self.counted.get(hour, PodHour()) + counted

    def limit(self, spec, forecast, now):
        told = super().limit(spec, forecast, now)
        self.level = None if isinstance(told, Absent) else told.budget_level
        return told


class AsCounted:
    """What a budget tracker counted and allowed, in another replay. levels: by minute."""

    def __init__(self, counted, levels):
        self._counted, self._levels = counted, iter(levels)

    def count(self, replicas, plain):
        """What counts was counted."""

    def level(self, _now, _plain):
        return next(self._levels)

    def percent(self, now):
        """A tracker that runs has dropped the hour of a week ago."""
        kept = {hour: counted for hour, counted in self._counted.items() if hour > now // HOUR - WEEK_HOURS}
        return spent_percent(kept, now)


@pytest.mark.long
@pytest.mark.parametrize("name", CALENDAR)
def test_with_its_budget_ours_is_alike_but_for_what_is_counted(name):
    """
    The whole path. With the budget level that the operator's tracker had, the bench has its floor at every tick.

    What the bench counts by itself, pods beyond those of a twin, the operator estimates from the samples that it has:
    pod-hours, and what was counted of them in all, are within half a point of each other.
    """
    import closed_loop
    import decided
    import policy_floors
    import recorded

    series = recorded.read(TRACES / f"{name}.csv.gz")
    tracker, floors, levels = Noted(), [], []

    def watch(_, decision):
        floors.append(floor_of(decision))
        levels.append(tracker.level)

    score = decided.ours(series, MODEL, 5, tracker, watch=watch)
    # Forecasts come half a minute into each minute.
    by_minute = levels[TICKS_PER_MINUTE // 2 :: TICKS_PER_MINUTE]

    alike = policy_floors.replayed(series, MODEL, (5,), [AsCounted(tracker.counted, by_minute)])
    own = closed_loop.run_ours(series, MODEL, (5,))

    np.testing.assert_array_equal(floors, alike.floors[0])
    minutes, pod_hours = (getattr(alike.outcomes, of)[1].sum(dtype=float) for of in ("under", "pods"))
    # The bench begins with the pods of its first tick's mean, and stabilization holds a pod more for some hours.
    assert minutes / 60 == pytest.approx(score.under_provisioned_minutes, abs=0.5)
    assert pod_hours / 12 == pytest.approx(score.pod_hours, rel=1e-3)
    plain, ours = (own[policy].pod_hours * series.days for policy in (closed_loop.REACTIVE, closed_loop.ours(5)))
    assert ours == pytest.approx(score.pod_hours, abs=0.5 * POINT * plain)
    counted = sum(tracker.counted.values(), start=PodHour())
    assert counted.extra / 3600 == pytest.approx(score.pod_hours - plain, abs=0.5 * POINT * plain)


def floor_of(decision):
    """What the forecast asks for; zero for nothing."""
    return max((proposal.replicas for proposal in decision.proposals if proposal.source is Source.FORECAST), default=0)

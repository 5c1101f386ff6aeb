"""
The shipped path on a recorded series: every reconcile decided by `decide`, with the walk forward that `backtest` asks.

The vectorized autoscaler stands in for it where hundreds of candidates are compared; forecast_value prints both side by
side. A series that is replayed faster than its calendar has no decided score: a forecast's budget counts hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from policy_floors import evaluated_once, target_of

from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.model.instant import DAY, MINUTE, SECOND
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.walk_forward import WalkForward
from cronhpa.history.database.series import STEP
from cronhpa.history.load.packing import STEPS_PER_DAY
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import run
from cronhpa.simulation.target import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recorded import Recorded

    from cronhpa.core.model.decision import Decision
    from cronhpa.core.model.observation import Observation
    from cronhpa.forecasting.columns import AutoscalerModel
    from cronhpa.forecasting.daily import Evaluate
    from cronhpa.simulation.score import Score

_TICK = 15 * SECOND
_MILLI = 1000


def is_decided(series: Recorded) -> bool:
    """Whether the series is replayed on its own calendar."""
    return series.steps_per_day == STEPS_PER_DAY


def decided(series: Recorded, autoscaler: AutoscalerModel, budgets: Sequence[int]) -> tuple[Score, list[Score]]:
    """The scores of the whole test without a forecast and with each budget, as `cronhpa backtest` computes them."""
    evaluate = evaluated_once()
    scores = [ours(series, autoscaler, budget, BudgetTracker(), evaluate=evaluate) for budget in budgets]
    bare = msgspec.structs.replace(target_of(series.name, autoscaler, budgets[0]).spec, forecast=None)
    return run(bare, _load(series), _environment(autoscaler), _span(series)).score, scores


def ours(
    series: Recorded,
    autoscaler: AutoscalerModel,
    budget: int,
    tracker: BudgetTracker,
    *,
    evaluate: Evaluate | None = None,
    watch: Callable[[Observation, Decision], None] = lambda _observation, _decision: None,
) -> Score:
    """
    The score of the whole test with a budget. evaluate: see `policy.fit`. watch: called with every reconciliation.
    """
    target, span, environment = target_of(series.name, autoscaler, budget), _span(series), _environment(autoscaler)
    forecasts = WalkForward(
        _points(series), target, span, delay=environment.metric_delay, tracker=tracker, evaluate=evaluate
    )
    load = _load(series)
    return run(target.spec, load, environment, span, forecasts=forecasts, budget=tracker, watch=watch).score


def _span(series: Recorded) -> Span:
    first = series.begin.value
    return Span(first + series.first_step * STEP, first + len(series.steps) * STEP)


def _load(series: Recorded) -> Load:
    first = series.begin.value
    return Load(((first + i * _TICK, float(value)) for i, value in enumerate(series.load)), gap_max=DAY)


def _environment(autoscaler: AutoscalerModel) -> Environment:
    return Environment(
        capacity=1.0,
        requests={"cpu": _MILLI},
        start_up=autoscaler.start_up_seconds * SECOND,
        metric_delay=autoscaler.delay_seconds * SECOND,
        metric_window=autoscaler.window_seconds * SECOND,
    )


def _points(series: Recorded) -> list[tuple[int, float]]:
    """The recorded points, each at the end of the minute or step that it belongs to."""
    values, every = (series.steps, STEP) if series.minutes is None else (series.minutes, MINUTE)
    begin = series.begin.value
    return [(begin + (i + 1) * every, float(value)) for i, value in enumerate(values) if not np.isnan(value)]

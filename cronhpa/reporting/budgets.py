"""
What a forecast would come to at several budgets: each day is evaluated once, and each budget chooses from that table.

A day's evaluation has the score of every candidate on that day, fitted on the days before it. Budgets differ in which
of these a day's fit chooses. What a budget withholds at run time is not modelled: it tells which budget is worth a
replay; only replays are reported. Imports numpy: for commands' workers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.instant import DAY, HOUR, Nanoseconds
from cronhpa.core.model.spec import Span, Spec
from cronhpa.forecasting.candidates import candidates_of
from cronhpa.forecasting.choice import Choice, choose
from cronhpa.forecasting.daily import DailyWalk, Evaluate
from cronhpa.forecasting.evaluation import CandidateScores
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.named_methods import methods_of
from cronhpa.forecasting.policy import EVALUATED_DAYS
from cronhpa.forecasting.recording import Recording
from cronhpa.history.database.series import STEP
from cronhpa.reporting.reported_target import ReportedTarget


class BudgetEstimate(Struct, frozen=True):
    """What a forecast with a budget would change in the days of a span, by the vectorized autoscaler."""

    budget_percent: int
    avoided: float
    """Under-provisioned minutes."""
    extra_hours: float
    """Added pod-hours."""
    extra_percent: float


def budget_estimates(
    target: ReportedTarget, spec: Spec, span: Span, budgets: Sequence[int], evaluate: Evaluate
) -> list[BudgetEstimate]:
    """
    The estimate of each budget over the whole days of a span.

    spec: with a forecast. evaluate: see `policy.fit`; what it caches is what a replay of the span evaluates.
    """
    assert spec.forecast is not None, "a spec without a forecast has no budget"
    days: dict[Nanoseconds, CandidateScores] = {}

    def kept(begin: Nanoseconds, work: Callable[[], CandidateScores]) -> CandidateScores:
        days[begin] = evaluate(begin, work)
        return days[begin]

    # No candidate saves all pods, so none is chosen, nor validated: each fit only evaluates the day before it.
    free = replace(spec, forecast=replace(spec.forecast, budget_percent=-100))
    request = target.environment.requests.get(target.series.metric)
    recording = Recording.of(target.points, span, spec.forecast.ignored)
    walk = DailyWalk(
        recording, ForecastTarget(target.series, free, target.environment.start_up, request), evaluate=kept
    )
    # The fit at the end of a day evaluates that day.
    for begin in range(span.begin - span.begin % STEP, span.end + STEP, DAY):
        walk.day(recording.row(begin))
    names = [variant for chosen in methods_of(spec).chosen for variant in chosen.variants]
    candidates = candidates_of(names)
    usable = np.ones(1 + len(candidates), bool)
    estimates = []
    for budget in budgets:
        avoided = extra = base = 0.0
        for begin, scores in _judged(days, span):
            before = [days[at] for at in sorted(days) if at < begin][-EVALUATED_DAYS:]
            base += float(scores.pods[0, 0])
            choice = choose(CandidateScores.together(before), candidates, budget, usable)
            if isinstance(choice, Choice):
                row = 1 + candidates.index(choice.candidate)
                avoided += float(scores.minutes[0, 0] - scores.minutes[row, 0])
                extra += float(scores.pods[row, 0] - scores.pods[0, 0])
        hours = STEP / HOUR
        estimates.append(BudgetEstimate(budget, avoided, extra * hours, 100 * extra / base if base else 0.0))
    return estimates


def _judged(days: Mapping[Nanoseconds, CandidateScores], span: Span) -> list[tuple[Nanoseconds, CandidateScores]]:
    """The evaluated days of the span that have one before them."""
    first = min(days, default=span.end)
    return [
        (begin, scores) for begin, scores in days.items() if begin >= span.begin - span.begin % STEP and begin > first
    ]

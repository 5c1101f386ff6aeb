"""
What a forecast would come to at several budgets: each day is evaluated once, and each budget chooses from that table.

A day's evaluation has the score of every candidate on that day, fitted on the days before it. Budgets differ in which
of these a day's fit chooses. What a budget withholds at run time is not modelled: it tells which budget is worth a
replay; only replays are reported. Imports numpy: for commands' workers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from cronhpa.core.model.instant import DAY, HOUR, Nanoseconds
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.candidates import Candidate, candidates_of
from cronhpa.forecasting.choice import Choice, choose
from cronhpa.forecasting.daily import Evaluate
from cronhpa.forecasting.evaluation import CandidateScores, past_day, provisioned_on_day, score
from cronhpa.forecasting.fitted_models import KnownLoad
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.named_methods import methods_of
from cronhpa.forecasting.policy import EVALUATED_DAYS, Attempts, why_too_short
from cronhpa.forecasting.recording import Recording
from cronhpa.forecasting.workload import WorkloadModel, workload_of
from cronhpa.history.database.series import STEP
from cronhpa_models.catalog import ChosenMethod


class BudgetEstimate(Struct, frozen=True):
    """What a forecast with a budget would change in the days of a span, by the vectorized autoscaler."""

    budget_percent: int
    avoided: float
    """Under-provisioned minutes."""
    extra_hours: float
    """Added pod-hours."""
    extra_percent: float


def budget_estimates(
    target: ForecastTarget,
    points: Sequence[tuple[Nanoseconds, float]],
    span: Span,
    budgets: Sequence[int],
    evaluate: Evaluate,
) -> list[BudgetEstimate]:
    """
    The estimate of each budget over the whole days of a span.

    target: its spec has a forecast, and tells the load of one pod. points: the load as it was recorded, also from
    before the span. evaluate: see `policy.fit`; what it caches is what a replay of the span evaluates.
    """
    workload, forecast = workload_of(target), target.spec.forecast
    assert workload is not None, "a reported target has a load of one pod"
    assert forecast is not None, "a spec without a forecast has no budget"
    recording = Recording.of(points, span, forecast.ignored, target.left_out)
    catalog = methods_of(target.spec).chosen
    candidates = candidates_of([variant for chosen in catalog for variant in chosen.variants])
    first = span.begin - span.begin % STEP
    days: dict[Nanoseconds, CandidateScores] = {}
    for begin in range(first - EVALUATED_DAYS * DAY, span.end + STEP - DAY, DAY):
        history = recording.history(max(recording.row(begin + DAY), 0))
        if why_too_short(history, target) is None:
            days[begin] = evaluate(begin, partial(_newest_day, history, workload, catalog, candidates))
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


def _newest_day(
    history: KnownLoad, workload: WorkloadModel, catalog: Sequence[ChosenMethod], candidates: Sequence[Candidate]
) -> CandidateScores:
    """The evaluation of the newest day, as the fit at its end makes it."""
    day = past_day(history, 1)
    return score(day, provisioned_on_day(day, workload, catalog, candidates, Attempts()), workload)


def _judged(days: Mapping[Nanoseconds, CandidateScores], span: Span) -> list[tuple[Nanoseconds, CandidateScores]]:
    """The evaluated days of the span that have one before them."""
    first = min(days, default=span.end)
    return [
        (begin, scores) for begin, scores in days.items() if begin >= span.begin - span.begin % STEP and begin > first
    ]

"""
Why under-provisioned minutes remain: by the budget tracker, by the choice, or because no candidate covers them.

`python benchmarks/forecast_remainder.py FOLDER [--budgets 5 8 10]`. A row a series and budget. All by columns: the
closed loop with the budget tracker and with one that never raises costs; then, by the daily evaluation of the tested
days but the last (ticks of a minute, no tracker), the choices in force, the best candidate for all of these days within
the budget, the best one for each day within the budget of all, and the best one for each day at any cost. The last
three know the days: they say how much a choice may lose, not what a choice can reach. Half a minute of CPU a series.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from closed_loop import BUDGETS
from policy_floors import PlainLedger, evaluated_once, replayed, target_of
from recorded import Recorded, read_all
from rich.console import Console
from rich.table import Table

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.forecasting.candidates import candidates_of
from cronhpa.forecasting.choice import Choice
from cronhpa.forecasting.columns import AutoscalerModel, Floats
from cronhpa.forecasting.daily import DailyWalk
from cronhpa.forecasting.evaluation import CandidateScores
from cronhpa.forecasting.policy import FittedPolicy
from cronhpa.forecasting.recording import Recording
from cronhpa_models.catalog import DEFAULT

_HALVINGS = 60
_DEAREST = 1e4  # minutes for a percent of pod-hours


class Spending(PlainLedger):
    """As PlainLedger; notes the percents that the daily fits were told."""

    def __init__(self, budget: int, *, is_limited: bool) -> None:
        super().__init__(budget)
        self.told: list[float | None] = []
        self._is_limited = is_limited

    def level(self, now: Nanoseconds, plain: int) -> int | None:
        level = super().level(now, plain)
        return level if self._is_limited else 0

    def percent(self, now: Nanoseconds) -> float | None:
        self.told.append(super().percent(now))
        return self.told[-1]


def remainder(series: Recorded, autoscaler: AutoscalerModel, budgets: list[int]) -> list[list[str]]:
    """By budget: under-provisioned minutes against reactive scaling and pod-hours, as the columns of the table."""
    evaluate = evaluated_once()
    ledgers = [Spending(budget, is_limited=limited) for budget in budgets for limited in (True, False)]
    twice = [budget for budget in budgets for _ in range(2)]
    outcomes = replayed(series, autoscaler, twice, ledgers, evaluate).outcomes
    loop = [counts.sum(axis=1, dtype=np.float64) for counts in (outcomes.under, outcomes.pods)]
    recording = Recording(series.begin.value, series.steps, series.minutes, steps_per_day=series.steps_per_day)
    rows = range(series.first_step, len(series.steps), series.steps_per_day)
    lines = []
    for place, budget in enumerate(budgets):
        walk = DailyWalk(recording, target_of(series.name, autoscaler, budget), evaluate=evaluate)
        told = ledgers[2 * place].told
        chosen = [_row(walk.day(row, spent).fitted) for row, spent in zip(rows, told, strict=True)][:-1]
        # The fit of each day evaluated the day before it.
        scores = CandidateScores.together([evaluate(recording.calendar(row), _never) for row in rows[:-1]])
        days = np.arange(len(chosen))
        constant = best_constant(scores, budget / 100)
        figures = [(loop[0][1 + 2 * place + n], loop[1][1 + 2 * place + n], loop[0][0], loop[1][0]) for n in (0, 1)]
        for picked in (chosen, constant, by_day(scores, budget / 100), scores.minutes.argmin(axis=0)):
            picks = [by_candidate[picked, days].sum() for by_candidate in (scores.minutes, scores.pods)]
            figures.append((*picks, scores.minutes[0].sum(), scores.pods[0].sum()))
        lines.append(
            [f"{budget} %", *(f"{_percent(m, plain)}, {_percent(p, base, 1)}" for m, p, plain, base in figures)]
        )
    return lines


def best_constant(scores: CandidateScores, budget: float) -> Floats:
    """(days,): the candidate with the fewest minutes within the budget, the same on each day."""
    extra = scores.pods.sum(axis=1) / scores.pods[0].sum() - 1
    row = np.where(extra <= budget, scores.minutes.sum(axis=1), np.inf).argmin()
    return np.full(scores.minutes.shape[1], row)


def by_day(scores: CandidateScores, budget: float) -> Floats:
    """(days,): candidates with the fewest minutes within the budget of all days, by one price of a pod for all days."""
    extra = 100 * (scores.pods - scores.pods[:1]) / scores.pods[0].sum()
    low, high = 0.0, _DEAREST
    for _ in range(_HALVINGS):
        price = (low + high) / 2
        spent = extra[(scores.minutes + price * extra).argmin(axis=0), np.arange(extra.shape[1])].sum()
        low, high = (low, price) if spent <= 100 * budget else (price, high)
    return np.asarray((scores.minutes + high * extra).argmin(axis=0))


def _row(fitted: object) -> int:
    """Of the scores; that of reactive scaling without a choice."""
    if not isinstance(fitted, FittedPolicy) or not isinstance(fitted.choice, Choice):
        return 0
    return 1 + candidates_of(DEFAULT).index(fitted.choice.candidate)


def _never() -> CandidateScores:
    raise AssertionError("each tested day but the last was evaluated")


def _percent(value: float, of: float, digits: int = 0) -> str:
    return f"{100 * (value / of - 1):+.{digits}f} %" if of else "-"


def main() -> int:
    parser = argparse.ArgumentParser(description="Why under-provisioned minutes remain on recorded series.")
    parser.add_argument("traces", type=Path, help="a folder of CSV files, `timestamp,value`, gzipped or not")
    parser.add_argument("--budgets", type=int, nargs="+", default=list(BUDGETS), help="percent")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200)
    several, _ = read_all(options.traces)
    table = Table("series", "budget", "shipped", "no tracker", "chosen", "best for all", "best by day", "any cost")
    for series in several:
        for line in remainder(series, AutoscalerModel(), options.budgets):
            table.add_row(series.name, *line)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

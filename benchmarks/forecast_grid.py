"""
What was asked of forecasts beside what they reach: other start-up times, targets and sizes, and the CPU of a worker.

Run by `make bench-forecast TRACES=DIR GRID=1`. What was measured of a series in a setting is kept under build/bench.
"""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import fingerprint
import learning_cost
import report
from closed_loop import REACTIVE, ClosedLoopScore, Scores, Summary, halves, ours, run_ours, summary, traded
from kept import keep, kept, key_of
from recorded import for_each
from rich.table import Table

from cronhpa.forecasting.columns import AutoscalerModel, Utilization
from cronhpa_models.catalog import DEFAULT

if TYPE_CHECKING:
    from recorded import Recorded
    from rich.console import Console

    from cronhpa_models import evaluation

# Percent of pod-hours; budgets above ten are for whoever trades a higher target for a forecast.
_BUDGETS = (5, 10, 20, 30)
_PODS = 20  # that the mean load needs, at the target of the bench
_SMALL_PODS = 3
_SETTINGS = {
    "start-up 60 s": AutoscalerModel(start_up_seconds=60),
    "start-up 240 s": AutoscalerModel(start_up_seconds=240),
    "target 80 %": AutoscalerModel(goal=Utilization(80)),
    "start-up 240 s, target 80 %": AutoscalerModel(start_up_seconds=240, goal=Utilization(80)),
}
_OBJECTS = 12
_FLEET, _CORES = 10_000, 2


def run_grid(
    several: list[Recorded],
    base: Scores,
    quality: dict[str, dict[str, evaluation.Scores]],
    console: Console,
    *,
    jobs: int | None = None,
    fresh: bool = False,
) -> dict[str, Any]:
    """
    Prints a row a setting and budget, then the table of what was asked; the figures of both.

    jobs: series at once; None for all cores. fresh: measure what an earlier run kept, too.
    """
    small = [_scaled(series, _SMALL_PODS / _PODS) for series in several]
    scores: dict[str, Scores] = {}
    for name, autoscaler, loads in (
        ("3 pods", AutoscalerModel(), small),
        *((*setting, several) for setting in _SETTINGS.items()),
    ):
        console.print(f"{name} ...", style="dim", highlight=False)
        scores[name] = _in(name, autoscaler, loads, jobs=jobs, fresh=fresh)
    cost = asyncio.run(learning_cost.run(_OBJECTS))
    settings = {
        name: {budget: summary(setting_scores, ours(budget)) for budget in _BUDGETS}
        for name, setting_scores in scores.items()
    }
    console.print(by_setting(settings, scores))
    asked = rows(base, scores, settings, quality, cost)
    table = Table("", "asked", "reached", title="What was asked for, and what was reached")
    for row in asked:
        table.add_row(*row)
    console.print(table)
    return {
        "scores": {
            setting: {
                name: {policy: asdict(score) for policy, score in row.items()} for name, row in setting_scores.items()
            }
            for setting, setting_scores in scores.items()
        },
        "learning_cost": cost,
        "asked": [dict(zip(("goal", "asked", "reached"), row, strict=True)) for row in asked],
    }


def by_setting(settings: dict[str, dict[int, Summary]], scores: dict[str, Scores]) -> Table:
    out = Table(title="Other settings, against plain reactive scaling in each")
    for heading in ("setting", "reactive, min a day", "budget", "stressed minutes", "pod-hours", "worst", "actions x"):
        out.add_column(heading, justify="left" if heading == "setting" else "right")
    for name, comparisons in settings.items():
        plain = summary(scores[name], REACTIVE).minutes
        for budget, comparison in comparisons.items():
            shares = (-comparison.reduction, comparison.extra, comparison.worst)
            cells = [f"{share:+.1f} %" for share in shares]
            out.add_row(name, f"{plain:.1f}", f"{budget} %", *cells, f"{comparison.actions:.2f}")
    return out


def rows(
    base: Scores,
    scores: dict[str, Scores],
    settings: dict[str, dict[int, Summary]],
    quality: dict[str, dict[str, evaluation.Scores]],
    cost: dict[str, Any],
) -> list[tuple[str, str, str]]:
    """(what, asked, reached), each."""
    five, eight, ten = (summary(base, ours(budget)) for budget in (5, 8, 10))
    slow = settings["start-up 240 s"][5]
    covered = {
        method: [
            method_scores[method].coverage
            for method_scores in quality.values()
            if not math.isnan(method_scores[method].coverage)
        ]
        for method in DEFAULT
    }
    ranges = ", ".join(
        f"{name} {min(coverages):.3f} to {max(coverages):.3f}" for name, coverages in covered.items() if coverages
    )
    day = cost["ordinary_day_seconds"]
    return [
        ("stressed minutes, budget 5 %", "-58 % at <= +2.5 %, <= +6 % on any", _worth(five)),
        ("stressed minutes, budget 8 %", "-65 % at <= +4 %, <= +8.5 % on any", _worth(eight)),
        ("stressed minutes, budget 10 %", "-69 % at <= +4.5 %", _worth(ten)),
        ("even | odd places, budget 5 %", "", _by_half(base, 5)),
        ("even | odd places, budget 10 %", "", _by_half(base, 10)),
        ("start-up 240 s, budget 5 %", "within 3 points of 120 s", _worth(slow)),
        ("load unserved, budget 5 %", "-70 %", f"{-five.unserved:+.1f} %"),
        ("any series, minutes", "<= +2 %", f"{five.harm:+.1f} % (240 s: {slow.harm:+.1f} %)"),
        ("any series, actions", "<= 1.15 x", f"{five.actions_most:.2f} x (240 s: {slow.actions_most:.2f} x)"),
        ("smooth series, pod-hours", "<= +0.3 %", f"{five.smooth:+.2f} %"),
        ("target 80 % with a forecast, 60 % without", "equal minutes at -20 %", _traded(base, scores["target 80 %"])),
        ("3 pods, budget 5 %", "", _worth(settings["3 pods"][5])),
        ("coverage of the 0.9 quantile on any series", "0.88 to 0.93", ranges),
        ("CPU a workload and day", "0.15 s", f"{day:.2f} s (first day {cost['first_day_seconds']:.2f} s)"),
        (f"{_FLEET:,} workloads on {_CORES} cores", "15 min", f"{day * _FLEET / 60 / _CORES:.0f} min"),
        ("memory of a worker", "< 1 GB", f"{cost['worker_mb']:.0f} MB"),
    ]


def _worth(comparison: Summary) -> str:
    return f"{-comparison.reduction:+.1f} % at {comparison.extra:+.1f} %, {comparison.worst:+.1f} % on any"


def _by_half(base: Scores, budget: int) -> str:
    """Stressed minutes of the series of even and of odd places in alphabetical order; of one series, its own."""
    return " | ".join(f"{-summary(half, ours(budget)).reduction:+.1f} %" for half in halves(base) if half)


def _traded(base: Scores, high: Scores) -> str:
    extra = traded(base, high, list(base))
    return "no budget reaches them" if extra is None else f"{extra:+.1f} %"


def _in(setting: str, autoscaler: AutoscalerModel, several: list[Recorded], *, jobs: int | None, fresh: bool) -> Scores:
    """By series, in order: what an earlier run kept, and what is measured now."""
    folder = report.FOLDER / "forecast-grid" / re.sub(r"\W+", "-", setting).strip("-")
    code = fingerprint.of_code()
    keys = {series.name: key_of(series, autoscaler, code, _BUDGETS) for series in several}
    scores_by_series = {} if fresh else {name: _decoded(figures) for name, figures in kept(folder, keys).items()}
    left = [series for series in several if series.name not in scores_by_series]
    for series, scores in for_each(partial(run_ours, autoscaler=autoscaler, budgets=_BUDGETS), left, jobs):
        scores_by_series[series.name] = scores
        keep(
            folder, series.name, keys[series.name], {"scores": {name: asdict(score) for name, score in scores.items()}}
        )
    return {series.name: scores_by_series[series.name] for series in several}


def _decoded(figures: dict[str, Any]) -> dict[str, ClosedLoopScore]:
    return {policy: ClosedLoopScore(**score) for policy, score in figures["scores"].items()}


def _scaled(series: Recorded, share: float) -> Recorded:
    """The same load for fewer pods: a whole pod is more of it."""
    minutes = None if series.minutes is None else series.minutes * share
    return replace(series, load=series.load * share, steps=series.steps * share, minutes=minutes)

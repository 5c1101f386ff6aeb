"""
What forecasts are worth: reactive scaling, rivals, ours and an oracle on recorded series, in one closed loop.

`python benchmarks/forecast_value.py FOLDER [--columns] [--budgets 5 8 10] [--jobs N] [--fresh] [--grid]`. Ours with a
budget of 5 % is decided by `decide` at every reconcile, as the operator does; in the rest the vectorized autoscaler
stands in for it. A row a series, then a row a policy, how good each forecasting method is, with --grid what was asked
for beside what was reached, and last one line for a budget of 5 %, pods that take 120 s and a target of 60 %. The
protocol is in docs/engineering/forecasting.md.

What was measured of a series, in each setting of the grid, is kept under build/bench: a run that is interrupted goes
on where it was, as long as neither the code nor the series changes.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fingerprint
import report
from closed_loop import BUDGETS, LOWER_TARGET, REACTIVE, ClosedLoopScore, Scores, ours, run, run_decided, summary
from forecast_grid import run_grid
from forecast_methods import as_json, by_method, qualities
from kept import keep, kept, key_of
from recorded import Recorded, for_each, read_all
from report import machine, save
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from cronhpa.forecasting.columns import AutoscalerModel
from cronhpa_models.evaluation import Scores as Quality

# Percent of pod-hours, in the last line.
SHIPPED_BUDGET = 5
_SHORT = {REACTIVE: "reactive", LOWER_TARGET: "lower", **{ours(budget): f"{budget} %" for budget in BUDGETS}}


@dataclass(frozen=True)
class Measured:
    """
    Of one series: each policy by columns, reactive scaling and ours by `decide`, each method, and the CPU that it took.

    decided: None where only columns were asked for, or the series is replayed faster than its calendar.
    """

    scores: dict[str, ClosedLoopScore]
    decided: dict[str, ClosedLoopScore] | None
    quality: dict[str, Quality]
    cpu_seconds: float

    @property
    def shipped(self) -> dict[str, ClosedLoopScore]:
        """By `decide` what was decided, the others by columns."""
        return self.scores | (self.decided or {})


def main() -> int:
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 140)
    several, left_out = read_all(options.traces)
    autoscaler = AutoscalerModel()
    measurements = _measured(several, autoscaler, options, console)
    scores = {name: measurement.scores for name, measurement in measurements.items()}
    shipped = {name: measurement.shipped for name, measurement in measurements.items()}
    quality = {name: measurement.quality for name, measurement in measurements.items()}
    console.print(by_series(shipped, "minutes"))
    console.print(by_series(shipped, "pod-hours"))
    console.print(by_policy(shipped))
    if not options.columns:
        console.print(
            by_path(
                {name: measurement for name, measurement in measurements.items() if measurement.decided is not None}
            )
        )
    console.print(by_method(quality))
    grid = run_grid(several, scores, quality, console, jobs=options.jobs, fresh=options.fresh) if options.grid else {}
    path = save(
        "forecast-value",
        {
            "machine": machine(),
            "autoscaler": asdict(autoscaler),
            "code": fingerprint.of_code(),
            "scores": _plain(scores),
            "shipped": _plain(shipped),
            "budgets": [] if options.columns else options.budgets,
            "decided": [name for name, measurement in measurements.items() if measurement.decided is not None],
            "cpu_seconds": {name: measurement.cpu_seconds for name, measurement in measurements.items()},
            "quality": as_json(quality),
            "left_out": left_out,
            "grid": grid,
        },
    )
    console.print(f"figures: {path}", highlight=False)
    for reason in left_out.values():
        console.print(f"left out: {reason}", highlight=False, soft_wrap=True)
    five = summary(shipped, ours(SHIPPED_BUDGET))
    line = f"stressed minutes {-five.reduction:+.1f} % pod-hours {five.extra:+.1f} % worst {five.worst:+.1f} %"
    console.print(line, highlight=False)
    return 0


def _measured(
    several: list[Recorded], autoscaler: AutoscalerModel, options: argparse.Namespace, console: Console
) -> dict[str, Measured]:
    """By series, in order: what an earlier run kept, and what is measured now."""
    folder = report.FOLDER / "forecast-value"
    code = fingerprint.of_code()
    budgets = () if options.columns else tuple(options.budgets)
    keys = {series.name: key_of(series, autoscaler, code, budgets) for series in several}
    measurements = {} if options.fresh else {name: _decoded(figures) for name, figures in kept(folder, keys).items()}
    if measurements:
        names = ", ".join(sorted(measurements))
        console.print(f"kept from an earlier run (--fresh measures anew): {names}", style="dim", highlight=False)
    left = [series for series in several if series.name not in measurements]
    begun = time.monotonic()
    task = partial(measure, autoscaler=autoscaler, budgets=budgets)
    for series, measured in for_each(task, left, options.jobs):
        measurements[series.name] = measured
        keep(folder, series.name, keys[series.name], asdict(measured))
        remarks = "".join(f"; {remark}" for remark in series.remarks)
        console.print(
            f"{len(measurements)} of {len(several)} after {time.monotonic() - begun:.0f} s: {series.name}, "
            f"{measured.cpu_seconds:.1f} s of CPU{remarks}",
            style="dim",
            highlight=False,
        )
    return {series.name: measurements[series.name] for series in several}


def _decoded(figures: dict[str, Any]) -> Measured:
    return Measured(
        {policy: ClosedLoopScore(**score) for policy, score in figures["scores"].items()},
        figures["decided"] and {policy: ClosedLoopScore(**score) for policy, score in figures["decided"].items()},
        {method: Quality(**quality) for method, quality in figures["quality"].items()},
        figures["cpu_seconds"],
    )


def measure(series: Recorded, autoscaler: AutoscalerModel, budgets: tuple[int, ...]) -> Measured:
    """budgets: those that are run by `decide`, too."""
    begun = time.process_time()
    scores, quality = run(series, autoscaler), qualities(series)
    by_decide = run_decided(series, autoscaler, budgets) if budgets else None
    return Measured(scores, by_decide, quality, time.process_time() - begun)


def by_path(measurements: dict[str, Measured]) -> Table:
    """A row a series: what the vectorized autoscaler says beside `decide`, at the budget of the last line."""
    policy = ours(SHIPPED_BUDGET)
    out = Table(title=f"Vectorized autoscaler | `decide`, {policy}")
    for heading in ("series", "reactive, min a day", "ours", "minutes", "pod-hours"):
        out.add_column(heading, justify="left" if heading == "series" else "right")
    for name, measurement in measurements.items():
        pairs = [(scores[REACTIVE], scores[policy]) for scores in (measurement.scores, measurement.shipped)]
        cells = [
            [f"{plain.minutes:.2f}" for plain, _ in pairs],
            [f"{own.minutes:.2f}" for _, own in pairs],
            [f"{100 * (own.minutes / plain.minutes - 1):+.1f} %" if plain.minutes else "-" for plain, own in pairs],
            [f"{100 * (own.pod_hours / plain.pod_hours - 1):+.2f} %" for plain, own in pairs],
        ]
        out.add_row(name, *(" | ".join(pair) for pair in cells))
    return out


def by_series(scores: Scores, of: str) -> Table:
    """A row a series, a column a policy: minutes a day, or pod-hours against reactive scaling."""
    is_minutes = of == "minutes"
    title = "Under-provisioned minutes a day" if is_minutes else "Pod-hours a day, and more than those in percent"
    out = Table(title=title, box=SIMPLE, padding=(0, 0))
    out.add_column("series")
    for policy in next(iter(scores.values())):
        out.add_column(_SHORT.get(policy, policy.replace("-like", "").replace("seasonal ", "")), justify="right")
    for name, policy_scores in scores.items():
        plain = policy_scores[REACTIVE].pod_hours
        more = (
            f"{100 * (score.pod_hours / plain - 1):+.1f}"
            for policy, score in policy_scores.items()
            if policy != REACTIVE
        )
        out.add_row(
            name, *((f"{s.minutes:.2f}" for s in policy_scores.values()) if is_minutes else (f"{plain:.0f}", *more))
        )
    return out


def by_policy(scores: Scores) -> Table:
    """A row a policy, means over the series."""
    out = Table(title="Against plain reactive scaling")
    out.add_column("policy")
    for heading in ("stressed minutes", "unserved", "pod-hours", "worst", "actions x", "minutes a day"):
        out.add_column(heading, justify="right")
    for policy in next(iter(scores.values())):
        comparison = summary(scores, policy)
        shares = (-comparison.reduction, -comparison.unserved, comparison.extra, comparison.worst)
        cells = [f"{share:+.1f} %" for share in shares]
        out.add_row(policy, *cells, f"{comparison.actions:.2f}", f"{comparison.minutes:.1f}")
    return out


def _plain(scores: Scores) -> dict[str, dict[str, dict[str, float]]]:
    return {
        name: {policy: asdict(score) for policy, score in policy_scores.items()}
        for name, policy_scores in scores.items()
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What forecasts are worth on recorded series.")
    parser.add_argument("traces", type=Path, help="a folder of CSV files, `timestamp,value`, gzipped or not")
    parser.add_argument(
        "--grid",
        action="store_true",
        help="what was asked for beside what was reached, in other settings too: as long again, four times",
    )
    parser.add_argument(
        "--columns",
        action="store_true",
        help="leave the runs by `decide` out, half of the time; the last line is then by the vectorized autoscaler",
    )
    parser.add_argument(
        "--budgets",
        type=int,
        nargs="+",
        choices=BUDGETS,
        default=[SHIPPED_BUDGET],
        help="percent; those that are run by `decide` (default: that of the last line)",
    )
    parser.add_argument("--jobs", type=int, default=None, help="how many series at once (default: one a core)")
    parser.add_argument("--fresh", action="store_true", help="measure what an earlier run kept, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""
What forecasts are worth: reactive scaling, rivals, ours and an oracle on recorded series, in one closed loop.

`python benchmarks/forecast_value.py FOLDER [--columns] [--budgets 5 8 10] [--jobs N] [--fresh] [--grid]`. Ours with a
budget of 5 % is decided by `decide` at every reconcile, as the operator does; in the rest the vectorized autoscaler
stands in for it. A row a series, then a row a policy, how good each forecasting method is, with --grid what was asked
for beside what was reached, and last one line for a budget of 5 %, pods that take 120 s and a target of 60 %. The
protocol is in docs/forecasting.md.

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
    found = _measured(several, autoscaler, options, console)
    scores = {name: each.scores for name, each in found.items()}
    shipped = {name: each.shipped for name, each in found.items()}
    quality = {name: each.quality for name, each in found.items()}
    console.print(by_series(shipped, "minutes"))
    console.print(by_series(shipped, "pod-hours"))
    console.print(by_policy(shipped))
    if not options.columns:
        console.print(by_path({name: each for name, each in found.items() if each.decided is not None}))
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
            "decided": [name for name, each in found.items() if each.decided is not None],
            "cpu_seconds": {name: each.cpu_seconds for name, each in found.items()},
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
    found = {} if options.fresh else {name: _decoded(known) for name, known in kept(folder, keys).items()}
    if found:
        names = ", ".join(sorted(found))
        console.print(f"kept from an earlier run (--fresh measures anew): {names}", style="dim", highlight=False)
    left = [series for series in several if series.name not in found]
    begun = time.monotonic()
    task = partial(measure, autoscaler=autoscaler, budgets=budgets)
    for series, measured in for_each(task, left, options.jobs):
        found[series.name] = measured
        keep(folder, series.name, keys[series.name], asdict(measured))
        remarks = "".join(f"; {remark}" for remark in series.remarks)
        console.print(
            f"{len(found)} of {len(several)} after {time.monotonic() - begun:.0f} s: {series.name}, "
            f"{measured.cpu_seconds:.1f} s of CPU{remarks}",
            style="dim",
            highlight=False,
        )
    return {series.name: found[series.name] for series in several}


def _decoded(known: dict[str, Any]) -> Measured:
    return Measured(
        {policy: ClosedLoopScore(**score) for policy, score in known["scores"].items()},
        known["decided"] and {policy: ClosedLoopScore(**score) for policy, score in known["decided"].items()},
        {method: Quality(**quality) for method, quality in known["quality"].items()},
        known["cpu_seconds"],
    )


def measure(series: Recorded, autoscaler: AutoscalerModel, budgets: tuple[int, ...]) -> Measured:
    """budgets: those that are run by `decide`, too."""
    begun = time.process_time()
    scores, quality = run(series, autoscaler), qualities(series)
    by_decide = run_decided(series, autoscaler, budgets) if budgets else None
    return Measured(scores, by_decide, quality, time.process_time() - begun)


def by_path(found: dict[str, Measured]) -> Table:
    """A row a series: what the vectorized autoscaler says beside `decide`, at the budget of the last line."""
    policy = ours(SHIPPED_BUDGET)
    out = Table(title=f"Vectorized autoscaler | `decide`, {policy}")
    for heading in ("series", "reactive, min a day", "ours", "minutes", "pod-hours"):
        out.add_column(heading, justify="left" if heading == "series" else "right")
    for name, each in found.items():
        pairs = [(scores[REACTIVE], scores[policy]) for scores in (each.scores, each.shipped)]
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
    for name, each in scores.items():
        plain = each[REACTIVE].pod_hours
        more = (f"{100 * (score.pod_hours / plain - 1):+.1f}" for policy, score in each.items() if policy != REACTIVE)
        out.add_row(name, *((f"{s.minutes:.2f}" for s in each.values()) if is_minutes else (f"{plain:.0f}", *more)))
    return out


def by_policy(scores: Scores) -> Table:
    """A row a policy, means over the series."""
    out = Table(title="Against plain reactive scaling")
    out.add_column("policy")
    for heading in ("stressed minutes", "unserved", "pod-hours", "worst", "actions x", "minutes a day"):
        out.add_column(heading, justify="right")
    for policy in next(iter(scores.values())):
        found = summary(scores, policy)
        shares = (-found.reduction, -found.unserved, found.extra, found.worst)
        cells = [f"{share:+.1f} %" for share in shares]
        out.add_row(policy, *cells, f"{found.actions:.2f}", f"{found.minutes:.1f}")
    return out


def _plain(scores: Scores) -> dict[str, dict[str, dict[str, float]]]:
    return {name: {policy: asdict(score) for policy, score in each.items()} for name, each in scores.items()}


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

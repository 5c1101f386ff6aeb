"""
What forecasts are worth: reactive scaling, rivals, ours and an oracle on recorded series, in one closed loop.

`python benchmarks/forecast_value.py FOLDER [--grid]`. A row a series, then a row a policy, how good each forecasting
method is, with --grid what was asked for beside what was reached, and last one line for a budget of 5 %, pods that take
120 s and a target of 60 %. The protocol is in docs/forecasting.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from closed_loop import BUDGETS, LOWER_TARGET, REACTIVE, ClosedLoopScore, Scores, ours, run, run_decided, summary
from forecast_grid import run_grid
from forecast_methods import as_json, by_method, qualities
from recorded import Recorded, for_each, read_all
from report import machine, save
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from cronhpa.forecasting.columns import AutoscalerModel
from cronhpa_models.evaluation import Scores as Quality

# Percent of pod-hours, in the last line.
_SHIPPED_BUDGET = 5
_SHORT = {REACTIVE: "reactive", LOWER_TARGET: "lower", **{ours(budget): f"{budget} %" for budget in BUDGETS}}


def main() -> int:
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 140)
    several, left_out = read_all(options.traces)
    world = AutoscalerModel()
    found: dict[str, Measured] = {}
    for series, measured in for_each(partial(measure, world=world, is_decided=not options.columns), several):
        found[series.name] = measured
        remarks = "".join(f"; {remark}" for remark in series.remarks)
        console.print(f"{series.name}: {measured.cpu_seconds:.1f} s of CPU{remarks}", style="dim", highlight=False)
    found = {series.name: found[series.name] for series in several}
    scores = {name: each.scores for name, each in found.items()}
    shipped = {name: each.decided or each.scores for name, each in found.items()}
    quality = {name: each.quality for name, each in found.items()}
    console.print(by_series(scores, "minutes"))
    console.print(by_series(scores, "pod-hours"))
    console.print(by_policy(scores))
    if not options.columns:
        console.print(by_path(scores, shipped))
    console.print(by_method(quality))
    grid = run_grid(several, scores, quality, console) if options.grid else {}
    path = save(
        "forecast-value",
        {
            "machine": machine(),
            "world": asdict(world),
            "scores": {name: {policy: asdict(s) for policy, s in each.items()} for name, each in scores.items()},
            "decided": {name: {policy: asdict(s) for policy, s in each.items()} for name, each in shipped.items()},
            "cpu_seconds": {name: each.cpu_seconds for name, each in found.items()},
            "quality": as_json(quality),
            "left_out": left_out,
            "grid": grid,
        },
    )
    console.print(f"figures: {path}", highlight=False)
    for reason in left_out.values():
        console.print(f"left out: {reason}", highlight=False, soft_wrap=True)
    five = summary(shipped, ours(_SHIPPED_BUDGET))
    line = f"stressed minutes {-five.reduction:+.1f} % pod-hours {five.extra:+.1f} % worst {five.worst:+.1f} %"
    console.print(line, highlight=False)
    return 0


@dataclass(frozen=True)
class Measured:
    """Of one series: each policy, each method, and the CPU that it took."""

    scores: dict[str, ClosedLoopScore]
    decided: dict[str, ClosedLoopScore] | None
    quality: dict[str, Quality]
    cpu_seconds: float


def measure(series: Recorded, world: AutoscalerModel, *, is_decided: bool) -> Measured:
    begun = time.process_time()
    scores, quality = run(series, world), qualities(series)
    by_decide = run_decided(series, world, _SHIPPED_BUDGET) if is_decided else None
    return Measured(scores, by_decide, quality, time.process_time() - begun)


def by_path(columns: Scores, shipped: Scores) -> Table:
    """A row a series: what the vectorized autoscaler says beside `decide`, at the budget of the last line."""
    policy = ours(_SHIPPED_BUDGET)
    out = Table(title=f"Vectorized autoscaler | `decide`, {policy}")
    for heading in ("series", "reactive, min a day", "ours", "minutes", "pod-hours"):
        out.add_column(heading, justify="left" if heading == "series" else "right")
    for name, each in columns.items():
        pairs = [(scores[REACTIVE], scores[policy]) for scores in (each, shipped[name])]
        cells = [
            [f"{plain.minutes:.2f}" for plain, _ in pairs],
            [f"{own.minutes:.2f}" for _, own in pairs],
            [f"{100 * (own.minutes / plain.minutes - 1):+.1f} %" if plain.minutes else "-" for plain, own in pairs],
            [f"{100 * (own.pod_hours / plain.pod_hours - 1):+.2f} %" for plain, own in pairs],
        ]
        is_same = shipped[name] is each
        out.add_row(name, *(pair[0] if is_same else " | ".join(pair) for pair in cells))
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
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

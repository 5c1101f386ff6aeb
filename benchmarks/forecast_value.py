"""
What forecasts are worth: reactive scaling, rivals, ours and an oracle on recorded series, in one closed loop.

`python benchmarks/forecast_value.py FOLDER [--grid]`. A row a series, then a row a policy, and last one line for a
budget of 5 %, pods that take 120 s and a target of 60 %. The protocol is in docs/forecasting.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from forecast_methods import as_json, by_method, qualities
from recorded import Recorded, read_all
from report import machine, save
from rich.console import Console
from rich.table import Table
from rivals import RIVALS
from selected import screened_days, selected_floors, settings_of

from cronhpa.learning.screening import MINUTES_PER_STEP, Counts, Floats, World, simulate
from cronhpa_models.evaluation import Scores

# Scored is where plain reactive scaling is short for at least this long a day.
_STRESSED_MINUTES = 0.25
_FLOOR_MAX = 14_000
# Percent of pod-hours; the line at the end is of the second.
BUDGETS = (2, 5, 10)
GRID_BUDGETS = (5, 10, 20)
_TICKS_PER_MINUTE = 4


@dataclass(frozen=True)
class Score:
    """One policy on one series, a day of replay on average. reduction: percent fewer minutes than reactive."""

    minutes: float
    unserved: float
    pod_hours: float
    actions: float


def main() -> int:
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 140)
    several, left_out = read_all(options.traces)
    world = World()
    scores: dict[str, dict[str, Score]] = {}
    cpu: dict[str, float] = {}
    quality: dict[str, dict[str, Scores]] = {}
    for series in several:
        begun = time.process_time()
        scores[series.name] = run(series, world)
        cpu[series.name] = time.process_time() - begun
        quality[series.name] = qualities(series)
        remarks = "".join(f"; {remark}" for remark in series.remarks)
        console.print(f"{series.name}: {cpu[series.name]:.1f} s of CPU{remarks}", style="dim", highlight=False)
    console.print(by_series(scores))
    console.print(by_policy(scores))
    console.print(by_method(quality))
    grid = run_grid(several, scores, console) if options.grid else {}
    path = save(
        "forecast-value",
        {
            "machine": machine(),
            "world": asdict(world),
            "scores": {name: {policy: asdict(s) for policy, s in each.items()} for name, each in scores.items()},
            "cpu_seconds": cpu,
            "quality": as_json(quality),
            "left_out": left_out,
            "grid": grid,
        },
    )
    console.print(f"figures: {path}", highlight=False)
    for reason in left_out.values():
        console.print(f"left out: {reason}", highlight=False, soft_wrap=True)
    reduction, extra, worst, _, _ = summary(scores, ours(5))
    line = f"stressed minutes -{reduction:.1f} % pod-hours {extra:+.1f} % worst {worst:+.1f} %"
    console.print(line, highlight=False)
    return 0


def run(series: Recorded, world: World) -> dict[str, Score]:
    """Every policy on one series. Reactive comes first."""
    floors = {"reactive": np.zeros(len(series.steps) * MINUTES_PER_STEP, np.int16)}
    floors |= {name: _laid(series, rival(series) / world.target, world) for name, rival in RIVALS.items()}
    floors["oracle"] = _oracle(series, world)
    screened = screened_days(series, settings_of(series, world, 0))
    several = [settings_of(series, world, budget) for budget in BUDGETS]
    floors |= zip(map(ours, BUDGETS), selected_floors(series, screened, several, world), strict=True)
    outcomes = simulate(series.load, np.stack(list(floors.values())), world)
    found = {name: _score(series, outcomes, row) for row, name in enumerate(floors)}
    low = World(**{**asdict(world), "target": world.target - 0.1})
    found["reactive, lower target"] = _score(series, simulate(series.load, floors["reactive"][None], low), 0)
    return found


def ours(budget: int) -> str:
    return f"ours, budget {budget} %"


def by_series(scores: dict[str, dict[str, Score]]) -> Table:
    """A row a series: minutes and pod-hours of ours at 5 %, and of the oracle."""
    out = Table(title="Under-provisioned minutes a day, pod-hours against reactive")
    for heading in ("series", "reactive", "ours 5 %", "pod-hours", "ours 10 %", "pod-hours", "actions x", "oracle"):
        out.add_column(heading, justify="left" if heading == "series" else "right")
    for name, each in scores.items():
        plain, five, ten = each["reactive"], each[ours(5)], each[ours(10)]
        out.add_row(
            name,
            f"{plain.minutes:.2f}",
            f"{five.minutes:.2f}",
            f"{100 * (five.pod_hours / plain.pod_hours - 1):+.1f} %",
            f"{ten.minutes:.2f}",
            f"{100 * (ten.pod_hours / plain.pod_hours - 1):+.1f} %",
            f"{five.actions / max(plain.actions, 1e-9):.2f}",
            f"{100 * (each['oracle'].pod_hours / plain.pod_hours - 1):+.1f} %",
        )
    return out


def run_grid(several: list[Recorded], base: dict[str, dict[str, Score]], console: Console) -> dict[str, Any]:
    """Other start-up times and targets; then what a target of 80 % with a forecast costs against 60 % without."""
    grid: dict[str, Any] = {}
    for start_up, target in ((60, 0.6), (240, 0.6), (120, 0.8), (240, 0.8)):
        world = World(start_up_seconds=start_up, target=target)
        scores = {series.name: run_ours(series, world, GRID_BUDGETS) for series in several}
        name = f"start-up {start_up} s, target {100 * target:.0f} %"
        grid[name] = {each: {policy: asdict(score) for policy, score in row.items()} for each, row in scores.items()}
        for budget in GRID_BUDGETS:
            reduction, extra, worst, actions, _ = summary(scores, ours(budget))
            line = f"{name}, budget {budget} %: stressed minutes -{reduction:.1f} % pod-hours {extra:+.1f} %"
            console.print(f"{line} worst {worst:+.1f} % actions x {actions:.2f}", highlight=False)
        if (start_up, target) == (120, 0.8):
            for budget in GRID_BUDGETS:
                minutes = np.mean([row[ours(budget)].minutes for row in scores.values()])
                plain = np.mean([row["reactive"].minutes for row in base.values()])
                pods = [
                    row[ours(budget)].pod_hours / base[each]["reactive"].pod_hours - 1 for each, row in scores.items()
                ]
                line = f"target 80 % with a budget of {budget} % against 60 % without a forecast: "
                line += f"{minutes:.1f} against {plain:.1f} minutes a day at {100 * np.mean(pods):+.1f} % pod-hours"
                console.print(line, highlight=False)
    return grid


def run_ours(series: Recorded, world: World, budgets: tuple[int, ...]) -> dict[str, Score]:
    """Reactive scaling and ours alone."""
    screened = screened_days(series, settings_of(series, world, 0))
    several = [settings_of(series, world, budget) for budget in budgets]
    floors = selected_floors(series, screened, several, world)
    outcomes = simulate(series.load, np.concatenate([np.zeros_like(floors[:1]), floors]), world)
    return {name: _score(series, outcomes, row) for row, name in enumerate(["reactive", *map(ours, budgets)])}


def by_policy(scores: dict[str, dict[str, Score]]) -> Table:
    """A row a policy: stressed minutes, pod-hours and actions against reactive, means over the series."""
    out = Table(title="Against plain reactive scaling")
    out.add_column("policy")
    for heading in ("stressed minutes", "pod-hours", "worst", "actions x", "minutes a day"):
        out.add_column(heading, justify="right")
    for policy in next(iter(scores.values())):
        reduction, extra, worst, actions, minutes = summary(scores, policy)
        cells = (f"{-reduction:+.1f} %", f"{extra:+.1f} %", f"{worst:+.1f} %", f"{actions:.2f}", f"{minutes:.1f}")
        out.add_row(policy, *cells)
    return out


def summary(scores: dict[str, dict[str, Score]], policy: str) -> tuple[float, float, float, float, float]:
    """(percent fewer minutes on stressed series, percent more pod-hours on all, worst of them, actions, minutes)."""
    pairs = [(each[policy], each["reactive"]) for each in scores.values()]
    stressed = [1 - ours.minutes / plain.minutes for ours, plain in pairs if plain.minutes >= _STRESSED_MINUTES]
    extra = [ours.pod_hours / plain.pod_hours - 1 for ours, plain in pairs]
    actions = [ours.actions / max(plain.actions, 1e-9) for ours, plain in pairs]
    return (
        100 * float(np.mean(stressed or [0.0])),
        100 * float(np.mean(extra)),
        100 * max(extra),
        float(np.mean(actions)),
        float(np.mean([ours.minutes for ours, _ in pairs])),
    )


def _score(series: Recorded, outcomes: object, row: int) -> Score:
    kept = slice(series.first_step, None)
    demand = series.load.reshape(len(series.steps), -1).mean(axis=1)[kept].sum()
    under, pods, unserved, actions = (
        float(getattr(outcomes, name)[row, kept].sum(dtype=np.float64))
        for name in ("under", "pods", "unserved", "actions")
    )
    return Score(
        minutes=under / 60 / series.days,
        unserved=unserved / float(demand),
        pod_hours=pods * MINUTES_PER_STEP / 60 / series.days,
        actions=actions / series.days,
    )


def _laid(series: Recorded, expected: Floats, world: World) -> Counts:
    """
    Floors of each minute from (steps, 2) loads over what a pod may carry: the step after the newest known one, and the
    one behind it as soon as a pod asked for now would be ready for it alone.
    """
    begins = 0 if series.minutes is None else MINUTES_PER_STEP - 1  # the minute that completes a step
    whole = np.clip(np.ceil(np.nan_to_num(expected) - 1e-9), 0, _FLOOR_MAX).astype(np.int16)
    floors = np.repeat(whole[:, 0], MINUTES_PER_STEP)
    both = np.repeat(whole.max(axis=1), MINUTES_PER_STEP)
    minute = np.arange(len(floors)) % MINUTES_PER_STEP
    reach = world.delay_seconds + 60 * (minute + 1) + world.start_up_seconds
    floors = np.where(reach > 60 * MINUTES_PER_STEP + 30, both, floors)
    return np.concatenate([np.zeros(begins, np.int16), floors])[: len(floors)]


def _oracle(series: Recorded, world: World) -> Counts:
    """The largest load until a pod asked for a minute later would be ready, over 0.9 of what it carries."""
    reach = (world.delay_seconds + 60 + world.start_up_seconds) // 15 + 1
    padded = np.concatenate([series.load, np.full(reach, series.load[-1])])
    most = np.lib.stride_tricks.sliding_window_view(padded, reach + 1)[: len(series.load)].max(axis=1)
    return np.clip(np.ceil(most[::_TICKS_PER_MINUTE] / 0.9), 0, _FLOOR_MAX).astype(np.int16)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What forecasts are worth on recorded series.")
    parser.add_argument("traces", type=Path, help="a folder of CSV files, `timestamp,value`, gzipped or not")
    parser.add_argument("--grid", action="store_true", help="the other settings of docs/forecasting.md too: minutes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""
How well each method of the catalog tells the largest load of the coming step, and what it costs.

`python benchmarks/forecast_methods.py FOLDER`: a row a method over the series of a folder. Fitted daily, forecast from
each step, as in the rest of docs/engineering/forecasting.md.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
from recorded import Recorded, for_each, read_all
from report import machine, save
from rich.console import Console
from rich.table import Table

from cronhpa_models.catalog import built_in
from cronhpa_models.evaluation import Scores, scored


def main() -> int:
    parser = argparse.ArgumentParser(description="How well forecasting methods do on recorded series.")
    parser.add_argument("traces", type=Path, help="a folder of CSV files, `timestamp,value`, gzipped or not")
    console = Console(width=None if sys.stdout.isatty() else 140)
    several, left_out = read_all(parser.parse_args().traces)
    measured = {series.name: scores for series, scores in for_each(qualities, several)}
    scores_by_series = {series.name: measured[series.name] for series in several}
    for name, scores in scores_by_series.items():
        console.print(by_series(name, scores))
    console.print(by_method(scores_by_series))
    for reason in left_out.values():
        console.print(f"left out: {reason}", highlight=False, soft_wrap=True)
    path = save("forecast-methods", {"machine": machine(), "quality": as_json(scores_by_series), "left_out": left_out})
    console.print(f"figures: {path}", highlight=False)
    return 0


def qualities(series: Recorded) -> dict[str, Scores]:
    """By variant of every method, over the days of the test."""
    scores: dict[str, Scores] = {}
    for chosen in built_in():
        scores |= scored(chosen, series.steps, steps_per_day=series.steps_per_day, first=series.first_step)
    return scores


def as_json(scores_by_series: dict[str, dict[str, Scores]]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Unknown is null: NaN is no JSON."""
    return {
        series: {
            method: {name: None if math.isnan(value) else value for name, value in asdict(scores).items()}
            for method, scores in by_variant.items()
        }
        for series, by_variant in scores_by_series.items()
    }


def by_series(name: str, by_variant: dict[str, Scores]) -> Table:
    out = _table(f"{name}: the largest load of the coming step", ("coverage of 0.9", "MASE", "pinball 0.9, % of mean"))
    for method, scores in by_variant.items():
        cells = (f"{scores.coverage:.3f}", f"{scores.mase:.2f}", f"{scores.pinball:.2f}")
        out.add_row(method, *cells, f"{scores.fit_ms:.1f}", f"{scores.day_ms:.1f}")
    return out


def by_method(scores_by_series: dict[str, dict[str, Scores]]) -> Table:
    """A row a variant, over the series; what is not known of one is left out."""
    headings = ("coverage of 0.9", "least", "most", "MASE, mean", "median", "pinball 0.9, % of mean")
    out = _table("The largest load of the coming step, all series", headings)
    for method in (variant for chosen in built_in() for variant in chosen.variants):
        scores = [by_variant[method] for by_variant in scores_by_series.values()]
        covered, errors, losses, fits, days = (
            np.array([value for of_series in scores if not math.isnan(value := getattr(of_series, name))] or [np.nan])
            for name in ("coverage", "mase", "pinball", "fit_ms", "day_ms")
        )
        out.add_row(
            method,
            f"{covered.mean():.3f}",
            f"{covered.min():.3f}",
            f"{covered.max():.3f}",
            f"{errors.mean():.2f}",
            f"{np.median(errors):.2f}",
            f"{np.median(losses):.2f}",
            f"{np.median(fits):.1f}",
            f"{np.median(days):.1f}",
        )
    return out


def _table(title: str, headings: tuple[str, ...]) -> Table:
    out = Table(title=title)
    out.add_column("method", no_wrap=True)
    for heading in (*headings, "a fit, ms", "a day's forecasts, ms"):
        out.add_column(heading, justify="right")
    return out


if __name__ == "__main__":
    sys.exit(main())

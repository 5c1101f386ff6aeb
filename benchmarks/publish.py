"""
Writes the newest figures of `make bench-forecast` into docs/forecasting.md, between its markers.

`python benchmarks/publish.py [FIGURES.json]`; the default is what the bench wrote last. Beside the page it writes what
the tables were made of and what a few days of the shipped path give now: tests tell by them whether the tables are
still what the code gives. Exit code 1 without figures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import probe
from closed_loop import BUDGETS, REACTIVE, ClosedLoopScore, Scores, halves, ours, summary

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "forecasting.md"
PUBLISHED = PROJECT / "docs" / "forecasting-figures.json"
TRACES = PROJECT / "benchmarks" / "traces"
FIGURES = PROJECT / "build" / "bench" / "forecast-value.json"
BEGIN, END = "<!-- written by benchmarks/publish.py: begin -->", "<!-- end -->"


def tables(scores: Scores) -> str:
    """A row a policy, then a row a series."""
    lines = [
        "| policy | stressed minutes | pod-hours, mean / worst | actions, mean / most | even, odd places |",
        "| --- | --- | --- | --- | --- |",
    ]
    for policy in next(iter(scores.values())):
        of_all = summary(scores, policy)
        by_half = ", ".join(f"{-summary(half, policy).reduction:+.1f} %" for half in halves(scores) if half)
        lines.append(
            f"| {policy} | {-of_all.reduction:+.1f} % | {of_all.extra:+.1f} / {of_all.worst:+.1f} % "
            f"| {of_all.actions:.2f} / {of_all.actions_most:.2f} x | {by_half} |"
        )
    budgets = " | ".join(f"{budget} % | pod-hours" for budget in BUDGETS)
    lines += ["", f"| series | reactive, min a day | {budgets} |", "| --- | --- |" + " --- | --- |" * len(BUDGETS)]
    for name, each in scores.items():
        plain = each[REACTIVE]
        cells = [
            f"{each[ours(budget)].minutes:.2f} | {100 * (each[ours(budget)].pod_hours / plain.pod_hours - 1):+.1f} %"
            for budget in BUDGETS
        ]
        lines.append(f"| {name} | {plain.minutes:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_whom(decided: list[str], of_all: list[str], budgets: list[int]) -> str:
    """What was decided by `decide`, in a sentence."""
    if not decided:
        return "All of it by the vectorized autoscaler."
    named = ", ".join(f"{budget} %" for budget in budgets)
    left = [name for name in of_all if name not in decided]
    others = (
        f" {', '.join(left)} are replayed faster than their calendar, by the vectorized autoscaler." if left else ""
    )
    return f"Reactive scaling and ours with a budget of {named} by `decide` at every reconcile.{others}"


def written(page: str, figures: dict[str, Any]) -> str:
    """The page with these figures between its markers."""
    scores = scores_of(figures["shipped"])
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    whom = by_whom(figures["decided"], list(scores), figures["budgets"])
    return f"{before}{BEGIN}\n\n{whom}\n\n{tables(scores)}\n\n{END}{after}"


def scores_of(figures: dict[str, Any]) -> Scores:
    return {
        name: {policy: ClosedLoopScore(**score) for policy, score in each.items()} for name, each in figures.items()
    }


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    if not path.exists():
        print(f"{path}: no figures there: run make bench-forecast first", file=sys.stderr)
        return 1
    figures = json.loads(path.read_text())
    kept = {name: figures[name] for name in ("shipped", "decided", "budgets")}
    PUBLISHED.write_text(json.dumps({**kept, "probe": probe.probe(TRACES)}, indent=1) + "\n")
    PAGE.write_text(written(PAGE.read_text(), kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())

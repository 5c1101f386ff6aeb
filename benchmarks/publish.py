"""
Writes the newest figures of `make bench-forecast` into docs/forecasting.md, between its markers.

`python benchmarks/publish.py [FIGURES.json]`; the default is what the bench wrote last. Exit code 1 without figures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from closed_loop import BUDGETS, REACTIVE, ClosedLoopScore, Scores, halves, ours, summary

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "forecasting.md"
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


def main() -> int:
    figures = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    if not figures.exists():
        print(f"{figures}: no figures there: run make bench-forecast first", file=sys.stderr)
        return 1
    scores = {
        name: {policy: ClosedLoopScore(**score) for policy, score in each.items()}
        for name, each in json.loads(figures.read_text())["scores"].items()
    }
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables(scores)}\n\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

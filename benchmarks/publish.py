"""
Writes the newest figures of `make bench-forecast` into docs/engineering/forecasting.md, between its markers.

`python benchmarks/publish.py [FIGURES.json]`; the default is what the bench wrote last. Slower pods and a higher target
are those of the last run with `--grid`, all by columns; `--grid --columns` refreshes these alone. Beside the page it
writes the figures of the tables and those of a few days of the shipped path: tests tell by them whether the tables are
stale. Exit code 1 without figures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import probe
from closed_loop import BUDGETS, REACTIVE, STRESSED_MINUTES, ClosedLoopScore, Scores, halves, ours, summary, traded

from cronhpa.core.forecasts.budget import BUDGET_LEVELS, EXHAUSTED_AT

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "engineering" / "forecasting.md"
PUBLISHED = PROJECT / "docs" / "engineering" / "forecasting-figures.json"
TRACES = PROJECT / "benchmarks" / "traces"
FIGURES = PROJECT / "build" / "bench" / "forecast-value.json"
BEGIN, END = "<!-- written by benchmarks/publish.py: begin -->", "<!-- end -->"
BEGIN_SETTINGS = "<!-- written by benchmarks/publish.py: settings -->"
BASE, SLOW, HIGH = "start-up 120 s", "start-up 240 s", "target 80 %"
_BUDGET = 5


def tables(scores: Scores) -> str:
    """A row a policy, then a row a series. Units are in the headings."""
    lines = [
        "| policy | stressed minutes, % | even, odd places, % | pod-hours, mean / worst, % | actions x, mean / most |",
        "|---|---|---|---|---|",
    ]
    for policy in next(iter(scores.values())):
        of_all = summary(scores, policy)
        by_half = ", ".join(f"{-summary(half, policy).reduction:+.1f}" for half in halves(scores) if half)
        lines.append(
            f"| {policy} | {-of_all.reduction:+.1f} | {by_half} | {of_all.extra:+.1f} / {of_all.worst:+.1f} "
            f"| {of_all.actions:.2f} / {of_all.actions_most:.2f} |"
        )
    budgets = " | ".join(f"{budget} % | pod-hours, %" for budget in BUDGETS)
    lines += ["", f"| series | reactive, min a day | {budgets} |", "|---|---|" + "---|---|" * len(BUDGETS)]
    for name, policy_scores in scores.items():
        plain = policy_scores[REACTIVE]
        cells = [
            f"{policy_scores[ours(budget)].minutes:.2f} | "
            f"{100 * (policy_scores[ours(budget)].pod_hours / plain.pod_hours - 1):+.1f}"
            for budget in BUDGETS
        ]
        lines.append(f"| {name} | {plain.minutes:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def settings_table(base: Scores, slow: Scores, high: Scores) -> str:
    """
    Mean, least and most of the stressed series: minutes with pods that take 120 s and 240 s, at a budget of 5 %, and
    the pod-hours of the higher target where it has no more minutes than the lower one without a forecast.
    """
    lines = ["| stressed series | 120 s, % | 240 s, % | at 80 %: pod-hours, % |", "|---|---|---|---|"]
    rows: list[list[float | None]] = []
    for name, policy_scores in base.items():
        if policy_scores[REACTIVE].minutes >= STRESSED_MINUTES and name in slow:
            pairs = [(scores[name][ours(_BUDGET)], scores[name][REACTIVE]) for scores in (base, slow)]
            changes = [100 * (own.minutes / plain.minutes - 1) for own, plain in pairs]
            rows.append([*changes, traded(base, high, [name]) if name in high else None])
    columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    for name, of_column in (("mean", mean), ("least", min), ("most", max)):
        cells = [f"{of_column(column):+.1f}" if column else "-" for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def limits() -> list[object]:
    """The limits of the budget: a few days of the probe do not reach them."""
    return [*map(list, BUDGET_LEVELS), EXHAUSTED_AT]


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
    whom = by_whom(figures["decided"], list(scores), figures["budgets"])
    page = between(page, BEGIN, f"{whom}\n\n{tables(scores)}")
    return between(
        page, BEGIN_SETTINGS, settings_table(*(scores_of(figures["settings"][name]) for name in (BASE, SLOW, HIGH)))
    )


def shown(figures: dict[str, Any], published: dict[str, Any]) -> dict[str, Any]:
    """
    What the tables show: the figures of a run, and the published ones where that run has none.

    A run by columns alone has no figures by `decide`: the published ones stay, with the limits and the probe that tell
    whether they are stale. A run without the grid has no figures of other settings.
    """
    if figures["decided"]:
        page = {name: figures[name] for name in ("shipped", "decided", "budgets")}
    else:
        page = {name: published[name] for name in ("shipped", "decided", "budgets", "limits", "probe")}
    page["settings"] = published["settings"]
    if "scores" in figures["grid"]:
        measured = {BASE: figures["scores"]} | figures["grid"]["scores"]
        page["settings"] = {name: _ours(measured[name]) for name in (BASE, SLOW, HIGH)}
    return page


def between(page: str, begin: str, text: str) -> str:
    """The page with this text from a marker to the end of its part."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(END)
    return f"{before}{begin}\n\n{text}\n\n{END}{after}"


def _ours(figures: dict[str, Any]) -> dict[str, Any]:
    """Of each series reactive scaling and ours alone."""
    return {
        name: {
            policy: score for policy, score in policy_scores.items() if policy == REACTIVE or policy.startswith("ours")
        }
        for name, policy_scores in figures.items()
    }


def scores_of(figures: dict[str, Any]) -> Scores:
    return {
        name: {policy: ClosedLoopScore(**score) for policy, score in policy_scores.items()}
        for name, policy_scores in figures.items()
    }


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    if not path.exists():
        print(f"{path}: no figures there: run make bench-forecast first", file=sys.stderr)
        return 1
    figures = shown(json.loads(path.read_text()), json.loads(PUBLISHED.read_text()))
    if "probe" not in figures:
        figures |= {"limits": limits(), "probe": probe.probe(TRACES)}
    PUBLISHED.write_text(json.dumps(figures, indent=1) + "\n")
    PAGE.write_text(written(PAGE.read_text(), figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())

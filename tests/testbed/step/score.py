"""What a step cost: the first reaction, the time to enough Ready pods, the seconds short, the staircase. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Any

from testbed.step.scenario import CORES_AFTER, CORES_BEFORE, LABELS, PODS_AFTER


@dataclass(frozen=True)
class Seen:
    """A copy at a moment. second: since its own step, negative before it."""

    second: float
    replicas: int
    ready: int

    @property
    def is_short(self) -> bool:
        """Whether the load is above what the ready pods carry at all of their request, a core each."""
        return (CORES_AFTER if self.second >= 0 else CORES_BEFORE) > self.ready


@dataclass(frozen=True)
class Outcome:
    """
    first: seconds from the step to the first scale write. enough: to as many Ready pods as the target needs; None: not
    seen. short: seconds in which the load was above what the ready pods carry. stairs: (second, replicas) of each
    write.
    """

    first: float | None
    enough: float | None
    short: float
    stairs: tuple[tuple[float, int], ...]


def outcome(seen: Sequence[Seen]) -> Outcome:
    """The outcome of one copy; each moment holds until the next one."""
    stairs = tuple(
        (after.second, after.replicas) for before, after in pairwise(seen) if after.replicas > before.replicas
    )
    enough = next((moment.second for moment in seen if moment.ready >= PODS_AFTER), None)
    return Outcome(
        first=stairs[0][0] if stairs else None,
        # Pods that are there before the step are there in time.
        enough=None if enough is None else max(enough, 0.0),
        short=sum(after.second - before.second for before, after in pairwise(seen) if before.is_short),
        stairs=stairs,
    )


def middle(outcomes: Sequence[Outcome]) -> int:
    """The number of the copy whose seconds short are the median, the lower one of two."""
    ranked = sorted(range(len(outcomes)), key=lambda number: outcomes[number].short)
    return ranked[ceil(len(ranked) / 2) - 1]


def table(outcomes: Mapping[str, Sequence[Outcome]]) -> list[tuple[str, ...]]:
    """Rows of cells, the head first: median and worst of the copies, and the staircase of the middle one."""
    rows: list[tuple[str, ...]] = [("", "first reaction", f"{PODS_AFTER} pods Ready", "short of pods", "staircase")]
    for name, run_outcome in outcomes.items():
        stairs = run_outcome[middle(run_outcome)].stairs
        rows.append(
            (
                LABELS[name],
                _spread([outcome.first for outcome in run_outcome]),
                _spread([outcome.enough for outcome in run_outcome]),
                _spread([outcome.short for outcome in run_outcome]),
                ", ".join(f"{replicas} at {seconds_text(second)}" for second, replicas in stairs) or "none",
            )
        )
    return rows


def as_text(rows: Sequence[Sequence[str]]) -> str:
    """The table in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def as_json(seen: Mapping[str, Sequence[Sequence[Seen]]], outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    return {
        name: [
            {
                "first": step_outcome.first,
                "enough": step_outcome.enough,
                "short": step_outcome.short,
                "stairs": step_outcome.stairs,
                "timeline": [(round(moment.second, 2), moment.replicas, moment.ready) for moment in timeline],
            }
            for step_outcome, timeline in zip(outcomes[name], seen[name], strict=True)
        ]
        for name in outcomes
    }


def _spread(values: Sequence[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return f"not within the run ({len(values) - len(numbers)} of {len(values)})"
    if not any(numbers):
        return "0 s"
    return f"{seconds_text(median(numbers))}, at worst {seconds_text(max(numbers))}"


def seconds_text(value: float) -> str:
    """Of an instant before the step: so many seconds before."""
    text = f"{abs(value):.1f} s" if abs(value) < 10 else f"{abs(value):.0f} s"
    return f"{text} before" if value < 0 else text

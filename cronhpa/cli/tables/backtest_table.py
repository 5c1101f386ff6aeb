"""The outcome of a backtest, as a table and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from cronhpa.cli.tables.time_format import format_length, format_moment
from cronhpa.core.model.decision import SourceRef
from cronhpa.core.model.instant import SECOND, format_instant
from cronhpa.core.model.prices import money
from cronhpa.core.model.printable import printable
from cronhpa.core.model.quantity import MILLI, format_load
from cronhpa.core.model.spec import Span, Spec
from cronhpa.forecasting.backtest import name_of
from cronhpa.simulation.compare import Variant
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import Run
from cronhpa.simulation.score import Score
from cronhpa.simulation.target import Environment

# Characters; no row has as many.
_ROW_MAX = 200


@dataclass(frozen=True)
class Backtest:
    """One object under one recorded load."""

    label: str
    spec: Spec
    """The spec as it is run."""
    load: Load
    environment: Environment
    span: Span
    zone: str
    """The zone of the times that are shown."""
    runs: Mapping[Variant, Run] = field(default_factory=dict)
    """The results by variant, in the order to show them."""
    forecasts: str = ""
    """A description of the forecasts."""
    price: float | None = None
    """Of a pod by the hour; None if it is not known."""

    @property
    def compared_with(self) -> Variant:
        """The variant that the others are compared with: metrics alone, or else the first."""
        return next(iter(self.runs))

    @property
    def pod_load(self) -> str:
        """The load that one pod can carry, for people."""
        return format_load(self.environment.capacity, next(map(name_of, self.spec.metrics), ""))


def as_table(backtest: Backtest, width: int) -> str:
    """Lines for people: the object and the span, a row for each variant, and the environment."""
    costs = () if backtest.price is None else ("cost",)
    heads = ("", "under-provisioned", "unserved", "pod-hours", *costs, "actions", "most pods")
    table = Table(*heads, box=None, padding=(0, 2, 0, 0))
    for column in table.columns:
        column.no_wrap = True
    base = backtest.runs[backtest.compared_with].score
    for variant, run in backtest.runs.items():
        table.add_row(variant.value, *_row(run.score, base, backtest.price, is_base=variant is backtest.compared_with))
    # A row that is too long is for the terminal to wrap: rich would cut figures.
    console = Console(highlight=False, markup=False, emoji=False, width=_ROW_MAX)
    with console.capture() as captured:
        console.print(table)
    span = backtest.span
    length = format_length(span.end - span.begin)
    begin, end = (format_moment(at, backtest.zone) for at in (span.begin, span.end))
    below = [
        *(f"{variant} decided by: {_deciders(run.score)}" for variant, run in backtest.runs.items()),
        _environment(backtest),
    ]
    if backtest.forecasts:
        below.append(f"Forecasts: {backtest.forecasts}.")
    if base.unknown:
        unknown = format_length(base.unknown)
        below.append(f"The load of {unknown} is not known: its pods count, its shortages do not.")
    wrapped = (line for text in below for line in textwrap.wrap(printable(text), width, subsequent_indent="  "))
    lines = (f"{printable(backtest.label)}: {begin} to {end}, {length}", *captured.get().splitlines(), *wrapped)
    return "\n".join(line.rstrip() for line in lines)


def as_json(backtest: Backtest) -> str:
    """An object with the span, the environment and a score for each variant; times in UTC, lengths in seconds."""
    environment = backtest.environment
    return json.dumps(
        {
            "object": backtest.label,
            "from": format_instant(backtest.span.begin),
            "to": format_instant(backtest.span.end),
            "conditions": {
                "podCapacity": environment.capacity,
                "podRequestMilli": dict(environment.requests),
                "startUpSeconds": environment.start_up / SECOND,
                "metricDelaySeconds": environment.metric_delay / SECOND,
                "metricWindowSeconds": environment.metric_window / SECOND,
                "syncPeriodSeconds": backtest.spec.options.sync_period / SECOND,
            },
            **({"forecasts": backtest.forecasts} if backtest.forecasts else {}),
            "variants": {variant.value: _score(run.score, backtest.price) for variant, run in backtest.runs.items()},
        },
        indent=2,
    )


def _row(score: Score, base: Score, price: float | None, *, is_base: bool) -> list[str]:
    minutes = f"{score.under_provisioned_minutes:,.1f} min"
    if not is_base and base.under_provisioned:
        minutes += f" ({100 * (score.under_provisioned - base.under_provisioned) / base.under_provisioned:+.0f} %)"
    pod_hours = f"{score.pod_hours:,.1f}"
    if not is_base and base.pod_time:
        pod_hours += f" ({100 * (score.pod_time / base.pod_time - 1):+.1f} %)"
    costs = [] if price is None else [money(score.pod_hours * price)]
    unserved = f"{score.unserved_percent:.3f} %"
    return [minutes, unserved, pod_hours, *costs, f"{score.actions:,}", f"{score.most_replicas:,}"]


def _deciders(score: Score) -> str:
    """The sources with their shares of the decisions, the largest share first."""
    reconciliations = sum(score.reconciliations_by.values())
    shares = sorted(score.reconciliations_by.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{by or 'nobody'} {100 * count / reconciliations:.1f} %" for by, count in shares)


def _environment(backtest: Backtest) -> str:
    environment = backtest.environment
    requests = "".join(
        f", requests {format_load(amount / MILLI, name)} {name}" for name, amount in environment.requests.items()
    )
    return (
        f"A pod carries {backtest.pod_load}{requests}, is ready after {format_length(environment.start_up)}; "
        f"metrics are means of {format_length(environment.metric_window)}, "
        f"{format_length(environment.metric_delay)} old."
    )


def _source(by: SourceRef | None) -> str:
    return "" if by is None else str(by)


def _score(score: Score, price: float | None) -> dict[str, Any]:
    return {
        "underProvisionedMinutes": round(score.under_provisioned_minutes, 3),
        "unservedLoadHours": round(score.unserved_hours, 6),
        "unservedPercent": round(score.unserved_percent, 4),
        "podHours": round(score.pod_hours, 3),
        **({} if price is None else {"cost": round(score.pod_hours * price, 2)}),
        "scaleActions": score.actions,
        "mostReplicas": score.most_replicas,
        "unknownSeconds": round(score.unknown / SECOND),
        "reconciliationsDecidedBy": {_source(by): count for by, count in score.reconciliations_by.items()},
        "actionsDecidedBy": {_source(by): count for by, count in score.actions_by.items()},
        "underProvisioned": [
            {"from": format_instant(span.begin), "seconds": round((span.end - span.begin) / SECOND, 1)}
            for span in score.stretches
        ],
    }

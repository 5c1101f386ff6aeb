"""The answer of a report as one HTML page that loads nothing: fit to be mailed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cronhpa.cli.tables.time_format import format_length
from cronhpa.core.model.instant import HOUR, MINUTE, Nanoseconds, format_instant
from cronhpa.reporting.cluster_report import (
    ClusterReport,
    days,
    doubts_of,
    idle_hours,
    minutes,
    nothing_to_gain,
    peak_text,
    sentence,
)
from cronhpa.reporting.reported_target import StartUpPhases
from cronhpa.reporting.suggestions import NEEDED_MINUTES, JudgedTarget
from cronhpa.simulation.run import ReplicaChange

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _LABEL = 900, 180, 40, 20, 60


def as_html(answer: ClusterReport) -> str:
    """The page. Texts of the cluster are escaped."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("cronhpa.cli.report", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    worthwhile = [one for one in answer.judged if one.best is not None]
    others = [one for one in answer.judged if one.best is None]
    return environment.get_template("report.html.j2").render(
        count=len(answer.judged),
        rows=[_row(one) for one in answer.judged],
        worthwhile=[_worth(one, answer) for one in worthwhile],
        others=[(one.target.label, nothing_to_gain(one), one.doubts) for one in others],
        findings=[(one.target.label, text) for one in answer.judged for text in one.findings],
        peaks=[(one.target.label, peak_text(peak)) for one in answer.judged for peak in one.peaks],
        left_out=[(one.autoscaler, one.why) for one in answer.left_out],
        remarks=answer.remarks,
        from_time=format_instant(min((one.span.begin for one in answer.judged), default=0)),
        to_time=format_instant(max((one.span.end for one in answer.judged), default=0)),
        short=sum(one.today.under_provisioned_minutes for one in answer.judged),
        short_after=sum((one.best.score if one.best else one.today).under_provisioned_minutes for one in answer.judged),
        pods=sum(one.today.pod_hours for one in answer.judged),
        pods_after=sum((one.best.score if one.best else one.today).pod_hours for one in answer.judged),
    )


def _row(judged: JudgedTarget) -> dict[str, str]:
    today, start, happened = judged.today, judged.target.start_up, judged.happened
    idle = 100 * idle_hours(judged) / today.pod_hours if today.pod_hours else 0.0
    return {
        "target": judged.target.label,
        "autoscaler": judged.target.autoscaler,
        "short": f"{minutes(today)} min in {days(judged)}",
        "unserved": f"{today.unserved_percent:.2f} %",
        "pods": f"{today.pod_hours:,.0f}",
        "idle": f"{idle:.0f} %",
        "happened": "-" if happened is None else f"{happened.minutes:,.0f} min, {happened.pod_hours:,.0f}",
        "start": "-" if start is None else _start(start),
    }


def _start(start: StartUpPhases) -> str:
    pulling = "" if start.pulling is None else f" (images {format_length(start.pulling)})"
    return (
        f"{format_length(start.total)}: scheduled {format_length(start.scheduling)}, created "
        f"{format_length(start.creating)}{pulling}, Ready {format_length(start.becoming_ready)}"
    )


def _worth(judged: JudgedTarget, answer: ClusterReport) -> dict[str, Any]:
    best = judged.best
    assert best is not None, "only targets with a suggestion are drawn"
    return {
        "target": judged.target.label,
        "sentence": sentence(judged, best, answer.prices),
        "why": best.why,
        "doubts": [*doubts_of(judged, best), *judged.doubts],
        "others": [
            (sentence(judged, one, answer.prices), doubts_of(judged, one))
            for one in judged.suggestions
            if one is not best
        ],
        "picture": _picture(judged),
    }


def _picture(judged: JudgedTarget) -> dict[str, Any]:
    """The pods that the load needs, those of today's autoscaler and those of the suggestion, as paths of an SVG."""
    span, best = judged.span, judged.best
    assert best is not None, "only targets with a suggestion are drawn"
    top = max(judged.today.most_replicas, best.score.most_replicas, *judged.needed, 1)
    length = span.end - span.begin

    def x(at: Nanoseconds) -> float:
        return _LEFT + (_WIDTH - _LEFT) * (at - span.begin) / length

    def y(pods: float) -> float:
        return (_HEIGHT - _BOTTOM) * (1 - pods / top / 1.05)

    area = [(x(span.begin), y(0))]
    area += [(x(span.begin + place * NEEDED_MINUTES * MINUTE), y(pods)) for place, pods in enumerate(judged.needed)]
    area.append((x(span.end), y(0)))
    ticks = range(-(-span.begin // (24 * HOUR)) * 24 * HOUR, span.end, 24 * HOUR)
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "load": _path(area) + "Z",
        "today": _path(_steps(judged.week.changes, x, y, x(span.end))),
        "best": _path(_steps(best.run.changes, x, y, x(span.end))),
        "top": f"{top:.0f}",
        "top_y": f"{y(top):.1f}",
        "base_y": f"{y(0):.1f}",
        # A label that the edge would cut is left out.
        "ticks": [(f"{x(at):.1f}", format_instant(at)[:10] if x(at) < _WIDTH - _LABEL else "") for at in ticks],
    }


def _steps(changes: Sequence[ReplicaChange], x: Any, y: Any, end: float) -> Iterator[tuple[float, float]]:
    """Ready pods over time."""
    before = None
    for change in changes:
        if before is not None:
            yield x(change.at), before
        before = y(change.ready)
        yield x(change.at), before
    if before is not None:
        yield end, before


def _path(points: Any) -> str:
    return "M" + "L".join(f"{left:.1f},{down:.1f}" for left, down in points)

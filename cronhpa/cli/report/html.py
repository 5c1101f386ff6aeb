"""The answer of a report as one HTML page that loads nothing: fit to be mailed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
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

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _LABEL = 900, 180, 40, 20, 60
# The others are folded: a page is read from its top.
_OPEN_PICTURES = 10


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
        open_pictures=_OPEN_PICTURES,
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

    def x(at: Nanoseconds) -> int:
        return round(_LEFT + (_WIDTH - _LEFT) * (at - span.begin) / length)

    def y(pods: float) -> int:
        return round((_HEIGHT - _BOTTOM) * (1 - pods / top / 1.05))

    needed = [(x(span.begin + place * NEEDED_MINUTES * MINUTE), y(pods)) for place, pods in enumerate(judged.needed)]
    base = y(0)
    ticks = range(-(-span.begin // (24 * HOUR)) * 24 * HOUR, span.end, 24 * HOUR)
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "load": f"M{_LEFT} {base}" + "".join(f"L{left} {down}" for left, down in needed) + f"L{_WIDTH} {base}Z",
        "today": _steps([(x(change.at), y(change.ready)) for change in judged.week.changes]),
        "best": _steps([(x(change.at), y(change.ready)) for change in best.run.changes]),
        "top": f"{top:.0f}",
        "top_y": y(top),
        "base_y": base,
        # A label that the edge would cut is left out.
        "ticks": [(x(at), format_instant(at)[:10] if x(at) < _WIDTH - _LABEL else "") for at in ticks],
    }


def _steps(points: Sequence[tuple[int, int]]) -> str:
    """
    A line that keeps each height until the next point. Of the points of one column of pixels, the lowest, the highest
    and the last are drawn: a week may have ten thousand, for each of hundreds of targets.
    """
    (left, down), *_ = points
    path = f"M{left} {down}"
    for column, within in groupby(points, lambda point: point[0]):
        heights = [height for _, height in within]
        path += f"H{column}" if column != left else ""
        for height in (min(heights), max(heights), heights[-1]):
            path += f"V{height}" if height != down else ""
            down = height
    return f"{path}H{_WIDTH}"

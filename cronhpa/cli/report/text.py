"""The answer of a report for a terminal: the targets, what is worth doing, nothing to gain, what is left out."""

from __future__ import annotations

import textwrap

from cronhpa.cli.tables.time_format import format_length
from cronhpa.cli.terminal.console import aligned
from cronhpa.core.model.printable import printable
from cronhpa.reporting.cluster_report import (
    ClusterReport,
    doubts_of,
    idle_hours,
    minutes,
    nothing_to_gain,
    peak_text,
    sentence,
)
from cronhpa.reporting.suggestions import JudgedTarget

_HEAD = ("TARGET", "AUTOSCALER", "SHORT", "UNSERVED", "POD-HOURS", "IDLE")
_HEAD_WIDE = ("HAPPENED", "MOST", "START", "SCHEDULED", "CREATED", "PULLED", "READY")


def as_text(answer: ClusterReport, width: int, *, is_wide: bool = False) -> str:
    """Lines for people; each is printable."""
    lines: list[str] = []
    worthwhile = [one for one in answer.judged if one.best is not None]
    others = [one for one in answer.judged if one.best is None]
    if answer.judged:
        lines += [*map(printable, _table(answer.judged, is_wide=is_wide)), ""]
    if worthwhile:
        lines.append("Worth doing, most worth first:")
        for number, judged in enumerate(worthwhile, 1):
            lines += _worth_doing(number, judged, answer, width)
    elif answer.judged:
        lines.append("Nothing to gain for any of the targets that were judged:")
    if worthwhile and others:
        lines += ["", "Nothing to gain:"]
    for one in others:
        lines += _wrapped(f"{one.target.label}: {nothing_to_gain(one)}", width)
        lines += [line for doubt in one.doubts for line in _wrapped(f"doubt: {doubt}", width, indent=3)]
    found = [(one, text) for one in answer.judged for text in one.findings]
    if found:
        lines += ["", "What they have already:"]
        lines += [line for one, text in found for line in _wrapped(f"{one.target.label}: {text}", width)]
    peaks = [(one, peak) for one in answer.judged for peak in one.peaks]
    if peaks:
        lines += ["", "Peaks that came once:"]
        lines += [line for one, peak in peaks for line in _wrapped(f"{one.target.label}: {peak_text(peak)}", width)]
    if answer.left_out or answer.remarks:
        lines += ["", "Left out:"]
        lines += [line for one in answer.left_out for line in _wrapped(f"{one.autoscaler}: {one.why}", width)]
        lines += [line for remark in answer.remarks for line in _wrapped(remark, width)]
    return "\n".join(lines)


def _worth_doing(number: int, judged: JudgedTarget, answer: ClusterReport, width: int) -> list[str]:
    best = judged.best
    assert best is not None, "only targets with a suggestion are worth it"
    lines = _wrapped(f"{number}. {judged.target.label}: {sentence(judged, best, answer.prices)}", width)
    lines += _wrapped(f"because {best.why}", width, indent=3)
    for doubt in (*doubts_of(judged, best), *judged.doubts):
        lines += _wrapped(f"doubt: {doubt}", width, indent=3)
    for other in judged.suggestions:
        if other is not best:
            lines += _wrapped(f"or {sentence(judged, other, answer.prices)}", width, indent=3)
            lines += [
                line for doubt in doubts_of(judged, other) for line in _wrapped(f"doubt: {doubt}", width, indent=6)
            ]
    return lines


def _table(judged: tuple[JudgedTarget, ...], *, is_wide: bool) -> list[str]:
    rows = [[*_HEAD, *(_HEAD_WIDE if is_wide else ())]]
    for one in judged:
        today = one.today
        idle = 100 * idle_hours(one) / today.pod_hours if today.pod_hours else 0.0
        row = [
            one.target.label,
            one.target.autoscaler,
            f"{minutes(today)} min",
            f"{today.unserved_percent:.2f} %",
            f"{today.pod_hours:,.0f}",
            f"{idle:.0f} %",
        ]
        if is_wide:
            happened, start = one.happened, one.target.start_up
            row.append("-" if happened is None else f"{happened.minutes:,.0f} min, {happened.pod_hours:,.0f}")
            row.append(str(today.most_replicas))
            phases = (
                (None,) * 5
                if start is None
                else (start.total, start.scheduling, start.creating, start.pulling, start.becoming_ready)
            )
            row += ["-" if length is None else format_length(length) for length in phases]
        rows.append(row)
    return aligned(rows)


def _wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    initial, further = " " * indent, " " * (indent or 2)
    return textwrap.wrap(printable(text), width, initial_indent=initial, subsequent_indent=further)

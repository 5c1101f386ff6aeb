"""An object's past as commands print it: one decision, a timeline, both as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from cronhpa.api.explained.explanation_text import explained, folded
from cronhpa.cli.tables.time_format import format_clock, format_length, format_moment, local
from cronhpa.core.model.instant import Nanoseconds, format_instant
from cronhpa.core.model.printable import printable
from cronhpa.core.schedules.wall_clock import known_zone
from cronhpa.history.past.past_answers import DecisionAnswer, DecisionChange, TimelineAnswer
from cronhpa.history.past.past_decision import decided_spec
from cronhpa.history.past.points import POINT_STEP, Point


def body_of(answer: DecisionAnswer) -> dict[str, Any]:
    """The object as it was after the decision, as the API would have served it."""
    body: dict[str, Any] = msgspec.json.decode(answer.decision.body)
    return body


def zone_of(body: dict[str, Any]) -> str:
    return known_zone((body.get("spec") or {}).get("timeZone"))


# In less the table would break its cells within words and times.
_TABLE_WIDTH_MIN = 72


def decision_lines(answer: DecisionAnswer, zone: str, width: int) -> list[str]:
    """The time of the decision, then the text of `cronhpa explain` at that time; wrapped at `width`, 80 at most."""
    body = body_of(answer)
    text = (
        "still the newest"
        if answer.until is None
        else f"in force until {_when(answer.until, answer.decision.at, zone)}"
    )
    left_out = _left_out(answer.decision.left_out)
    heading = f"Decided {format_moment(answer.decision.at, zone)}, {text}{left_out}:"
    lines = explained(body, answer.decision.at, spec=decided_spec(answer.decision))
    return [part for line in (heading, *lines) for part in folded(line, width)]


def decision_json(answer: DecisionAnswer) -> str:
    return _json(
        {
            "decidedAt": format_instant(answer.decision.at),
            "until": None if answer.until is None else format_instant(answer.until),
            "keptFrom": format_instant(answer.first),
            "release": answer.decision.release,
            "changesLeftOut": answer.decision.left_out,
            "object": body_of(answer),
            "inputs": msgspec.json.decode(answer.decision.inputs),
        }
    )


def timeline_lines(
    label: str, answer: TimelineAnswer, begin: Nanoseconds, end: Nanoseconds, zone: str, width: int
) -> list[str]:
    """A heading, a row for each change below its day, and a summary of the points. In less than 72 columns the reason
    of a change stands below it."""
    changes = [*([answer.before] if answer.before is not None else []), *answer.changes]
    span = f"{format_moment(begin, zone)} to {_when(end, begin, zone)}, {format_length(end - begin)}"
    heading = [*folded(f"{printable(label)}: {span}", width), *_kept_from(answer, begin, zone, width)]
    if not changes:
        return [*heading, "  nothing is kept of this time"]
    rows = _table(answer, changes, zone, width) if width >= _TABLE_WIDTH_MIN else _list(answer, changes, zone, width)
    below = (*_points_told(answer.points), *_rest(answer))
    return [*heading, *rows, *(part for line in below for part in folded(line, width))]


def _table(answer: TimelineAnswer, changes: list[DecisionChange], zone: str, width: int) -> list[str]:
    table = Table("TIME", "REPLICAS", "DECIDED BY", "WHY", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for cells in _rows(answer, changes, zone):
        table.add_row(*cells)
    # Without colours: whoever prints the lines shows escapes as text.
    console = Console(highlight=False, markup=False, emoji=False, color_system=None, width=width)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


def _list(answer: TimelineAnswer, changes: list[DecisionChange], zone: str, width: int) -> list[str]:
    lines: list[str] = []
    for first, *cells in _rows(answer, changes, zone):
        why = [f"  {cells.pop()}"] if cells else []
        lines += [part for line in ("  ".join((first, *cells)), *why) for part in folded(line, width)]
    return lines


def _rows(answer: TimelineAnswer, changes: list[DecisionChange], zone: str) -> Iterator[tuple[str, ...]]:
    """(a day) where one begins, and (time, count, decided by, why) for each change."""
    # The decision in force at the begin is no change of the count.
    befores = [None if answer.before is None else answer.before.desired, *(change.desired for change in changes)]
    day = None
    for before, change in zip(befores, changes, strict=False):
        date = local(change.at, zone).date()
        if date != day:
            # On a line of its own: the reasons have more room.
            yield (f"{date:%a} {date.isoformat()}",)
        day = date
        decider = printable(change.decided_by or "-")
        yield format_clock(change.at, zone), _count(before, change), decider, _why(change)


def timeline_json(label: str, answer: TimelineAnswer, begin: Nanoseconds, end: Nanoseconds) -> str:
    return _json(
        {
            "object": label,
            "from": format_instant(begin),
            "to": format_instant(end),
            "keptFrom": None if answer.first is None else format_instant(answer.first),
            "before": None if answer.before is None else _change(answer.before),
            "changes": [_change(change) for change in answer.changes],
            "moreFrom": None if answer.go_on is None else format_instant(answer.go_on),
            "points": [_point(point) for point in answer.points],
        }
    )


def _when(at: Nanoseconds, other: Nanoseconds, zone: str) -> str:
    """An instant, without its date if `other` has the same date."""
    is_same_day = local(at, zone).date() == local(other, zone).date()
    return format_clock(at, zone) if is_same_day else format_moment(at, zone)


def _left_out(count: int) -> str:
    return "" if not count else f" ({count} changes before it came too fast to be kept)"


def _count(before: int | None, change: DecisionChange) -> str:
    if change.desired is None:
        return "-"
    count = change.current if before is None else before
    return str(change.desired) if count in {None, change.desired} else f"{count} -> {change.desired}"


def _why(change: DecisionChange) -> str:
    parts = [printable(change.reason), f"withheld: {printable(change.withheld)}" if change.withheld else ""]
    return "; ".join(part for part in parts if part) + _left_out(change.left_out)


def _kept_from(answer: TimelineAnswer, begin: Nanoseconds, zone: str, width: int) -> list[str]:
    if answer.first is None or answer.first <= begin:
        return []
    return folded(f"  decisions are kept from {format_moment(answer.first, zone)} on", width)


def _points_told(points: list[Point]) -> list[str]:
    if not points:
        return []
    counts = [point.replicas for point in points]
    loads = [point.load for point in points if point.load is not None]
    load = f", load {_range(f'{min(loads):.4g}', f'{max(loads):.4g}')}" if loads else ""
    gaps = sum(max(later.at - point.at - POINT_STEP, 0) for point, later in pairwise(points))
    unseen = f"; nothing was seen for {format_length(gaps)} of the time" if gaps >= POINT_STEP else ""
    counted = "1 point" if len(points) == 1 else f"{len(points)} points"
    return [f"{counted}: {_range(str(min(counts)), str(max(counts)))} replicas{load}{unseen}"]


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _rest(answer: TimelineAnswer) -> list[str]:
    return [] if answer.go_on is None else [f"and more: ask again with --from {format_instant(answer.go_on)}"]


def _change(change: DecisionChange) -> dict[str, Any]:
    return {
        "time": format_instant(change.at),
        "currentReplicas": change.current,
        "desiredReplicas": change.desired,
        "decidedBy": change.decided_by,
        "reason": change.reason,
        "withheld": change.withheld,
        "changesLeftOut": change.left_out,
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "time": format_instant(point.at),
        "replicas": point.replicas,
        "ready": point.ready,
        "load": point.load,
        "floor": point.floor,
        "cap": point.cap,
        "forecast": point.forecast,
    }


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2)

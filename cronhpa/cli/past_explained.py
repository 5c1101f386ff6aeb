"""What commands print of an object's past: one decision, a timeline, the same as JSON."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from cronhpa.cli.moments import format_clock, format_length, format_moment, local
from cronhpa.core.instant import Nanoseconds, format_instant
from cronhpa.core.printable import printable
from cronhpa.core.scheduled.windows import zone_problem
from cronhpa.explained.explanation_text import explained, folded
from cronhpa.history.past_answers import DecisionAnswer, DecisionChange, TimelineAnswer
from cronhpa.history.points import POINT_STEP, Point


def body_of(found: DecisionAnswer) -> dict[str, Any]:
    """The object as it was after the decision, as the API would have served it."""
    body: dict[str, Any] = msgspec.json.decode(found.decision.body)
    return body


def zone_of(body: dict[str, Any]) -> str:
    """UTC where this machine knows no such zone: the API server's list may be newer."""
    zone = str((body.get("spec") or {}).get("timeZone") or "UTC")
    return "UTC" if zone_problem(zone) else zone


def decision_lines(found: DecisionAnswer, zone: str) -> list[str]:
    """When it was decided, then what `cronhpa explain` would have printed then."""
    body = body_of(found)
    held = (
        "still the newest" if found.until is None else f"in force until {_when(found.until, found.decision.at, zone)}"
    )
    left_out = _left_out(found.decision.left_out)
    then = [part for line in explained(body, found.decision.at) for part in folded(line)]
    return [f"Decided {format_moment(found.decision.at, zone)}, {held}{left_out}:", *then]


def decision_json(found: DecisionAnswer) -> str:
    return _json(
        {
            "decidedAt": format_instant(found.decision.at),
            "until": None if found.until is None else format_instant(found.until),
            "keptFrom": format_instant(found.first),
            "release": found.decision.release,
            "changesLeftOut": found.decision.left_out,
            "object": body_of(found),
            "turn": msgspec.json.decode(found.decision.turn),
        }
    )


def timeline_lines(
    label: str, found: TimelineAnswer, begin: Nanoseconds, end: Nanoseconds, zone: str, width: int
) -> list[str]:
    """A heading, a row for each change below its day, and what the points say of the time between."""
    changes = [*([found.before] if found.before is not None else []), *found.changes]
    span = f"{format_moment(begin, zone)} to {format_moment(end, zone)}, {format_length(end - begin)}"
    heading = f"{printable(label)}: {span}"
    if not changes:
        return [heading, *_kept_from(found, begin, zone), "  nothing is kept of this time"]
    table = Table("TIME", "REPLICAS", "DECIDED BY", "WHY", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    # What was in force at the begin did not change there.
    befores = [None if found.before is None else found.before.desired, *(each.desired for each in changes)]
    day = None
    for before, each in zip(befores, changes, strict=False):
        date = local(each.at, zone).date()
        if date != day:
            # On a line of its own: the reasons have more room.
            table.add_row(f"{date:%a} {date.isoformat()}")
        day = date
        clock = format_clock(each.at, zone)
        table.add_row(clock, _count(before, each), printable(each.decided_by or "-"), _why(each))
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    with console.capture() as captured:
        console.print(table)
    rows = [line.rstrip() for line in captured.get().splitlines()]
    return [heading, *_kept_from(found, begin, zone), *rows, *_points_told(found.points), *_rest(found)]


def timeline_json(label: str, found: TimelineAnswer, begin: Nanoseconds, end: Nanoseconds) -> str:
    return _json(
        {
            "object": label,
            "from": format_instant(begin),
            "to": format_instant(end),
            "keptFrom": None if found.first is None else format_instant(found.first),
            "before": None if found.before is None else _change(found.before),
            "changes": [_change(each) for each in found.changes],
            "moreFrom": None if found.go_on is None else format_instant(found.go_on),
            "points": [_point(each) for each in found.points],
        }
    )


def _when(at: Nanoseconds, other: Nanoseconds, zone: str) -> str:
    """An instant, without its date where that is the date of another one."""
    is_same_day = local(at, zone).date() == local(other, zone).date()
    return format_clock(at, zone) if is_same_day else format_moment(at, zone)


def _left_out(count: int) -> str:
    return "" if not count else f" ({count} changes before it came too fast to be kept)"


def _count(before: int | None, change: DecisionChange) -> str:
    if change.desired is None:
        return "-"
    known = change.current if before is None else before
    return str(change.desired) if known in {None, change.desired} else f"{known} -> {change.desired}"


def _why(change: DecisionChange) -> str:
    parts = [printable(change.reason), f"withheld: {printable(change.withheld)}" if change.withheld else ""]
    return "; ".join(part for part in parts if part) + _left_out(change.left_out)


def _kept_from(found: TimelineAnswer, begin: Nanoseconds, zone: str) -> list[str]:
    if found.first is None or found.first <= begin:
        return []
    return [f"  decisions are kept from {format_moment(found.first, zone)} on"]


def _points_told(points: list[Point]) -> list[str]:
    if not points:
        return []
    counts = [each.replicas for each in points]
    loads = [each.load for each in points if each.load is not None]
    load = f", load {min(loads):.4g} to {max(loads):.4g}" if loads else ""
    gaps = sum(max(later.at - each.at - POINT_STEP, 0) for each, later in pairwise(points))
    unseen = f"; nothing was seen for {format_length(gaps)} of the time" if gaps >= POINT_STEP else ""
    return [f"{len(points)} points: {min(counts)} to {max(counts)} replicas{load}{unseen}"]


def _rest(found: TimelineAnswer) -> list[str]:
    return [] if found.go_on is None else [f"and more: ask again with --from {format_instant(found.go_on)}"]


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

"""
What schedules cost: the bounds of 10,000 objects with 5 schedules each.

A tick takes `bounds.resolve` of all of them, the way a decision does; figures are the CPU of this thread. The first
tick is that of a new process, which has computed nothing yet; the target is for the ticks after it.

A day of ticks, one a minute: the objects share 120 windows (cron texts in 8 zones), as the objects of a cluster do, and
each has a target and bounds of its own. The day is one of a clock change in Europe.

An edge that all 10,000 share, with a tick each 15 s from an hour before it to a quarter of an hour after: of objects
made from 50 templates, of objects that share 120 windows and have bounds of their own, and of objects no two texts of
which are alike, which no cluster has.

Beside it stands croniter, asked directly for what a tick must know: the start and the end before and after now of each
window.
"""

from __future__ import annotations

import gc
import random
import sys
import time
import tracemalloc
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

from croniter import croniter
from msgspec.structs import replace
from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, Nanoseconds, format_instant, parse_instant, to_datetime
from cronhpa.core.model.spec import ControllerOptions, CronWindow, Spec
from cronhpa.core.schedules import bounds, calendars, cron, windows
from cronhpa.core.schedules.bounds import Bounds, resolve

OBJECTS = 10_000
SCHEDULES = 5
WINDOWS = 120
BEGIN = parse_instant("2026-10-25T00:00:00Z")  # Berlin goes back at 01:00Z
TICKS = 24 * 60
START_UP = 45 * SECOND
BUDGET_MS = 100
_CRONITER_OBJECTS = 200
TEMPLATES = 50
EDGE = parse_instant("2026-11-23T08:00:00Z")
PERIOD = 15 * SECOND
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
}
_ZONES = ("UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Asia/Tokyo",
          "Asia/Kolkata", "Australia/Sydney")  # fmt: skip


@dataclass(frozen=True)
class FleetScheduleFigures:
    """Milliseconds of CPU for all objects; `worst_edges` is how many objects had an edge in it."""

    first_ms: float
    median_ms: float
    p99_ms: float
    worst_ms: float
    worst_at: str
    worst_edges: int
    midnight_ms: float
    croniter_ms: float
    kept_mib: float


@dataclass(frozen=True)
class SharedEdge:
    """Milliseconds of CPU for all objects: the first tick, the median, the worst around the edge, and at it."""

    objects: str
    first_ms: float
    median_ms: float
    worst_ms: float
    edge_ms: float
    anew_ms: float
    croniter_ms: float
    edges: int


def main() -> int:
    calibration = machine()
    specs = fleet(random.Random(1))
    figures = measured(specs)
    shared = [
        shared_edge("of 50 templates", templated(random.Random(2))),
        shared_edge("bounds of their own", at_one_edge(random.Random(3), WINDOWS)),
        shared_edge("nothing alike", at_one_edge(random.Random(4), OBJECTS * SCHEDULES)),
    ]
    table = Table(title=f"bounds of {OBJECTS:,} objects with {SCHEDULES} schedules each, ms of CPU a tick")
    for name in ("between edges", "99 % of ticks", "worst tick", "midnight UTC", "first tick", "croniter", "ratio"):
        table.add_column(name, justify="right")
    table.add_row(
        *(
            f"{value:.1f}"
            for value in (figures.median_ms, figures.p99_ms, figures.worst_ms, figures.midnight_ms, figures.first_ms)
        ),
        f"{figures.croniter_ms:,.0f}",
        f"{figures.croniter_ms / figures.median_ms:,.0f}",
    )
    console = Console(width=120)
    console.print(table)
    console.print(
        f"worst tick: {figures.worst_at}, {figures.worst_edges:,} objects with an edge in it. Kept between ticks: "
        f"{figures.kept_mib:.1f} MiB. {TICKS:,} ticks, one a minute, {format_instant(BEGIN)[:10]}."
    )
    console.print(shared_table(shared))
    console.print(
        f"a tick each {PERIOD // SECOND} s around an edge that all {OBJECTS:,} objects have; worst: after the first; "
        "anew: were the edge not worked out ahead"
    )
    console.print(calibration_line(calibration))
    path = save(
        "schedules",
        {
            "machine": calibration,
            "objects": OBJECTS,
            "schedules": SCHEDULES,
            **asdict(figures),
            "shared_edges": [asdict(edge) for edge in shared],
        },
    )
    templates, own, _ = shared
    is_met = max(figures.p99_ms, templates.worst_ms, own.worst_ms) <= BUDGET_MS
    console.print(f"target: at most {BUDGET_MS} ms a tick: {'met' if is_met else 'MISSED'}; figures in {path}")
    return 0 if is_met else 1


def shared_table(shared: list[SharedEdge]) -> Table:
    table = Table(title=f"an edge that {OBJECTS:,} objects share, ms of CPU a tick")
    for name in ("objects", "first tick", "median", "worst tick", "at the edge", "anew", "croniter", "ratio"):
        table.add_column(name, justify="left" if name == "objects" else "right")
    for one in shared:
        table.add_row(
            one.objects,
            *(f"{value:.1f}" for value in (one.first_ms, one.median_ms, one.worst_ms, one.edge_ms, one.anew_ms)),
            f"{one.croniter_ms:,.0f}",
            f"{one.croniter_ms / one.edge_ms:,.0f}",
        )
    return table


def fleet(chance: random.Random) -> list[Spec]:
    """Objects whose schedules are drawn from 120 windows; a quarter of those have holidays to leave out."""
    drawn = [window(chance) for _ in range(WINDOWS)]
    return [
        read(
            number,
            [
                {"name": f"window-{index}", "minReplicas": 8 + (number + index) % 23, **chance.choice(drawn)}
                for index in range(SCHEDULES)
            ],
        )
        for number in range(OBJECTS)
    ]


def templated(chance: random.Random) -> list[Spec]:
    """Objects that were made from 50 templates, bounds included: what differs are their targets."""
    templates = [of.schedules for of in at_one_edge(chance, WINDOWS, TEMPLATES)]
    return [
        replace(read(number, []), min_replicas=2, max_replicas=60, schedules=templates[number % TEMPLATES])
        for number in range(OBJECTS)
    ]


def at_one_edge(chance: random.Random, windows: int, objects: int = OBJECTS) -> list[Spec]:
    """Objects of each of which at least one window opens at EDGE; `windows`: how many different ones they share."""
    opening = [opening_window(number) for number in range(windows // SCHEDULES)]
    others = [opening_window(number, minute=1 + number % 59) for number in range(windows - len(opening))]
    return [
        read(
            number,
            [
                {"name": f"window-{index}", "minReplicas": 8 + (number + index) % 23, **drawn}
                for index, drawn in enumerate(
                    (opening[number % len(opening)], *(others[chance.randrange(len(others))] for _ in range(4)))
                    if windows < OBJECTS
                    else (opening[number], *others[4 * number : 4 * number + 4])
                )
            ],
        )
        for number in range(objects)
    ]


def opening_window(number: int, minute: int = 0) -> dict[str, Any]:
    """The window of this number: no two texts are alike. On Mondays it opens at `minute` past EDGE's hour."""
    days = ",".join(day for bit, day in enumerate(("tue", "wed", "thu", "fri", "sat", "sun")) if number >> bit & 1)
    hours = ",".join(str(hour) for bit, hour in enumerate(range(10, 24)) if number >> 6 + bit & 1)
    start = f"{minute} 8{hours and ','}{hours} * * mon{days and ','}{days}"
    return {"start": start, "durationMinutes": 31 + number % 80}


def read(number: int, schedules: list[dict[str, Any]]) -> Spec:
    return parse_spec(
        {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"app-{number}"},
            "minReplicas": 1 + number % 7,
            "maxReplicas": 40 + number % 11,
            "metrics": [CPU],
            "schedules": schedules,
        },
        namespace=f"namespace-{number % 200}",
        defaults=ControllerOptions(),
    )


def window(chance: random.Random) -> dict[str, Any]:
    """A window that opens on weekdays, each day, monthly or several times a day."""
    minute, hour = chance.choice((0, 0, 0, 15, 30, 45)), chance.randrange(5, 23)
    days = chance.choice(("* * mon-fri", "* * mon-fri", "* * *", "* * sat,sun", "1 * *", "L * *", "* * fri#2"))
    fields: dict[str, Any] = {"start": f"{minute} {hour} {days}", "timeZone": chance.choice(_ZONES)}
    if chance.random() < 0.3:
        fields["start"] = f"{minute} */6 * * *"
        fields["durationMinutes"] = chance.choice((30, 60, 90))
    elif chance.random() < 0.5:
        fields["durationMinutes"] = chance.choice((240, 480, 600))
    else:
        fields["end"] = f"{minute} {(hour + chance.randrange(4, 12)) % 24} * * *"
    if chance.random() < 0.25:
        fields["exclude"] = {"holidays": [{"country": chance.choice(("DE", "US", "JP"))}]}
    return fields


def measured(specs: list[Spec]) -> FleetScheduleFigures:
    tracemalloc.start()
    tick(specs, BEGIN - MINUTE)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    as_new(specs)
    first, before = tick(specs, BEGIN - MINUTE)
    ticks: list[tuple[float, int, Nanoseconds]] = []
    for now in range(BEGIN, BEGIN + TICKS * MINUTE, MINUTE):
        edges = with_edge(before, now)
        cost, before = tick(specs, now, before)
        ticks.append((cost, edges, now))
    costs = sorted(cost for cost, _, _ in ticks)
    worst, edges, at = max(ticks)
    return FleetScheduleFigures(
        first_ms=first,
        median_ms=median(costs),
        p99_ms=costs[len(costs) * 99 // 100],
        worst_ms=worst,
        worst_at=format_instant(at),
        worst_edges=edges,
        midnight_ms=ticks[0][0],
        croniter_ms=by_croniter(specs[:_CRONITER_OBJECTS], BEGIN + 12 * HOUR) * len(specs) / _CRONITER_OBJECTS,
        kept_mib=kept / 2**20,
    )


def shared_edge(objects: str, specs: list[Spec]) -> SharedEdge:
    as_new(specs)
    begin = EDGE - HOUR
    first, before = tick(specs, begin)
    costs: dict[Nanoseconds, float] = {}
    edges = 0
    for now in range(begin + PERIOD, EDGE + 15 * MINUTE, PERIOD):
        if now == EDGE:
            edges = with_edge(before, now)
        costs[now], before = tick(specs, now, before)
    _, before = tick(specs, EDGE - 1)
    forget(specs)  # as if nothing had been worked out ahead
    anew, _ = tick(specs, EDGE, before)
    return SharedEdge(
        objects=objects,
        first_ms=first,
        median_ms=median(costs.values()),
        worst_ms=max(costs.values()),
        edge_ms=costs[EDGE],
        anew_ms=anew,
        croniter_ms=by_croniter(specs[:_CRONITER_OBJECTS], EDGE) * len(specs) / _CRONITER_OBJECTS,
        edges=edges,
    )


def as_new(specs: list[Spec]) -> None:
    """Forgets what was worked out, as in a new process, and sets the garbage collector as the operator does."""
    forget(specs)
    for module in (bounds, windows, calendars, cron):
        for member in vars(module).values():
            if hasattr(member, "cache_clear"):
                member.cache_clear()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def forget(specs: list[Spec]) -> None:
    """Forgets the bounds of all objects."""
    for spec in specs:
        spec.computed.clear()


def with_edge(resolved: list[Bounds], now: Nanoseconds) -> int:
    """How many of these had an edge by `now`."""
    return sum(1 for of_object in resolved if of_object.next_edge is not None and of_object.next_edge.at <= now)


def tick(specs: list[Spec], now: Nanoseconds, before: list[Bounds] | None = None) -> tuple[float, list[Bounds]]:
    """
    The bounds of all objects, and the milliseconds that they took.

    before: those of the tick before, whose leads an object's memory holds.
    """
    remembered = [()] * len(specs) if before is None else [previous.leads for previous in before]
    begun = time.thread_time_ns()
    resolved = [resolve(spec, now, START_UP, leads) for spec, leads in zip(specs, remembered, strict=True)]
    return (time.thread_time_ns() - begun) / 1e6, resolved


def by_croniter(specs: list[Spec], now: Nanoseconds) -> float:
    """Milliseconds of croniter for the start and the end before and after now, and nothing else of a window."""
    begun = time.thread_time_ns()
    for spec in specs:
        for schedule in spec.schedules:
            window = schedule.window
            assert isinstance(window, CronWindow)
            at = to_datetime(now).astimezone(ZoneInfo(window.zone))
            for text in (window.start, window.end):
                if text is not None:
                    croniter(text, at).get_prev(datetime)
                    croniter(text, at).get_next(datetime)
    return (time.thread_time_ns() - begun) / 1e6


if __name__ == "__main__":
    sys.exit(main())

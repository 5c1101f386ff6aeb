"""
What schedules cost: the bounds of 10,000 objects with 5 schedules each, at every minute of a day.

The objects share 120 windows (cron texts in 8 zones), as the objects of a cluster do, and differ in their targets and
bounds. A tick takes `bounds.resolve` of all of them, the way a decision does; figures are the CPU of this thread. The
day is one of a clock change in Europe. Beside it stands croniter, asked directly for what a tick must know: the start
and the end before and after now of each window.
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
from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from cronhpa.api.parse import parse_spec
from cronhpa.core.instant import HOUR, MINUTE, SECOND, Nanoseconds, format_instant, parse_instant, to_datetime
from cronhpa.core.scheduled import bounds, windows
from cronhpa.core.scheduled.bounds import Bounds, resolve
from cronhpa.core.spec import CronWindow, Spec, Tuning

OBJECTS = 10_000
SCHEDULES = 5
WINDOWS = 120
BEGIN = parse_instant("2026-10-25T00:00:00Z")  # Berlin goes back at 01:00Z
TICKS = 24 * 60
START_UP = 45 * SECOND
BUDGET_MS = 100
_CRONITER_OBJECTS = 200
_ZONES = ("UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Asia/Tokyo",
          "Asia/Kolkata", "Australia/Sydney")  # fmt: skip


@dataclass(frozen=True)
class Figures:
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


def main() -> int:
    calibration = machine()
    specs = fleet(random.Random(1))
    found = measured(specs)
    table = Table(title=f"bounds of {OBJECTS:,} objects with {SCHEDULES} schedules each, ms of CPU a tick")
    for name in ("between edges", "99 % of ticks", "worst tick", "midnight UTC", "first tick", "croniter", "ratio"):
        table.add_column(name, justify="right")
    table.add_row(
        *(
            f"{value:.1f}"
            for value in (found.median_ms, found.p99_ms, found.worst_ms, found.midnight_ms, found.first_ms)
        ),
        f"{found.croniter_ms:,.0f}",
        f"{found.croniter_ms / found.median_ms:,.0f}",
    )
    console = Console(width=120)
    console.print(table)
    console.print(
        f"worst tick: {found.worst_at}, {found.worst_edges:,} objects with an edge in it. Kept between ticks: "
        f"{found.kept_mib:.1f} MiB. {TICKS:,} ticks, one a minute, {format_instant(BEGIN)[:10]}."
    )
    console.print(calibration_line(calibration))
    path = save("schedules", {"machine": calibration, "objects": OBJECTS, "schedules": SCHEDULES, **asdict(found)})
    is_met = found.median_ms <= BUDGET_MS
    console.print(f"target: at most {BUDGET_MS} ms a tick: {'met' if is_met else 'MISSED'}; figures in {path}")
    return 0 if is_met else 1


def fleet(chance: random.Random) -> list[Spec]:
    """Objects whose schedules are drawn from 120 windows; a quarter of those have holidays to leave out."""
    drawn = [window(chance) for _ in range(WINDOWS)]
    return [
        parse_spec(
            {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"app-{number}"},
                "minReplicas": 1 + number % 7,
                "maxReplicas": 40 + number % 11,
                "schedules": [
                    {"name": f"window-{index}", "minReplicas": 8 + (number + index) % 23, **chance.choice(drawn)}
                    for index in range(SCHEDULES)
                ],
            },
            namespace=f"namespace-{number % 200}",
            defaults=Tuning(),
        )
        for number in range(OBJECTS)
    ]


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


def measured(specs: list[Spec]) -> Figures:
    tracemalloc.start()
    tick(specs, BEGIN - MINUTE)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    for cache in (bounds._kept, windows._stretch):  # noqa: SLF001 - as in a new process
        cache.cache_clear()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)  # as the operator sets it
    first, before = tick(specs, BEGIN - MINUTE)
    ticks: list[tuple[float, int, Nanoseconds]] = []
    for now in range(BEGIN, BEGIN + TICKS * MINUTE, MINUTE):
        edges = sum(1 for item in before if item.next_edge is not None and item.next_edge.at <= now)
        cost, before = tick(specs, now)
        ticks.append((cost, edges, now))
    costs = sorted(cost for cost, _, _ in ticks)
    worst, edges, at = max(ticks)
    return Figures(
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


def tick(specs: list[Spec], now: Nanoseconds) -> tuple[float, list[Bounds]]:
    """The bounds of all objects, and the milliseconds that they took."""
    begun = time.thread_time_ns()
    found = [resolve(spec, now, START_UP) for spec in specs]
    return (time.thread_time_ns() - begun) / 1e6, found


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

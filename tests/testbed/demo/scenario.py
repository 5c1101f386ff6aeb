"""
What the demo plays: which morning of which recorded load, moved to now, under which pods and which settings.

Only numbers and times: nothing here talks to anybody. What a forecast may know is cut here and only here.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds, format_instant, parse_instant, to_datetime
from testbed.loads import K8S_APP11, Trace

if TYPE_CHECKING:
    from pathlib import Path

# The last morning of the record, so the one with the most history before it. The load climbs from 3 cores to 11 between
# 06:03 and 06:05, as on most mornings before.
RISE = parse_instant("2021-10-23T06:03:00Z")
RISE_AFTER = 120 * SECOND
TARGET_PERCENT = 60
BOUNDS = (2, 60)
# By night 1.5 cores / (0.6 x 0.5 cores) = 5 pods, at 12 cores 40.
REQUEST_CORES = 0.5
# A program that loads its classes or its caches; image pull and scheduling included.
START_UP_SECONDS = 45
# metrics-server's default resolution, and how old a sample is when it is first answered (15 to 30 s in the field).
WINDOW, DELAY = 15 * SECOND, 20 * SECOND
# The edge is the first full minute this long after the start; the rise begins later than the latest of them.
EDGE_AFTER_MIN = 45 * SECOND
SCHEDULE_FLOOR, SCHEDULE_MINUTES = 8, 60
SCHEDULE = "early-shift"


@dataclass(frozen=True)
class Scenario:
    """
    load: cores, at the demo's own instants. start: when the clock shows 0:00; nothing recorded later is known before.

    size: 1, or less where pods and load are to be small alike, on a cluster whose nodes are real.
    """

    load: Trace
    start: Nanoseconds
    size: float
    has_schedule: bool

    @classmethod
    def at(cls, start: Nanoseconds, *, size: float = 1.0, has_schedule: bool = True) -> Self:
        """The scenario whose clock starts at an instant, a whole second."""
        shift = start + RISE_AFTER - RISE
        assert shift % SECOND == 0, start
        return cls(Trace.read(K8S_APP11).scaled(size).shifted(shift), start, size, has_schedule)

    @property
    def request(self) -> float:
        """What a pod asks for, in cores."""
        return REQUEST_CORES * self.size

    @property
    def night(self) -> int:
        """The replicas that the load of the start needs at its target: what both twins begin with."""
        return max(BOUNDS[0], math.ceil(self.load.at(self.start) / (self.request * TARGET_PERCENT / 100)))

    @property
    def edge(self) -> Nanoseconds:
        """When the schedule opens."""
        earliest = self.start + EDGE_AFTER_MIN
        return -(-earliest // MINUTE) * MINUTE

    def recorded_at(self, instant: Nanoseconds) -> Nanoseconds:
        """When that which happens at an instant of the demo was recorded."""
        return instant - self.start - RISE_AFTER + RISE

    def schedules(self) -> list[dict[str, object]]:
        if not self.has_schedule:
            return []
        edge = to_datetime(self.edge)
        return [
            {
                "name": SCHEDULE,
                "start": f"{edge.minute} {edge.hour} * * *",
                "durationMinutes": SCHEDULE_MINUTES,
                "minReplicas": SCHEDULE_FLOOR,
            }
        ]

    def write_history(self, path: Path, *, now: Nanoseconds) -> int:
        """Write what was recorded before `now` as `cronhpa history import` reads it; the number of rows."""
        assert now <= self.start, (now, self.start)
        rows = [(format_instant(at), repr(value)) for at, value in self.load.rows(before=now)]
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("timestamp", "value"))
            writer.writerows(rows)
        return len(rows)

"""
What past decisions cost: bytes of the store and CPU of the operator, for 10,000 objects.

Each of HISTORY_OBJECTS (30) objects lives for eight days under a daily load with noise, with two schedules and a
forecast: real decisions and statuses, noted by the operator's recorder, written and tidied as the operator does it,
minute by minute. Its points of the 83 days before are written by the hour. Bytes and CPU are multiplied up to 10,000.

A figure of CPU is that of what history adds, without the decisions themselves.
"""

from __future__ import annotations

import math
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import decision
import msgspec
from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Scaled, Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Observation, PodCounts, Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.history.past.decisions import DECISIONS_BYTES_MAX, HOURS_KEPT, POINTS_KEPT
from cronhpa.history.past.points import POINT_STEP, Point
from cronhpa.history.store import Store
from cronhpa.operator.objects.object_state import ObjectState, spec_text
from cronhpa.operator.writes.decision_recorder import DecisionRecorder

T = TypeVar("T")

FLEET = 10_000
OBJECTS = 30
DAYS = 8
_PERIOD: Nanoseconds = 15 * SECOND
_RECONCILIATIONS_A_DAY = DAY // _PERIOD
# Notes of a reconciliation that changes nothing, at once: one takes less time than the clock.
_QUIET = 100
_MINUTES_PER_ROUND = 6 * HOUR // MINUTE
_CHANGES_PER_FLUSH = 29
_POINTS_PER_FLUSH = 160
IDLE = "tidy where none is due"
_SPEC = {**decision.TIMED, "minReplicas": 2, "maxReplicas": 40}


class Life:
    """One object: a reconciliation at a time, with the load of that time of day."""

    def __init__(self, number: int) -> None:
        self.state = ObjectState(f"tenant-{number % 50}", f"shop-{number}", f"0b0e7a1c-{number:012d}", 0)
        self.state.served.parsed.text = spec_text(_SPEC)
        self.state.served.generation = 1
        self.spec = parse_spec(_SPEC, self.state.namespace, ControllerOptions())
        self.current = 4
        self.random = random.Random(number)
        self.memory = Memory()
        self.status: dict[str, Any] = {}
        self.changes = 0

    def reconciliation(self, now: Nanoseconds, recorder: DecisionRecorder, costs: CpuCosts) -> bool:
        """Whether the count was changed."""
        observation = self._observed(now)
        record = Record(self.spec, observation, self._forecast(now), self.memory, now)
        decided = decide(*msgspec.structs.astuple(record))
        outcome = Scaled(now) if decided.rescales else Withheld()
        self.memory = self.memory.after(decided, outcome, self.spec, observation)
        reconciliation = Reconciliation(record, decided, self.memory, 1, outcome, forecast=self._forecast(now))
        self.status = render(self.status, reconciliation)
        recorder.note_point(self.state, record, decided)
        recorder.note(self.state, reconciliation, self.status)
        if now % HOUR == 0:

            def again() -> None:
                for _ in range(_QUIET):
                    recorder.note_point(self.state, record, decided)
                    recorder.note(self.state, reconciliation, self.status)

            costs.of("note, each reconciliation", again, _QUIET)
        self.current = decided.desired
        self.changes += decided.rescales
        return decided.rescales

    def _load(self, now: Nanoseconds) -> float:
        """Milli-cores: 1.2 cores at night, 9 at noon, with noise of a tenth."""
        wave = (1 - math.cos(2 * math.pi * (now % DAY) / DAY)) / 2
        return (1200 + 7800 * wave) * self.random.uniform(0.9, 1.1)

    def _observed(self, now: Nanoseconds) -> Observation:
        load = round(self._load(now))
        count = max(self.current, 1)
        pods = PodCounts(count, 0, 0, count, count, load, 1000 * count, 0, 0, 0, load)
        return Observation(
            Scale(self.current, self.current, "app=shop"), (pods,), None, 12 * SECOND, {"cpu": 1000, "memory": 2**30}
        )

    def _forecast(self, now: Nanoseconds) -> Forecast:
        """Issued each minute, as the worker issues it: near and far loads, and those of dearer pods."""
        issued = now - now % MINUTE
        made = random.Random(issued)
        near, far = self._wave(issued) * made.uniform(0.95, 1.05), self._wave(issued + HOUR) * made.uniform(0.95, 1.05)
        load = (near, near, far, far)
        return msgspec.structs.replace(
            decision.forecast(now),
            issued_at=issued,
            start=issued - issued % POINT_STEP,
            load=load,
            loads_by_budget_level=tuple(tuple(expected * share for expected in load) for share in (0.9, 0.8, 0.7)),
        )

    @staticmethod
    def _wave(at: Nanoseconds) -> float:
        return 1.2 + 7.8 * (1 - math.cos(2 * math.pi * (at % DAY) / DAY)) / 2


class CpuCosts:
    """CPU seconds by name, and how often each was done."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def of(self, name: str, work: Callable[[], T], count: int = 1) -> T:
        begun = time.process_time()
        result = work()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - begun
        self.calls[name] = self.calls.get(name, 0) + count
        return result


def live(lives: list[Life], store: Store, end: Nanoseconds) -> CpuCosts:
    costs, recorder = CpuCosts(), DecisionRecorder()
    phases = {round_phase(number, len(lives)) for number in range(len(lives))}
    # The old points are tidied before the clock starts: a day of the operator tidies one day of points, not 83.
    for day in range(end - HOURS_KEPT, end - POINTS_KEPT - DAY, DAY):
        written(store.decisions.record_points(older_points(lives, day)))
        for minute in range(DAY // MINUTE):
            written(store.decisions.tidy(day + DAY + HOUR + minute * MINUTE))
    changes: list[Any] = []
    points: list[Any] = []
    for now in range(end - DAYS * DAY, end, POINT_STEP):
        for life in lives:
            # A change is followed by the reconciliation that finds it done.
            at = now
            while life.reconciliation(at, recorder, costs) and at < now + POINT_STEP:
                at += _PERIOD
        changes += recorder.take(10**6)
        points += recorder.take_points(10**6)
        # As many at once as 10,000 objects give in the five seconds between two flushes.
        if len(changes) >= _CHANGES_PER_FLUSH:
            written(costs.of("write decisions", lambda changes=changes: store.decisions.record(changes)))
            changes = []
        if len(points) >= _POINTS_PER_FLUSH:
            written(costs.of("write points", lambda points=points: store.decisions.record_points(points)))
            points = []
        for minute in range(POINT_STEP // MINUTE):
            at = now + minute * MINUTE
            is_due = at // MINUTE % _MINUTES_PER_ROUND in phases
            written(costs.of("tidy" if is_due else IDLE, lambda at=at: store.decisions.tidy(at)))
    assert not any(recorder.dropped.values()), recorder.dropped
    return costs


def in_use(path: Path) -> int:
    """Bytes of the pages that hold something: the free ones of a few objects are those of their busiest minute."""
    database = sqlite3.connect(path)
    (pages,), (free,), (size,) = (
        database.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count", "page_size")
    )
    database.close()
    return int((pages - free) * size)


def spread(lives: list[Life], path: Path) -> Path:
    """A store in which objects have ids whose minutes in a round of `tidy` are as far apart as those of 10,000."""
    Store(path).close()
    database = sqlite3.connect(path)
    for number, life in enumerate(lives):
        row = (round_phase(number, len(lives)), life.state.namespace, life.state.name)
        database.execute("INSERT INTO object VALUES (?, ?, ?, '', 0)", row)
    database.commit()
    database.close()
    return path


def round_phase(number: int, count: int) -> int:
    return 1 + number * (_MINUTES_PER_ROUND - 1) // count


def written(fault: object) -> None:
    assert fault is None, fault


def older_points(lives: list[Life], begin: Nanoseconds) -> list[tuple[str, str, Point]]:
    return [
        (life.state.namespace, life.state.name, Point(at, 8, 8, life.random.uniform(1.0, 9.0), 6, 40, 7))
        for at in range(begin, begin + DAY, HOUR)
        for life in lives
    ]


def run(count: int) -> dict[str, Any]:
    # In the middle of a round: rows wait for three hours on average.
    end = decision.NOW - decision.NOW % DAY + 3 * HOUR
    lives = [Life(number) for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="cronhpa-bench-") as folder:
        path = Path(folder) / "history.db"
        spread(lives, path)
        store = Store(path)
        costs = live(lives, store, end)
        store.close()
        size = in_use(path) - in_use(spread([], Path(folder) / "empty.db"))
        database = sqlite3.connect(path)
        (blobs,) = database.execute("SELECT sum(length(packed)) FROM decided").fetchone()
        database.close()
        store = Store.open_to_read(path)
        first = lives[0].state
        begun = time.process_time()
        kept = store.decisions.between(first.namespace, first.name, 0, end, 10**6)
        points = store.decisions.points(first.namespace, first.name, 0, end)
        reading_ms = 1000 * (time.process_time() - begun)
        store.close()
    changes = sum(life.changes for life in lives) / count / DAYS
    note_us = 1e6 * costs.seconds["note, each reconciliation"] / costs.calls["note, each reconciliation"]
    per_day = {name: seconds / DAYS / count for name, seconds in costs.seconds.items()}
    per_day["note, each reconciliation"] = note_us / 1e6 * _RECONCILIATIONS_A_DAY
    # A minute in which no object is due costs a transaction of its own, once for the whole fleet.
    idle = costs.seconds[IDLE] / costs.calls[IDLE]
    per_day["tidy"] -= idle * costs.calls["tidy"] / DAYS / count
    per_day[IDLE] = idle * (DAY // MINUTE) / FLEET
    return {
        "objects": count,
        "changes_a_day": round(changes, 1),
        "kept_decisions_of_one": len(kept),
        "points_of_one": len(points),
        "bytes_of_one": round(size / count),
        "bytes_of_decisions_of_one": round(blobs / count),
        "bytes_a_decision": round(blobs / count / len(kept)),
        "fleet_gigabytes": round(size / count * FLEET / 1e9, 3),
        "bytes_max_of_decisions": DECISIONS_BYTES_MAX,
        "note_us": round(note_us, 2),
        "read_all_of_one_ms": round(reading_ms, 1),
        "fleet_percent_of_a_core": {
            name: round(100 * seconds * FLEET / (DAY / SECOND), 3) for name, seconds in per_day.items()
        },
    }


def main() -> None:
    console = Console()
    figures = run(int(os.environ.get("HISTORY_OBJECTS", OBJECTS)))
    share = figures["fleet_percent_of_a_core"]
    table = Table("", "", title=f"past decisions of {FLEET:,} objects, from {figures['objects']}")
    table.add_row("changes of the count, a day and object", str(figures["changes_a_day"]))
    table.add_row("decisions and points kept of one", f"{figures['kept_decisions_of_one']}, {figures['points_of_one']}")
    table.add_row("a decision", f"{figures['bytes_a_decision']} bytes")
    decisions_mb = figures["bytes_of_decisions_of_one"] * FLEET / 1e6
    table.add_row("decisions, of at most", f"{decisions_mb:.0f} of {DECISIONS_BYTES_MAX / 1e6:.0f} MB")
    table.add_row("the store, without that bound", f"{figures['fleet_gigabytes']} GB")
    for name, percent in share.items():
        table.add_row(f"{name}, of a core", f"{percent} %")
    table.add_row("together, of a core", f"{sum(share.values()):.2f} %")
    table.add_row("one reconciliation that changes nothing", f"{figures['note_us']} us")
    table.add_row("reading all of one", f"{figures['read_all_of_one_ms']} ms")
    console.print(table)
    speed = machine()
    console.print(calibration_line(speed))
    console.print(f"written to {save('decision_history', {**figures, 'machine': speed})}")


if __name__ == "__main__":
    main()

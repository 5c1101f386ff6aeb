"""
Objects as the operator would know them, and a store with the lived week of one of them, decided by the real code.
"""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import msgspec
from msgspec import Raw

from cli.glance import SITUATIONS, stated
from core.situations import reconciliation_of
from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.core.model.decision import Scaled, Withheld
from cronhpa.core.model.forecast import Forecast, TrackRecord
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.record import Record, encode
from cronhpa.core.model.spec import ControllerOptions, OnceWindow, Schedule, Span
from cronhpa.core.schedules.events import with_events
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.history.past.decisions import KeptDecision
from cronhpa.history.past.past_decision import PastDecision
from cronhpa.history.store import Store
from cronhpa.operator.writes.decision_recorder import point_of
from cronhpa.page.objects import Leader, LiveObject, ObjectMark
from cronhpa.page.questions import ENCODER
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import Trajectory
from cronhpa.simulation.target import Environment

# A Wednesday, 11:20 in Berlin.
NOW = parse_instant("2026-11-25T10:20:00Z")
BEGIN = NOW - 7 * DAY
SERIES = Series("prod", "shop", "cpu")

SPEC = stated(
    minReplicas=3,
    maxReplicas=60,
    schedules=[
        {"name": "working-hours", "start": "0 8 * * mon-fri", "end": "0 18 * * *", "minReplicas": 12},
        {"name": "night", "start": "0 22 * * *", "end": "0 6 * * *", "maxReplicas": 8, "leadTimeSeconds": 0},
        {
            "name": "sale", "from": "2026-11-27T09:00", "to": "2026-11-27T21:00", "minReplicas": 34,
            "leadTimeSeconds": 900,
        },
    ],
    forecast={"budgetPercent": 5},
)  # fmt: skip
OVERRIDDEN = Span(BEGIN + 5 * DAY + 3 * HOUR, BEGIN + 5 * DAY + 6 * HOUR)
OVERRIDE = {"minReplicas": 24, "until": "2026-11-23T16:20:00Z", "reason": "INC-4711"}


# A campaign that nobody told of.
INCIDENT = BEGIN + 2 * DAY + 9 * HOUR


def load_at(at: int) -> float:
    """Cores: a working day with a peak at noon and one in the evening, little at weekends, a burst each full hour."""
    local = (at + HOUR) % DAY / HOUR
    weekday = (at // DAY + 4) % 7
    busy = 0.45 if weekday in {6, 0} else 1.0
    day = 1.2 + busy * (7.5 * math.exp(-(((local - 11.5) / 2.6) ** 2)) + 5.0 * math.exp(-(((local - 19.5) / 1.6) ** 2)))
    burst = 1.5 * busy * math.exp(-(((at % HOUR) / MINUTE / 4) ** 2)) if 8 <= local <= 20 else 0.0
    incident = 19.0 if INCIDENT <= at < INCIDENT + 25 * MINUTE else 0.0
    return incident + day + burst + 0.35 * math.sin(at / HOUR * 2.1) + 0.25 * math.sin(at / MINUTE / 7.3) + 0.4


def forecast_at(now: int) -> Forecast:
    step = 5 * MINUTE
    start = now - now % step
    loads = tuple(
        max(load_at(start + place * step + minute * MINUTE) for minute in range(5)) * 0.9 for place in range(7)
    )
    return Forecast(
        "cpu", now, start, step, loads, 30.0, "spike-hazard", 95, now - 6 * HOUR, 94,
        TrackRecord(412.0, 537.0, 2.8, 7),
    )  # fmt: skip


def lived_week(path: Path, *, period: int = 2 * MINUTE) -> LiveObject:
    """Writes the week of prod/shop into a store; the object as it is at NOW."""
    usual = parse_spec(SPEC, "prod", ControllerOptions())
    by_hand = parse_spec({**SPEC, "override": OVERRIDE}, "prod", ControllerOptions())
    environment = Environment(capacity=1.0, requests={"cpu": 1000}, start_up=90 * SECOND)
    instants = range(BEGIN - HOUR, NOW + MINUTE, MINUTE)
    load = Load([(at, load_at(at)) for at in instants])
    trajectory = Trajectory.of(usual, load, environment, BEGIN, None)
    status, key, kept, points, step = {}, None, [], [], None
    told, spec = SPEC, usual
    for now in range(BEGIN, NOW + 1, period):
        trajectory.target.advance(now, trajectory.accumulator)
        is_overridden = OVERRIDDEN.begin <= now < OVERRIDDEN.end
        spec, told = (by_hand, {**SPEC, "override": OVERRIDE}) if is_overridden else (usual, SPEC)
        observation = trajectory.observe(spec)
        forecast = forecast_at(now)
        memory = trajectory.memory
        decision = decide(spec, observation, forecast, memory, now)
        trajectory.act(spec, observation, decision)
        record = Record(spec, observation, forecast, memory, now)
        noted = (decision.desired, decision.decided_by, decision.minimum, decision.maximum)
        if noted != key or now + period > NOW:
            outcome = Scaled(now) if decision.rescales else Withheld()
            status = render(
                status,
                reconciliation_of(
                    spec, decision, outcome, trajectory.memory, 4, forecast=forecast, budget_used=28,
                    zone="Europe/Berlin", observation=observation,
                ),
            )  # fmt: skip
            key = noted
            of = {"metadata": meta("prod", "shop"), "spec": told, "status": status}
            kept.append(
                KeptDecision(
                    "prod",
                    "shop",
                    str(now),
                    PastDecision(now, Raw(msgspec.json.encode(of)), Raw(encode(record).encode())),
                )
            )
        if now // (5 * MINUTE) != step:
            step = now // (5 * MINUTE)
            points.append(("prod", "shop", point_of(record, decision)))
    store = Store(path)
    store.decisions.record(kept)
    store.decisions.record_points(points)
    before = range(NOW - 9 * DAY, NOW, MINUTE)
    store.loads.record([LoadSample(SERIES, at, load_at(at)) for at in before])
    store.loads.backfill(SERIES, [(at, load_at(at)) for at in range(NOW - 27 * DAY, NOW - 9 * DAY, 5 * MINUTE)])
    store.forecasts.save([(SERIES, forecast_at(NOW - at)) for at in range(0, 20 * HOUR, 5 * MINUTE)][::-1])
    store.close()
    return live("prod", "shop", SPEC, status)


def meta(namespace: str, name: str) -> dict:
    return {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}", "generation": 4}


def live(
    namespace, name, spec, status, *, version=1, generation=4, zone="Europe/Berlin", events=(), calendars=()
) -> LiveObject:
    """events: the planned events that pick it. calendars: those that it names."""
    written, packed_status = (zlib.compress(msgspec.json.encode(of), 1) for of in (spec, status))
    schedules = b""
    if events:
        own = parse_spec(spec, namespace, ControllerOptions())
        schedules = ENCODER.encode(with_events(own, events).schedules[len(own.schedules) :])
    uid = f"uid-{namespace}-{name}"
    return LiveObject(namespace, name, uid, generation, version, zone, written, packed_status, schedules, calendars)


def sale(name="black-friday", namespace="prod", opens="2026-11-27T06:00", closes="2026-11-28T00:00", **bounds):
    """A planned event of the week."""
    schedule = Schedule("doors", OnceWindow(opens, closes, "Europe/Berlin"), **(bounds or {"floor": 40}))
    return PlannedEvent(name, namespace, schedules=(EventSchedule(schedule),), reason="a sale")


SALES = (
    sale(namespace="", floor=20),
    sale("cyber-monday", "", opens="2026-11-30T06:00", closes="2026-12-01T00:00", floor_percent=200),
)


COMPANY = Calendar("company", (CalendarEvent("Company day", "2026-11-26T00:00", "2026-11-27T00:00"),))
MARKETING = Calendar(
    "marketing",
    (CalendarEvent("Sale of the year", "2026-11-28T09:00", "2026-11-28T12:00"),),
    begin=NOW - DAY,
)
OF_CALENDARS = {
    "schedules": [
        {
            "name": "office", "start": "0 8 * * mon-fri", "end": "0 18 * * *", "minReplicas": 20, "leadTimeSeconds": 0,
            "exclude": {"calendars": ["company"]},
        }
    ],
    "schedulesFrom": [{"calendar": "marketing", "matching": "sale*", "minReplicas": 45, "leadTimeSeconds": 0}],
}  # fmt: skip


def fleet_of(count: int) -> list[LiveObject]:
    """Objects in every situation that a user meets, most of them well."""
    bodies = {name: make() for name, make in SITUATIONS.items()}
    rare = [name for name in bodies if name not in {"good", "plain"}]
    words = ("api", "web", "worker", "search", "cart", "billing", "mail", "image", "auth", "report")
    made = []
    for number in range(count):
        situation = rare[number // 97 % len(rare)] if number % 97 == 13 else ("good", "plain")[number % 2]
        body = bodies[situation]
        namespace = f"team-{number % 40:02d}"
        events = SALES if number % 20 == 4 and situation in {"good", "plain"} else ()
        name = f"{words[number % 10]}-{number:05d}"
        made.append(live(namespace, name, body["spec"], body["status"], events=events))
    return made


class MadeObjects:
    """Objects of which a test may change any."""

    def __init__(self, objects, leader=None):
        self.items = {manifest.key: manifest for manifest in objects}
        self.known_leader = leader or Leader(leads=True)

    def marks(self):
        return [
            ObjectMark(one.key, one.uid, one.generation, one.version, (one.spec, one.events, one.calendars))
            for one in self.items.values()
        ]

    def get(self, namespace, name):
        return self.items.get((namespace, name))

    def namespaces(self):
        return {namespace for namespace, _ in self.items}

    def leader(self):
        return self.known_leader

    def calendars(self):
        return {calendar.name: calendar for one in self.items.values() for calendar in one.calendars}.values()

"""
What it costs to say no: wrong schedules, each the first of its kind that a process meets, in ms of CPU.

Written wrong are cron texts, zones, dates, events and holidays, by hand and by 30,000 random texts; at the limits of
the CRD stand objects of 50 schedules, each with 80 ranges of dates and 20 calendars of holidays, of which the last is
wrong. Beside them what such objects cost to be read and worked out where nothing is wrong: the operator does that in a
thread.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from cronhpa.api.parse import SpecError, parse_spec
from cronhpa.core.model.instant import parse_instant
from cronhpa.core.model.spec import ControllerOptions, Spec
from cronhpa.core.schedules import cron
from cronhpa.core.schedules.bounds import resolve
from cronhpa.core.schedules.conflicts import conflicts
from cronhpa.core.schedules.holiday_codes import COUNTRIES
from cronhpa.core.schedules.wall_clock import zone_problem

LIMIT_MS = 10
TEXTS = 15_000
NOW = parse_instant("2026-11-23T08:00:00Z")
DAY = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 3}
EVENT = {"name": "sale", "from": "2026-11-27T00:00", "to": "2026-11-28T00:00", "replicas": 3}
WRONG: dict[str, dict[str, Any]] = {
    "a country that does not exist": {**DAY, "exclude": {"holidays": [{"country": "XX"}]}},
    "a country of 64 characters": {**DAY, "only": {"holidays": [{"country": "X" * 64}]}},
    "a part of the US that does not exist": {
        **DAY,
        "exclude": {"holidays": [{"country": "US", "subdivision": "X" * 64}]},
    },
    "a zone that does not exist": {**DAY, "timeZone": "Europe/Berln"},
    "a zone of 64 characters": {**DAY, "timeZone": "A/" * 32},
    "30 February": {**DAY, "start": "0 0 30 2 *"},
    "30 and 31 February": {**DAY, "end": "* * 30-31/1,31,30 feb *"},
    "100 characters of commas": {**DAY, "start": f"0 0 * * {'1,' * 46}8"},
    "a date that does not exist": {**DAY, "exclude": {"dates": [{"from": "2026-02-30", "to": "2026-03-01"}]}},
    "an event that ends before it begins": {**EVENT, "to": "2026-11-26T00:00"},
    "an event in a skipped hour": {
        **EVENT,
        "from": "2026-03-29T02:00",
        "to": "2026-03-29T02:30",
        "timeZone": "Europe/Berlin",
    },
    "an event in the year 0": {**EVENT, "from": "0000-01-01T00:00"},
}


def main() -> int:
    calibration = machine()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)  # as the operator sets it
    costs_ms = {name: cost(lambda schedule=schedule: rejected(schedule)) for name, schedule in WRONG.items()}
    chance = random.Random(1)
    texts = [cron_text(chance) for _ in range(TEXTS)]
    costs_ms[f"the dearest of {TEXTS:,} cron texts"] = max(cost(lambda text=text: cron.problem(text)) for text in texts)
    zones = ["".join(chance.choices("abcdeABC/_+-.01\0 ", k=chance.choice((3, 10, 64)))) for _ in range(TEXTS)]
    costs_ms[f"the dearest of {TEXTS:,} zones"] = max(cost(lambda zone=zone: zone_problem(zone)) for zone in zones)
    wrong, right = at_the_limits("XX"), at_the_limits("ZW")
    costs_ms["the last of 50 schedules at the limits"] = cost(lambda: rejected(*wrong))
    legal: dict[str, float] = {}
    spec: list[Spec] = []
    legal["read an object at the limits"] = cost(lambda: spec.append(parsed(*right)))
    legal["work it out, all countries for the first time"] = cost(lambda: resolve(spec[0], NOW))
    legal["look for contradictions in it"] = cost(lambda: conflicts(spec[0], NOW))
    dense = [
        {"name": f"s{number}", "start": "*/2 * * * *", "durationMinutes": 1, "timeZone": zone, "replicas": number}
        for number, zone in enumerate(f"Etc/GMT{hours:+d}" for hours in range(-14, 13))
    ]
    spec.append(parsed(*dense))
    legal["work out 27 windows with an edge a minute"] = cost(lambda: resolve(spec[1], NOW))
    legal["look for contradictions in them"] = cost(lambda: conflicts(spec[1], NOW))
    table = Table("what is written", "ms of CPU", title="what it costs to say no, and what heavy objects cost")
    for name, value in (*costs_ms.items(), *legal.items()):
        table.add_row(name, f"{value:.2f}", style="" if name in costs_ms else "dim")
    console = Console(width=120)
    console.print(table)
    console.print(calibration_line(calibration))
    path = save("rejections", {"machine": calibration, "rejected_ms": costs_ms, "legal_ms": legal})
    worst = max(costs_ms.values())
    console.print(
        f"target: nothing takes more than {LIMIT_MS} ms to be rejected: "
        f"{'met' if worst <= LIMIT_MS else 'MISSED'}, the dearest {worst:.2f} ms; figures in {path}"
    )
    return 0 if worst <= LIMIT_MS else 1


def cost(work: Callable[[], object]) -> float:
    begun = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begun) / 1e6


def parsed(*schedules: dict[str, Any]) -> Spec:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    text = {"scaleTargetRef": target, "maxReplicas": 60, "schedules": list(schedules)}
    return parse_spec(text, namespace="prod", defaults=ControllerOptions())


def rejected(*schedules: dict[str, Any]) -> None:
    """Raises AssertionError where nothing is found to be wrong with the last of these."""
    try:
        spec = parsed(*schedules)
    except SpecError:
        return
    assert spec.schedules[-1].problem is not None, schedules[-1]


def at_the_limits(country: str) -> list[dict[str, Any]]:
    """50 schedules, each with 80 ranges of dates and 20 of 250 countries, the last of which is `country`."""
    countries = COUNTRIES.split(",")
    dates = [{"from": f"20{year:02d}-01-01", "to": f"20{year:02d}-01-02"} for year in range(40)]
    out: list[dict[str, Any]] = []
    for number in range(50):
        own = [{"country": countries[(20 * number + step) % len(countries)]} for step in range(20)]
        out.append(
            {**DAY, "name": f"s{number}", "exclude": {"dates": dates, "holidays": own[:10]}, "only": {"dates": dates}}
        )
        out[-1]["only"]["holidays"] = own[10:]
    out[-1]["only"]["holidays"][-1]["country"] = country
    return out


def cron_text(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return "".join(chance.choices("0123456789*/,-#LWlmonfri ?@", k=chance.choice((5, 20, 100, 101))))
    items = ("*", "1-5", "*/3", "59", "0-59/1", "L", "fri#2", "jan-dec", "00000001", "L5", "8-8", "30", "feb")
    return " ".join(",".join(chance.choices(items, k=chance.randint(1, 6))) for _ in range(5))[:100]


if __name__ == "__main__":
    sys.exit(main())

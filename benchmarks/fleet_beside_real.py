"""
Does the API server in memory tell the truth? The operator at rest under it and under the real one, one after the other.

Both have 500 objects of 5 pods in 10 namespaces; the upstream HPA runs beside under the real one (idle_fleet.py). The
operator's CPU and its API calls a minute under the one in memory must be within 15 % of those under the real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from report import FOLDER

WITHIN_PERCENT = 15
_FLEET = {
    "BENCH_OBJECTS": "500", "BENCH_PODS": "5", "BENCH_NAMESPACES": "10", "BENCH_MINUTES": "2", "BENCH_WATCH": "kopf",
}  # fmt: skip
_IN_MEMORY = {"BENCH_SCENARIOS": "start,idle", "BENCH_NAME": "fleet_beside_real"}
# What the API server in memory counts beside the requests.
_NO_CALLS = ("conflicts", "event ")


class Side(NamedTuple):
    """What the operator takes a minute."""

    cpu_seconds: float
    calls: float


def main() -> int:
    for script, settings in (("idle_fleet.py", {}), ("fleet.py", _IN_MEMORY)):
        given = {**_FLEET, **os.environ, **settings}
        ended = subprocess.run([sys.executable, str(Path(__file__).with_name(script))], env=given, check=False)
        if ended.returncode:
            return ended.returncode
    real = under_real(json.loads((FOLDER / "idle_fleet.json").read_text()))
    memory = in_memory(json.loads((FOLDER / f"{_IN_MEMORY['BENCH_NAME']}.json").read_text()))
    apart = differences(real, memory)
    for name, percent in apart.items():
        print(
            f"{name} a minute: {getattr(real, name):.2f} real, {getattr(memory, name):.2f} in memory, {percent:+.0f} %"
        )
    told = max(map(abs, apart.values())) <= WITHIN_PERCENT
    print(f"the API server in memory tells the truth within {WITHIN_PERCENT} %: {'yes' if told else 'NO'}")
    return 0 if told else 1


def under_real(figures: dict[str, Any]) -> Side:
    """Of the file that idle_fleet.py writes."""
    ours = figures["cronhpa"]
    minutes = ours["cpu_seconds_a_minute"]
    return Side(sum(minutes) / len(minutes), ours["api_calls_a_minute"])


def in_memory(figures: dict[str, Any]) -> Side:
    """Of the file that fleet.py writes."""
    row = next(row for row in figures["rows"] if row["scenario"] == "idle")
    calls = sum(count for kind, count in row["calls"].items() if not kind.startswith(_NO_CALLS))
    minutes = row["seconds"] / 60
    return Side(row["cpu_seconds"] / minutes, calls / minutes)


def differences(real: Side, memory: Side) -> dict[str, float]:
    """How much more the operator takes under the API server in memory, in percent."""
    return {name: (getattr(memory, name) / getattr(real, name) - 1) * 100 for name in Side._fields}


if __name__ == "__main__":
    sys.exit(main())

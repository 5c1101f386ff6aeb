"""What every benchmark ends with: its figures as JSON under build/bench, with the speed of the machine beside them."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).parents[1] / "build" / "bench"
_RUNS = 5
_LOOP = 10**7
_PODS = 17_000


def save(name: str, figures: dict[str, Any]) -> Path:
    """Writes the figures of one benchmark; returns where."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(figures, indent=2) + "\n")
    return path


def machine() -> dict[str, Any]:
    """
    What figures from two machines are compared by: CPU milliseconds of two fixed pieces of work, medians of five.

    json_loads_ms: `json.loads` of a list of pod metrics of `json_bytes` (3.7 MB). empty_loop_ms: an empty loop of 10
    million.
    """
    text = json.dumps(_pod_metrics())
    return {
        "python": platform.python_version(),
        "msgspec": msgspec.__version__,
        "json_bytes": len(text),
        "json_loads_ms": round(_median_ms(lambda: json.loads(text)), 1),
        "empty_loop_ms": round(_median_ms(_loop), 1),
    }


def calibration_line(figures: dict[str, Any]) -> str:
    megabytes = figures["json_bytes"] / 1e6
    return (
        f"calibration: json.loads of {megabytes:.1f} MB {figures['json_loads_ms']:.1f} ms, empty loop of 10 million "
        f"{figures['empty_loop_ms']:.0f} ms (CPU; Python {figures['python']}, msgspec {figures['msgspec']})"
    )


def _pod_metrics() -> dict[str, Any]:
    """The same bytes on every machine: a list as metrics.k8s.io answers it."""
    return {
        "kind": "PodMetricsList",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "items": [
            {
                "metadata": {"name": f"app-{i // 10}-6d4cf56db6-{i:05d}", "namespace": f"namespace-{i // 170}"},
                "timestamp": "2026-11-02T10:15:00Z",
                "window": "15s",
                "containers": [{"name": "app", "usage": {"cpu": f"{i * 7919 % 1_000_000}n", "memory": f"{i}Ki"}}],
            }
            for i in range(_PODS)
        ],
    }


def _loop() -> None:
    for _ in range(_LOOP):
        pass


def _median_ms(work: Any) -> float:
    taken = []
    for _ in range(_RUNS):
        begun = time.process_time_ns()
        work()
        taken.append(time.process_time_ns() - begun)
    return sorted(taken)[_RUNS // 2] / 1e6

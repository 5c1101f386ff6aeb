"""What the check of the API server in memory compares."""

import importlib
import sys
from pathlib import Path

import pytest


@pytest.fixture(name="beside_real")
def _beside_real(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    yield importlib.import_module("fleet_beside_real")
    for name in ("fleet_beside_real", "report"):
        sys.modules.pop(name, None)


def test_the_minutes_are_averaged_and_requests_alone_are_calls(beside_real):
    real = {"cronhpa": {"cpu_seconds_a_minute": [0.5, 0.7], "api_calls_a_minute": 80.0}}
    calls = {"list metrics.k8s.io/pods": 100, "put leases": 50, "conflicts": 7, "event Scaled": 9}
    idle = {"scenario": "idle", "seconds": 120.0, "cpu_seconds": 1.5, "calls": calls}

    of_real, of_memory = beside_real.under_real(real), beside_real.in_memory({"rows": [{"scenario": "start"}, idle]})

    assert pytest.approx((0.6, 80.0)) == of_real
    assert pytest.approx((0.75, 75.0)) == of_memory
    assert pytest.approx({"cpu_seconds": 25.0, "calls": -6.25}) == beside_real.differences(of_real, of_memory)

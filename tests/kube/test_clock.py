"""cronhpa.kube.clock: the command alone reads the system's clocks; the rest of the operator takes them."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("clock", ["time.time()", "time.time_ns()", "time.monotonic()"])
@pytest.mark.parametrize(
    "module",
    ["operator/app", "operator/loop/control_loop", "kube/informer", "history/imports/backfill", "forecasting/service"],
)
def test_the_linter_refuses_a_clock_below_the_command(module, clock):
    lint = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--select",
        "TID251",
        "--stdin-filename",
        f"cronhpa/{module}.py",
        "-",
    ]

    ended = subprocess.run(
        lint, check=False, input=f"import time\n{clock}\n", capture_output=True, text=True, cwd=PROJECT
    )

    assert 1 == ended.returncode
    assert "TID251" in ended.stdout

"""benchmarks/sampled_operator.py: samples of a process that works name the function that works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# Until it was found at work a few times, whatever the machine does beside it.
_WORK = """
import os, signal, sampled_operator

def work():
    while sampled_operator.seen() < 5:
        sum(range(1000))

sampled_operator.app = lambda _: work()
sampled_operator.main()
os.kill(os.getpid(), signal.SIGVTALRM)
"""


def test_the_function_that_works_is_found_at_work(tmp_path):
    file = tmp_path / "samples"
    environment = os.environ | {"SAMPLES": str(file), "PYTHONPATH": f"{_BENCHMARKS}:{os.environ.get('PYTHONPATH', '')}"}

    subprocess.run([sys.executable, "-c", _WORK], env=environment, check=True, timeout=60)

    profile = json.loads(file.read_text())
    assert any(name.startswith("work ") for name in profile)
    assert sum(profile.values()) >= 5

"""
`cronhpa run` with samples of where its CPU goes, for the benchmark of a fleet (BENCH_PROFILE).

SIGPROF comes after so much CPU of the process, at most once a tick of the kernel's clock, and finds the main thread
between two instructions of Python: a function in C counts as its caller. SIGVTALRM writes what was counted since the
last one to the file that SAMPLES names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from cronhpa.cli import app

_EVERY_S = 0.001
_ROOT = f"{Path(__file__).parents[1]}/"

_own: Counter[str] = Counter()


def main() -> None:
    signal.signal(signal.SIGPROF, _sample)
    signal.signal(signal.SIGVTALRM, _write)
    signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    try:
        app(sys.argv[1:])
    finally:  # a process that ends has no handler any more, and the signal would be its end
        signal.setitimer(signal.ITIMER_PROF, 0)


def seen() -> int:
    """How many samples were taken since the last time that they were written."""
    return sum(_own.values())


def _sample(_: int, frame: FrameType | None) -> None:
    if frame is not None:
        path = frame.f_code.co_filename
        is_ours = path.startswith(_ROOT) and "site-packages" not in path
        short = path.removeprefix(_ROOT) if is_ours else "/".join(Path(path).parts[-2:])
        _own[f"{frame.f_code.co_qualname} ({short})"] += 1


def _write(*_: object) -> None:
    file = Path(os.environ["SAMPLES"])
    new = file.with_suffix(".new")
    new.write_text(json.dumps(_own))
    new.rename(file)
    _own.clear()


if __name__ == "__main__":
    main()

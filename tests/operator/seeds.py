"""
Simulated hours by seed: `PYTHONPATH=tests/operator python -m seeds 4711` replays one, `--count 10000` runs many.

A seed that breaks an invariant is printed with what was broken and what was done before; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from simulated_life import live_through
from simulated_world import Violation

_TELL_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m seeds", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    asked = parser.parse_args()
    begun = told = time.monotonic()
    seen: Counter[str] = Counter()
    broken = []
    for seed in range(asked.seed, asked.seed + asked.count):
        try:
            world = live_through(seed)
        except Violation as violation:
            broken.append(seed)
            print(f"seed {seed}: {violation}\n  again: PYTHONPATH=tests/operator python -m seeds {seed}", flush=True)
        else:
            seen.update({"scalings": len(world.scalings), "writes": len(world.writes), **world.counts})
        if time.monotonic() - told > _TELL_SECONDS:
            told = time.monotonic()
            print(f"{seed + 1 - asked.seed} of {asked.count} hours, {len(broken)} broken", flush=True)
    hours = asked.count - len(broken)
    print(f"{asked.count} hours in {time.monotonic() - begun:.0f} s: {hours} as they should be, {len(broken)} broken")
    print("met: " + ", ".join(f"{count} {name}" for name, count in seen.most_common()))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

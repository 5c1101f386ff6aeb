"""
Simulated hours by seed: `PYTHONPATH=tests/operator python -m seeds 4711` replays one, `--count 10000` runs many.

A seed that breaks an invariant is printed with what was broken and what was done before; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from multiprocessing import get_context

from simulated_life import live_through
from simulated_world import Violation

_TELL_SECONDS = 10.0
# A process keeps some 2 MB of each hour that it has lived through, so each lives through so many.
_BLOCK = 25


def lived(seeds: range) -> tuple[dict[int, str], Counter[str]]:
    """What was broken by seed, and how often what was met."""
    violations = {}
    seen: Counter[str] = Counter()
    for seed in seeds:
        try:
            world = live_through(seed)
        except Violation as violation:
            violations[seed] = str(violation)
        else:
            seen.update({"scalings": len(world.scalings), "writes": len(world.writes), **world.counts})
    return violations, seen


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m seeds", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    asked = parser.parse_args()
    begun = told = time.monotonic()
    seen: Counter[str] = Counter()
    broken = 0
    last = asked.seed + asked.count
    blocks = [range(first, min(first + _BLOCK, last)) for first in range(asked.seed, last, _BLOCK)]
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for block, (violations, counts) in zip(blocks, pool.imap(lived, blocks), strict=True):
            for seed, text in violations.items():
                print(f"seed {seed}: {text}\n  again: PYTHONPATH=tests/operator python -m seeds {seed}", flush=True)
            broken += len(violations)
            seen.update(counts)
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                print(f"{block.stop - asked.seed} of {asked.count} hours, {broken} broken", flush=True)
    hours = asked.count - broken
    print(f"{asked.count} hours in {time.monotonic() - begun:.0f} s: {hours} as they should be, {broken} broken")
    print("met: " + ", ".join(f"{count} {name}" for name, count in seen.most_common()))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

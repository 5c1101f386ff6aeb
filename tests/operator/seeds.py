"""
Simulated hours by seed: `PYTHONPATH=tests/operator python -m seeds 4711` replays one, `--count 10000` runs many.

A seed that breaks an invariant is printed with what was broken and what was done before; the exit code is 1 then.
SIGINT and SIGTERM end a run with the tally so far and the seed to go on from.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from typing import NoReturn

from simulated_life import live_through
from simulated_world import Violation

_TELL_SECONDS = 10.0
# A process keeps some 2 MB of each hour that it has lived through, so each lives through so many.
_BLOCK = 10
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED = 130

Lived = tuple[dict[int, str], Counter[str]]


def lived(seeds: range) -> Lived:
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


class Tally:
    """What became of the hours of these seeds, told as they end, in the order of their seeds."""

    def __init__(self, seeds: range, clock: Callable[[], float] = time.monotonic) -> None:
        self._seeds, self._clock = seeds, clock
        self._begun = self._told = clock()
        self._following = seeds.start
        self._seen: Counter[str] = Counter()
        self._broken = 0

    def run(self, blocks: Iterable[tuple[range, Lived]]) -> int:
        """Counts blocks until they end or a KeyboardInterrupt does. Returns the exit code."""
        is_interrupted = False
        try:
            for block, (violations, seen) in blocks:
                self._count(block, violations, seen)
        except KeyboardInterrupt:
            is_interrupted = True
        self._tell(f"{self._ended - self._broken} as they should be")
        print("met: " + ", ".join(f"{count} {name}" for name, count in self._seen.most_common()), flush=True)
        if is_interrupted:
            left = self._seeds.stop - self._following
            print(f"interrupted; go on with: make simulate SEED={self._following} SEEDS={left}", flush=True)
        return 1 if self._broken else _INTERRUPTED if is_interrupted else 0

    def _count(self, block: range, violations: dict[int, str], seen: Counter[str]) -> None:
        for seed, text in violations.items():
            print(f"seed {seed}: {text}\n  again: PYTHONPATH=tests/operator python -m seeds {seed}", flush=True)
        self._broken += len(violations)
        self._seen.update(seen)
        self._following = block.stop
        if self._clock() - self._told > _TELL_SECONDS:
            self._told = self._clock()
            self._tell(f"next is SEED={self._following}")

    @property
    def _ended(self) -> int:
        return self._following - self._seeds.start

    def _tell(self, more: str) -> None:
        seconds = self._clock() - self._begun
        rate = self._ended / seconds if seconds else 0.0
        print(
            f"{self._ended} of {len(self._seeds)} hours in {seconds:.0f} s, {rate:.1f} a second: "
            f"{self._broken} broken, {more}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m seeds", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="how many at the same time")
    asked = parser.parse_args()
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    seeds = range(asked.seed, asked.seed + asked.count)
    blocks = [seeds[first : first + _BLOCK] for first in range(0, len(seeds), _BLOCK)]
    # Each process begins as a copy of one that has imported everything.
    context = get_context("forkserver")
    context.set_forkserver_preload(["simulated_life"])
    with context.Pool(min(asked.jobs, len(blocks)), _ignore_interrupts, maxtasksperchild=1) as pool:
        return Tally(seeds).run(zip(blocks, pool.imap(lived, blocks), strict=True))


def _interrupt(*_: object) -> NoReturn:
    for number in _INTERRUPTS:  # a second one would end the run without its tally
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _ignore_interrupts() -> None:
    """A terminal interrupts each process of a run: the first of them ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())

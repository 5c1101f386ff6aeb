"""Loads that the plant divides over pods: steady ones, and recorded ones aligned in time."""

from __future__ import annotations

import bisect
import csv
import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from cronhpa.core.model.instant import Nanoseconds, parse_instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOADS = Path(__file__).parents[2] / "benchmarks" / "traces"
K8S_APP11 = LOADS / "k8s_app11_cpu_1m.csv.gz"


class Load(Protocol):
    """What the pods of a target are asked for together at an instant: cores or bytes."""

    def at(self, instant: Nanoseconds, /) -> float: ...


@dataclass(frozen=True)
class Constant:
    value: float

    def at(self, _instant: Nanoseconds, /) -> float:
        return self.value


@dataclass(frozen=True)
class Trace:
    """
    A recorded load: values at increasing instants, straight lines in between.

    Before the first and behind the last instant it holds that one's value.
    """

    instants: Sequence[Nanoseconds]
    values: Sequence[float]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The trace of a CSV file, gzipped by its name, with columns timestamp and value; skips missing values."""
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            rows = [(row["timestamp"], row["value"]) for row in csv.DictReader(file) if row["value"]]
        return cls([parse_instant(timestamp) for timestamp, _ in rows], [float(value) for _, value in rows])

    @property
    def start(self) -> Nanoseconds:
        return self.instants[0]

    @property
    def end(self) -> Nanoseconds:
        return self.instants[-1]

    def at(self, instant: Nanoseconds, /) -> float:
        right = bisect.bisect_right(self.instants, instant)
        if right == 0:
            return self.values[0]
        if right == len(self.instants):
            return self.values[-1]
        left = right - 1
        share = (instant - self.instants[left]) / (self.instants[right] - self.instants[left])
        return self.values[left] + share * (self.values[right] - self.values[left])

    def shifted(self, by: Nanoseconds) -> Self:
        """The same load, later by `by`: shifted(now - instant) makes happen now what was recorded at `instant`."""
        return replace(self, instants=[instant + by for instant in self.instants])

    def scaled(self, factor: float) -> Self:
        """The same load, `factor` times as large."""
        return replace(self, values=[value * factor for value in self.values])

    def rows(
        self, *, since: Nanoseconds | None = None, before: Nanoseconds | None = None
    ) -> Iterator[tuple[Nanoseconds, float]]:
        """(instant, value) of what was recorded in [since, before): the history that a forecast may know."""
        first = 0 if since is None else bisect.bisect_left(self.instants, since)
        stop = len(self.instants) if before is None else bisect.bisect_left(self.instants, before)
        return zip(self.instants[first:stop], self.values[first:stop], strict=True)

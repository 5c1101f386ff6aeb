"""
Which pods of a target are asked, and the numbers that are assumed for the others.

The mean of n of N pods is within 5 % of the mean of all of them at 95 % confidence where

    n >= n0 / (1 + (n0 - 1) / N),    n0 = (1.96 c / 0.05)^2

with c the coefficient of variation: the standard deviation of the pods' numbers over their mean (Cochran, Sampling
Techniques, 1977, chapter 4). c is that of the object's last scrape plus a quarter of it; before the first one 1. At
least 30 pods are asked, or all of them: with fewer the normal distribution does not hold.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, sqrt

from cronhpa.core.observation import Pod

_Z, _ERROR = 1.96, 0.05
POPULATION_MIN = 30
# The variation itself is measured on a sample, and is inexact.
_MARGIN = 1.25
UNKNOWN_VARIATION = 1.0


def sample_size(population: int, variation: float) -> int:
    """How many of so many pods are asked."""
    if population <= POPULATION_MIN:
        return population
    unbounded = (_Z * variation * _MARGIN / _ERROR) ** 2
    # The correction for a finite population is only one for n0 > 1.
    needed = ceil(unbounded / (1 + max(unbounded - 1, 0.0) / population))
    return min(population, max(POPULATION_MIN, needed))


def variation_of(values: Sequence[float]) -> float:
    """The coefficient of variation of at least two values; 0 if all are 0."""
    mean = sum(values) / len(values)
    if mean <= 0:
        return 0.0
    return sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1)) / mean


def chosen(pods: Sequence[Pod], count: int, salt: str) -> list[Pod]:
    """
    `count` of the pods, drawn by a hash of their names, so that the next draw takes the same: a rate needs two scrapes.

    salt: a secret of the operator, so that nobody can choose names that are in the sample, or out of it.
    """
    if count >= len(pods):
        return list(pods)
    return sorted(pods, key=lambda pod: zlib.crc32(f"{salt}/{pod.name}".encode()))[:count]


def extended(answered: Mapping[str, float], asked: int, others: Iterable[str]) -> dict[str, float]:
    """
    The numbers of the pods that answered, and their mean for those that were not asked.

    Of the pods that were not asked, the same share gets no number as of those that were asked: a pod without an answer
    is a missing pod, and the sample must not lower the share of missing pods.
    """
    names = sorted(others)
    if not answered or not names:
        return dict(answered)
    silent = round(len(names) * (asked - len(answered)) / asked)
    mean = sum(answered.values()) / len(answered)
    return {**answered, **dict.fromkeys(names[: len(names) - silent], mean)}

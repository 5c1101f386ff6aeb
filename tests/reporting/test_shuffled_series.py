"""Recorded series without their rhythm suggest no schedule: of 100, none."""

import numpy as np
import pytest

from cronhpa.core.model.instant import DAY
from cronhpa.history.imports.files import read_points
from cronhpa.reporting.rhythm import day_grid, windows_of
from testbed.loads import K8S_APP11

TRACES = K8S_APP11.parent
SHUFFLED = 100
PODS = 20


def week_of_days(random, values, per_day):
    """Each day begins at another time of its own."""
    days = values[: len(values) // per_day * per_day].reshape(-1, per_day)
    return np.concatenate([np.roll(day, random.integers(per_day)) for day in days])


def in_any_order(random, values, _per_day):
    return random.permutation(values)


def shuffled(number):
    """Of one of the shipped series: its values in any order, or its days each turned by a time of its own."""
    paths = sorted(TRACES.glob("*_[15]m.csv.gz"))
    points = read_points(paths[number % len(paths)])
    points = [point for point in points if point[0] > points[-1][0] - 28 * DAY]
    random = np.random.default_rng(number)
    step = points[1][0] - points[0][0]
    values = (week_of_days if number % 2 else in_any_order)(random, np.array([v for _, v in points]), DAY // step)
    return [(place * step, float(value)) for place, value in enumerate(values)], values.mean() / PODS


def found_in(number):
    load, per_pod = shuffled(number)
    return windows_of(day_grid(load, per_pod, "UTC"))


@pytest.mark.long
def test_of_a_hundred_shuffled_series_none_suggests_a_schedule():
    found = {}
    for number in range(SHUFFLED):
        if windows := found_in(number):
            found[number] = windows

    assert {} == found


def test_the_first_four_shuffled_series_suggest_none():
    assert [[]] * 4 == [found_in(number) for number in range(4)]

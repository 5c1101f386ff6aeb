"""cronhpa_models.last_value, cronhpa_models.clock_increments: the two methods that start from the load as it is now."""

import numpy as np
import pytest

from cronhpa_models.clock_increments import ClockIncrements
from cronhpa_models.last_value import LastValue
from cronhpa_models.method import on_grid

DAY = 24
SIX_O_CLOCK = 6


def told(method, load, days, level):
    """The quantile of the next step, as of the end of `load`; fitted on its first days."""
    fitted = method.fit(load[: days * DAY], steps_per_day=DAY, windows=(1,))
    later = load[days * DAY :]
    rows = np.array([len(fitted.load) - 1 + len(later)])
    return float(np.ravel(fitted.distribution(later, on_grid(fitted.load, later, rows)).quantile(0, 0, level))[0])


def doubling(days, hours):
    """A level of its own each day, twice as much from six o'clock on; the last day has 5 and ends after some hours."""
    levels = np.append(np.random.default_rng(3).uniform(4.0, 6.0, days), 5.0)
    load = np.repeat(levels, DAY) * np.where(np.arange((days + 1) * DAY) % DAY < SIX_O_CLOCK, 1.0, 2.0)
    return load[: days * DAY + hours]


def test_what_is_will_be():
    """A load that never moved is at 9 for the first time: no clock and no mean of earlier days brings it back."""
    load = np.append(np.full(10 * DAY, 3.0), 9.0)

    assert told(LastValue(), load, 10, 0.5) == pytest.approx(9.0)


def test_a_load_that_moved_by_a_tenth_a_step_is_given_a_tenth_of_room():
    """Up and down by 10 % in turns: half of the steps end above where they began, so 0.9 of them lie a tenth above."""
    load = 5.0 * np.where(np.arange(10 * DAY) % 2, 1.1, 1.0)

    upper = told(LastValue(), load[:-1], 9, 0.9)

    assert load[-2] == 5.0
    assert upper == pytest.approx(5.5, rel=0.02)


def test_a_rise_that_came_at_this_clock_comes_as_a_factor_of_todays_level():
    """
    5 at 05:00, and each day had twice as much from 06:00 on: 10 at the 0.95 quantile, whatever the levels of the other
    days were. The median knows of the hours beside it, too, which brought nothing.
    """
    assert told(ClockIncrements(), doubling(10, SIX_O_CLOCK), 10, 0.95) == pytest.approx(10.0, rel=0.05)
    assert told(ClockIncrements(), doubling(10, SIX_O_CLOCK), 10, 0.5) == pytest.approx(5.0)


def test_where_the_clock_brought_no_rise_there_is_none():
    """12 hours into the day it is 10, and stays so."""
    assert told(ClockIncrements(), doubling(10, 12), 10, 0.95) == pytest.approx(10.0, rel=0.01)


def test_less_than_a_day_says_nothing_of_a_clock():
    assert None is ClockIncrements().fit(np.full(DAY, 3.0), steps_per_day=DAY, windows=(1,))

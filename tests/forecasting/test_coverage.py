"""Whether what was issued holds: outcomes that it covered, against the share that it stated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.forecasting.coverage import OUTCOMES_MIN, coverage_percent, excess_coverage, rolling_excess

DAY = 288


def test_excess_is_the_share_that_was_covered_less_what_was_stated():
    """Of 200 outcomes 190 lie at or below what was issued for a level of 0.9: 0.95 - 0.9."""
    outcomes = np.append(np.full(190, 10.0), np.full(10, 11.0))

    assert pytest.approx(0.05) == excess_coverage(outcomes, np.full(200, 10.0), np.full(200, 0.9))


def test_fewer_than_a_hundred_outcomes_say_nothing():
    """What is not known, and that nothing was issued, is no outcome."""
    outcomes, issued, levels = np.full(101, 1.0), np.full(101, 2.0), np.full(101, 0.5)
    outcomes[0] = np.nan
    enough = excess_coverage(outcomes, issued, levels)
    issued[1] = np.nan

    assert 0.5 == enough
    assert excess_coverage(outcomes, issued, levels) is None


def test_a_load_that_differs_by_its_last_digit_is_covered():
    """A fit keeps loads with 24 bits."""
    load = np.full(OUTCOMES_MIN, 1.1)

    assert 0.0 == excess_coverage(load, load.astype(np.float32).astype(np.float64) * (1 - 1e-8), np.ones(OUTCOMES_MIN))


@pytest.mark.parametrize(
    ("level", "excess", "percent"), [(0.9, None, None), (0.9, -0.2, 70), (0.9, 0.3, 100), (0.2, -0.5, 0)]
)
def test_coverage_is_the_level_with_its_excess_between_none_and_all(level, excess, percent):
    assert percent == coverage_percent(level, excess)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 700), st.floats(0.0, 0.6))
def test_the_rolling_excess_of_each_step_is_the_excess_of_the_day_before_it(seed, length, gaps):
    """Of the day but its first step: what was issued a day ago counts no more."""
    draw = np.random.default_rng(seed)
    outcomes, issued, levels = draw.gamma(4.0, size=length), draw.gamma(5.0, size=length), draw.uniform(size=length)
    outcomes[draw.random(length) < gaps] = np.nan
    none = draw.random(length) < gaps
    issued[none] = levels[none] = np.nan

    rolling = rolling_excess(outcomes, issued, levels, DAY)

    expected = [
        excess_coverage(*(column[max(end - DAY + 1, 0) : end] for column in (outcomes, issued, levels)))
        for end in range(length + 1)
    ]
    assert [None if np.isnan(excess) else pytest.approx(excess, abs=1e-9) for excess in rolling] == expected


def test_what_comes_in_a_step_is_not_known_at_its_begin():
    draw = np.random.default_rng(3)
    outcomes, issued, levels = draw.gamma(4.0, size=600), draw.gamma(5.0, size=600), np.full(600, 0.9)
    changed = np.append(outcomes[:400], np.full(200, 1e9))

    before, after = (rolling_excess(column, issued, levels, DAY) for column in (outcomes, changed))

    np.testing.assert_array_equal(before[:401], after[:401])
    assert before[401] != after[401] or before[450] != after[450]


def test_a_recording_of_an_hour_a_step_needs_as_large_a_part_of_the_day():
    """100 of 288 steps are eight and a third of 24: nine."""
    outcomes, issued, levels = np.ones(30), np.full(30, 2.0), np.full(30, 0.9)

    is_known = ~np.isnan(rolling_excess(outcomes, issued, levels, 24))

    assert 9 == np.argmax(is_known)

"""cronhpa_models.clock: quantiles of what came at the same clock on earlier days."""

import numpy as np

from cronhpa_models.clock import quantiles_at_clock


def test_the_clock_tells_the_least_value_that_covers_a_level():
    """
    The day before weighs 0.87 in the middle and half of it beside, the day before that 0.76: of 1, 9, 1 and 5, 5, 5 a
    total of 3.26 the fives and ones cover 2.39, which is 0.73.
    """
    values = np.array([5.0, 5.0, 5.0, 0, 1.0, 9.0, 1.0, 0, 0, 0])

    by_clock = quantiles_at_clock(values, np.array([9]), [0.25, 0.73, 0.74], day=4, days=2)

    assert [1.0, 5.0, 9.0] == by_clock[:, 0].tolist()


def test_a_clock_without_a_past_says_nothing():
    assert np.isnan(quantiles_at_clock(np.arange(3.0), np.array([2]), [0.5], day=4, days=2)).all()

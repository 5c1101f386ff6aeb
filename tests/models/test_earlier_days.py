"""cronhpa_models.hourly_profile, cronhpa_models.seasonal_naive: forecasts repeat the loads of earlier days."""

import numpy as np
import pytest

from cronhpa_models.hourly_profile import HOURLY_PROFILE
from cronhpa_models.hourly_profile import expected as hourly
from cronhpa_models.method import on_grid
from cronhpa_models.seasonal_naive import SEASONAL_NAIVE
from cronhpa_models.seasonal_naive import expected as seasonal


def test_yesterday_is_expected_at_the_same_clock():
    """Four steps a day: after row 5 (of the second day) come rows 2 and 3 of the first."""
    assert [2.0, 3.0] == seasonal(np.arange(8.0), 2, day=4)[5].tolist()


def test_the_hour_is_expected_as_a_mean_and_the_same_weekday_counts_twice():
    """An hour of two steps holds 1 and 3, in seven days: mean 2; a week ago it held 10 and 12: (6 * 2 + 2 * 11) / 8."""
    day = 48
    load = np.tile([1.0, 3.0], 7 * day // 2)
    load[:2] = [10.0, 12.0]

    assert pytest.approx((6 * 2 + 2 * 11) / 8) == hourly(load, 1, day=day)[-1, 0]


@pytest.mark.parametrize("method", [HOURLY_PROFILE, SEASONAL_NAIVE], ids=lambda case: case.name)
def test_the_whole_steps_of_today_say_nothing_of_the_next(method):
    """Twenty days at 4, then two steps at 40: the median of the next step stays near 4."""
    fitted = method.fit(np.full(20 * 24, 4.0), steps_per_day=24, windows=(1,))
    later = np.full(2, 40.0)

    predicted = fitted.distribution(later, on_grid(fitted.load, later, np.array([20 * 24 + 1])))

    assert pytest.approx(4.0, rel=0.01) == predicted.quantile(0, 0, 0.5)[0]

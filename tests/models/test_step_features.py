"""What a forecast by the step looks at: the profile of earlier days, and nothing that comes later."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa_models.joined_rows import JoinedRows
from cronhpa_models.method import lagged
from cronhpa_models.step_features import FEATURES, PROFILE_AHEAD, features, profile_at, profile_of

DAY = 8


def test_the_profile_is_the_mean_of_earlier_days_and_a_day_counts_half_after_four():
    """At a clock that had 1, 5 and 3: a day ago 3 counts whole, 5 0.84 of it, 1 0.71: (3 + 4.20 + 0.71) / 2.55."""
    z = np.repeat([1.0, 5.0, 3.0], DAY)

    weight = 0.5 ** (np.arange(3) / 4)

    assert pytest.approx(weight @ [3.0, 5.0, 1.0] / weight.sum()) == profile_of(z, DAY)[3 * DAY]
    assert np.isnan(profile_of(z, DAY)[:DAY]).all()


def test_a_gap_counts_in_no_mean():
    z = np.repeat([1.0, np.nan, 3.0], DAY)

    assert pytest.approx((3.0 + 0.5**0.5) / (1 + 0.5**0.5)) == profile_of(z, DAY)[3 * DAY]


@given(st.integers(1, 5 * DAY), st.integers(0, 10**6))
def test_the_profile_of_single_rows_is_that_of_the_whole_history(rows, seed):
    """To the last bit, whatever the length: a worker asks for one row of what a backtest asks for as a day."""
    random = np.random.default_rng(seed)
    z = np.where(random.random(rows) < 0.2, np.nan, random.normal(size=rows))
    asked = np.arange(rows + PROFILE_AHEAD)
    earlier = asked - np.arange(6, 0, -1)[:, None] * DAY

    profile = profile_at(np.where((earlier >= 0) & (earlier < rows), z[np.clip(earlier, 0, rows - 1)], np.nan))

    np.testing.assert_array_equal(profile_of(z, DAY)[: len(asked)], profile)


@given(st.integers(2 * DAY, 3 * DAY - 1), st.integers(0, 10**6))
def test_nothing_after_a_row_changes_its_features(row, seed):
    random = np.random.default_rng(seed)
    one = random.normal(size=3 * DAY)
    other = np.concatenate([one[: row + 1], random.normal(size=len(one) - row - 1)])
    rows = np.array([row])

    def of(z):
        joined, profile = (JoinedRows.of([values]) for values in (z, profile_of(z, DAY)))
        return features(joined, profile, DAY, rows.astype(float), lagged(z, rows))

    np.testing.assert_array_equal(of(one), of(other))
    assert (1, FEATURES) == of(one).shape

"""Rows of several series are looked up in one pass, and no series reaches into another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa_models.joined_rows import JoinedRows

SERIES = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(SERIES, st.data())
def test_each_series_finds_its_own_rows_and_nothing_outside(lengths, data):
    several = [100.0 * number + np.arange(length) for number, length in enumerate(lengths)]
    owner = data.draw(st.integers(0, len(lengths) - 1))
    row = data.draw(st.integers(-3, 12))

    found = JoinedRows.of(several).asked_by(np.array([owner])).take(np.array([row]))

    inside = 0 <= row < lengths[owner]
    assert np.array_equal([several[owner][row] if inside else np.nan], found, equal_nan=True)


def test_rows_before_the_first_that_is_kept_are_unknown():
    """Of a series of six rows those from 4 on are kept; of another one, all three."""
    rows = JoinedRows.of([np.array([14.0, 15.0]), np.array([20.0, 21.0, 22.0])], first=[4, 0])

    found = rows.asked_by(np.array([[0], [1]])).take(np.array([3, 4, 5, 2]))

    assert [
        pytest.approx([np.nan, 14, 15, np.nan], nan_ok=True),
        pytest.approx([np.nan, np.nan, np.nan, 22], nan_ok=True),
    ] == [*found]


def test_of_series_without_rows_nothing_is_known():
    found = JoinedRows.of([np.zeros(0)]).asked_by(np.array([0, 0])).take(np.array([0, 1]))

    assert np.isnan(found).all()


def test_other_values_of_the_same_rows_lie_at_the_same_places():
    rows = JoinedRows.of([np.arange(3.0), np.arange(2.0)])

    assert [21.0] == rows.holding(np.array([0, 1, 2, 20, 21])).asked_by(np.array([1])).take(np.array([1])).tolist()

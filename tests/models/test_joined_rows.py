"""Rows of several series are looked up in one pass, and no series reaches into another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa_models.joined_rows import JoinedRows, LoggedRows, Spans

SERIES = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(SERIES, st.data())
def test_each_series_finds_its_own_rows_and_nothing_outside(lengths, data):
    several = [100.0 * number + np.arange(length) for number, length in enumerate(lengths)]
    owner = data.draw(st.integers(0, len(lengths) - 1))
    row = data.draw(st.integers(-3, 12))

    taken = JoinedRows.of(several).asked_by(np.array([owner])).take(np.array([row]))

    inside = 0 <= row < lengths[owner]
    assert np.array_equal([several[owner][row] if inside else np.nan], taken, equal_nan=True)


def test_rows_before_the_first_that_is_kept_are_unknown():
    """Of a series of six rows those from 4 on are kept; of another one, all three."""
    rows = JoinedRows.of([np.array([14.0, 15.0]), np.array([20.0, 21.0, 22.0])], first=[4, 0])

    taken = rows.asked_by(np.array([[0], [1]])).take(np.array([3, 4, 5, 2]))

    assert [
        pytest.approx([np.nan, 14, 15, np.nan], nan_ok=True),
        pytest.approx([np.nan, np.nan, np.nan, 22], nan_ok=True),
    ] == [*taken]


def test_of_series_without_rows_nothing_is_known():
    taken = JoinedRows.of([np.zeros(0)]).asked_by(np.array([0, 0])).take(np.array([0, 1]))

    assert np.isnan(taken).all()


def test_parts_of_a_series_follow_one_another():
    rows = JoinedRows.of_parts([(np.array([1, 2], np.int8), np.array([3.5])), (np.array([9.0]),)])

    assert [2.0, 3.5, 9.0] == rows.asked_by(np.array([0, 0, 1])).take(np.array([1, 2, 0])).tolist()


def test_logarithms_are_of_a_row_and_the_offset_of_its_series():
    rows = LoggedRows(JoinedRows.of([np.array([1.0, 4.0]), np.array([7.0], np.float32)]), np.array([0.5, 2.0]))

    taken = rows.asked_by(np.array([0, 1, 1])).take(np.array([1, 0, 1]))

    np.testing.assert_array_equal(np.log([4.5, 9.0, np.nan]), taken)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-2, 6)), min_size=1, max_size=5))
def test_spans_are_the_rows_of_each_series_in_turn(several):
    """One that ends before it begins has no rows."""
    first, counts = np.array(several).T

    spans = Spans.of(first, first + counts)

    expected = [(place, row) for place, (begin, count) in enumerate(several) for row in range(begin, begin + count)]
    assert expected == list(zip(spans.owner.tolist(), spans.rows.tolist(), strict=True))
    assert [max(count, 0) for count in counts] == spans.counts.tolist()

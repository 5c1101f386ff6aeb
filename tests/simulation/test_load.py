"""A load over time: lines or steps between points, and what a gap hides."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import MINUTE
from cronhpa.simulation.load import Load, Shape

POINTS = [(0, 10.0), (MINUTE, 20.0), (2 * MINUTE, 20.0), (3 * MINUTE, 0.0)]


@pytest.mark.parametrize(
    ("minutes", "value"),
    [(-5, 10), (0, 10), (0.5, 15), (1, 20), (1.5, 20), (2.25, 15), (3, 0), (60, 0)],
)
def test_a_load_goes_straight_from_point_to_point(minutes, value):
    assert value == Load(POINTS).at(round(minutes * MINUTE))


@pytest.mark.parametrize(("minutes", "value"), [(-1, 10), (0.9, 10), (1, 20), (2.9, 20), (3, 0), (9, 0)])
def test_steps_hold_until_the_next_point(minutes, value):
    assert value == Load(POINTS, shape=Shape.STEPS).at(round(minutes * MINUTE))


@pytest.mark.parametrize("shape", list(Shape), ids=lambda shape: shape.value)
def test_a_gap_longer_than_allowed_is_unknown_and_a_shorter_one_is_not(shape):
    load = Load([(0, 1.0), (15 * MINUTE, 1.0), (31 * MINUTE, 1.0)], shape=shape)

    assert 1.0 == load.at(15 * MINUTE - 1)
    assert math.isnan(load.at(15 * MINUTE))
    assert math.isnan(load.at(31 * MINUTE - 1))
    assert 1.0 == load.at(31 * MINUTE)


@given(
    st.lists(st.integers(0, 10_000), min_size=2, max_size=20, unique=True),
    st.integers(0, 10_000),
    st.sampled_from(Shape),
)
def test_a_piece_tells_the_load_until_its_end(instants, at, shape):
    load = Load([(instant, float(instant % 7)) for instant in sorted(instants)], shape=shape)

    piece = load.piece(at)

    assert piece.end > at
    middle = (at + min(piece.end, at + 1_000_000)) // 2
    assert load.at(middle) == pytest.approx(piece.value + piece.slope * (middle - at), abs=1e-9)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ([], "at least one"),
        ([(0, math.nan)], "nan"),
        ([(0, -1.0)], "-1.0"),
        ([(0, math.inf)], "inf"),
        ([(1, 1.0), (1, 2.0)], "order"),
        ([(2, 1.0), (1, 2.0)], "order"),
    ],
    ids=["empty", "nan", "negative", "infinite", "twice", "backwards"],
)
def test_what_is_no_load_is_refused(points, says):
    with pytest.raises(ValueError, match=says):
        Load(points)

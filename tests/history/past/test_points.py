"""cronhpa.history.past.points: days of points, and hours of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import HOUR, MINUTE
from cronhpa.history.past.points import POINT_STEP, Point, pack_points, thinned, unpack_points

counts = st.integers(0, 2**31 - 1)
points = st.builds(
    Point,
    at=st.integers(0, 2**63 // POINT_STEP - 1).map(lambda step: step * POINT_STEP),
    replicas=counts,
    ready=st.none() | counts,
    load=st.none() | st.floats(0, 3.4e38),
    floor=counts,
    cap=counts,
    forecast=st.none() | counts,
)


@given(st.lists(points, min_size=1, max_size=288))
def test_counts_come_back_as_they_are_and_loads_to_a_2000th(several):
    unpacked = unpack_points(pack_points(several))

    assert [(p.at, p.replicas, p.ready, p.floor, p.cap, p.forecast) for p in several] == [
        (p.at, p.replicas, p.ready, p.floor, p.cap, p.forecast) for p in unpacked
    ]
    for before, after in zip(several, unpacked, strict=True):
        assert (before.load is None) == (after.load is None)
        assert before.load is None or after.load == pytest.approx(before.load, rel=1 / 2000, abs=0)


def test_a_point_stands_at_the_begin_of_its_step():
    (point,) = unpack_points(pack_points([Point(7 * POINT_STEP + MINUTE, 1, None, None, 1, 2, None)]))

    assert 7 * POINT_STEP == point.at


blob = pack_points([Point(step * POINT_STEP, 4, 4, 1.5 + step, 2, 9, None) for step in range(12)])


@given(st.integers(0, len(blob) - 1), st.integers(0, 255))
def test_a_damaged_blob_of_points_is_named_or_read(place, byte):
    damaged = blob[:place] + bytes([byte]) + blob[place + 1 :]
    try:
        unpack_points(damaged)
    except ValueError as problem:
        told = str(problem)
    else:
        told = "points are read"

    assert told.startswith("points are")


@pytest.mark.parametrize("length", range(len(blob)))
def test_a_blob_of_points_that_is_cut_off_is_named(length):
    with pytest.raises(ValueError, match=r"points are (cut off|damaged)"):
        unpack_points(blob[:length])


def test_of_an_hour_the_point_with_the_most_replicas_is_kept_and_of_equals_the_one_with_the_largest_load():
    def point(at, replicas, load):
        return Point(at, replicas, None, load, 1, 9, None)

    first = [point(0, 4, 1.0), point(POINT_STEP, 6, 2.0), point(2 * POINT_STEP, 6, 3.0), point(3 * POINT_STEP, 5, 9.0)]
    second = [point(HOUR, 2, None), point(HOUR + POINT_STEP, 2, None)]

    assert [first[2], second[0]] == thinned([*first, *second])


def test_thinned_points_are_not_thinned_again():
    once = thinned(Point(step * POINT_STEP, step % 7, None, None, 1, 9, None) for step in range(288))

    assert 24 == len(once)
    assert once == thinned(once)

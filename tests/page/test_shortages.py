"""cronhpa.page.shortages: which minutes had too few ready pods."""

import pytest

from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, parse_instant
from cronhpa.history.past.points import POINT_STEP, Point
from cronhpa.page.shortages import ready_pods, short_spans

NOW = parse_instant("2026-11-25T10:20:00Z")


def points(*ready):
    return [Point(NOW + place * POINT_STEP, count or 1, count, 1.0, 1, 9, None) for place, count in enumerate(ready)]


def seen(*ready):
    return ready_pods(points(*ready), [], None)


def test_a_minute_is_short_where_its_load_is_above_what_ready_pods_carry():
    """Two pods carry 2.0; from the second point on three carry 3.0. Adjacent minutes are one span."""
    minutes = [(NOW + place * MINUTE, load) for place, load in enumerate([1.9, 2.1, 2.5, 2.0, 2.4, 2.4])]

    assert [(NOW + MINUTE, NOW + 3 * MINUTE), (NOW + 4 * MINUTE, NOW + 5 * MINUTE)] == short_spans(
        seen(2, 3), minutes, 1.0
    )


def test_nothing_is_short_where_ready_pods_or_capacity_are_not_known():
    minutes = [(NOW, 99.0), (NOW + HOUR, 99.0)]

    assert [] == short_spans(seen(None), minutes, 1.0)
    assert [] == short_spans(seen(2), minutes, None)
    assert [] == short_spans(seen(2), minutes[1:], 1.0)


def test_a_rise_is_put_where_the_pods_of_a_scaling_became_ready():
    """Scaled from 2 to 6 after 30 s, Ready 90 s later: two minutes are short, where points alone would mark five."""
    scalings = [(NOW - HOUR, 2), (NOW + 30 * SECOND, 6)]
    minutes = [(NOW + place * MINUTE, 5.0) for place in range(6)]

    ready = ready_pods(points(2, 6), scalings, 90 * SECOND)

    assert [(NOW, 2), (NOW + 2 * MINUTE, 6), (NOW + POINT_STEP, 6)] == ready
    assert [(NOW, NOW + 2 * MINUTE)] == short_spans(ready, minutes, 1.0)
    assert [(NOW, NOW + 5 * MINUTE)] == short_spans(seen(2, 6), minutes, 1.0)


def test_a_fall_is_put_where_the_scaling_was():
    ready = ready_pods(points(6, 2), [(NOW - HOUR, 6), (NOW + MINUTE, 2)], 90 * SECOND)

    assert [(NOW, 6), (NOW + MINUTE, 2), (NOW + POINT_STEP, 2)] == ready


@pytest.mark.parametrize(
    ("scalings", "start_up"),
    [
        ([], 90 * SECOND),
        ([(NOW - HOUR, 2), (NOW + 30 * SECOND, 6)], None),
        ([(NOW - HOUR, 6), (NOW + 30 * SECOND, 2)], 90 * SECOND),
        ([(NOW - HOUR, 2), (NOW + 4 * MINUTE, 6)], 90 * SECOND),
    ],
    ids=["no scaling", "start-up not known", "the other direction", "too late"],
)
def test_without_such_a_scaling_a_count_holds_until_the_next_point(scalings, start_up):
    assert [(NOW, 2), (NOW + POINT_STEP, 6)] == ready_pods(points(2, 6), scalings, start_up)

"""A recorded load on the operator's grid, and what was known of it at any step."""

import math

import numpy as np
import pytest

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES
from cronhpa.forecasting.recording import Recording

NOON = parse_instant("2026-03-10T12:00:00Z")


def recorded(values, *ignored, begin=NOON, every=MINUTE, end=None):
    """A point at the end of each minute from `begin` on."""
    points = [(begin + (i + 1) * every, float(value)) for i, value in enumerate(values)]
    return Recording.of(points, Span(begin, points[-1][0] if end is None else end), ignored)


def numbers(values):
    return [None if math.isnan(value) else value for value in values]


def test_a_point_belongs_to_the_minute_that_ends_at_or_after_it():
    """12:00:00 ends the minute before noon, 12:00:01 and 12:01:00 the first one after it; the higher of both counts."""
    points = [(NOON, 1.0), (NOON + SECOND, 3.0), (NOON + MINUTE, 2.0), (NOON + 2 * MINUTE, 4.0)]

    recording = Recording.of(points, Span(NOON, NOON + 2 * MINUTE))

    assert NOON - 5 * MINUTE == recording.begin
    assert [None] * 4 + [1.0, 3.0, 4.0] + [None] * 3 == numbers(recording.minutes)
    assert [1.0, 4.0] == numbers(recording.steps)


@pytest.mark.parametrize(("count", "by_minute"), [(55, True), (53, False)])
def test_it_is_by_the_minute_where_nine_of_ten_minutes_of_the_span_were_recorded(count, by_minute):
    """Of sixty: 54 points lie in the span, the one at its end behind it."""
    recording = recorded(range(count), end=NOON + HOUR)

    assert by_minute is (recording.minutes is not None)
    assert 12 == len(recording.steps)


def test_several_points_of_a_minute_tell_of_no_other_minute():
    """Four points in each of 54 minutes of an hour, and in each of 27: as many as its minutes and more, both."""
    every = 15 * SECOND

    assert recorded(range(4 * 55), every=every, end=NOON + HOUR).minutes is not None
    assert recorded(range(4 * 27), every=every, end=NOON + HOUR).minutes is None


def test_of_points_five_minutes_apart_each_is_its_step():
    recording = recorded([7, 8, 9], every=5 * MINUTE)

    assert (NOON, [7.0, 8.0, 9.0], None) == (recording.begin, recording.steps.tolist(), recording.minutes)


def test_an_ignored_span_is_a_gap_in_every_minute_that_it_touches():
    recording = recorded(range(1, 11), Span(NOON + 90 * SECOND, NOON + 3 * MINUTE), Span(0, NOON - HOUR))

    assert [1, None, None, 4, 5, 6, 7, 8, 9, 10] == numbers(recording.minutes)
    assert [5.0, 10.0] == recording.steps.tolist()


def test_what_is_left_out_is_a_gap_in_the_history_and_not_in_the_newest_loads():
    span = Span(NOON + 5 * MINUTE, NOON + 11 * MINUTE)
    points = [(NOON + (number + 1) * MINUTE, 1.0) for number in range(30)]
    recording = Recording.of(points, Span(NOON, NOON + 30 * MINUTE), (), (span,))

    known = recording.history(6)

    assert [1.0, None, None, 1.0, 1.0, 1.0] == numbers(known.steps)
    assert list(range(5, 11)) == np.flatnonzero(np.isnan(known.minutes)).tolist()
    assert not np.isnan(recording.since(0, 6).steps).any()


def test_nothing_recorded_is_a_gap_as_long_as_the_span():
    recording = Recording.of([], Span(NOON, NOON + HOUR))

    assert (NOON, [None] * 12, None) == (recording.begin, numbers(recording.steps), recording.minutes)


def test_a_row_is_the_step_that_begins_at_or_after_an_instant():
    recording = recorded(range(20))

    assert [0, 1, 1, 2] == [recording.row(NOON + offset) for offset in (0, 1, 5 * MINUTE, 5 * MINUTE + 1)]
    assert NOON + 10 * MINUTE == recording.calendar(2)


def test_an_hourly_recording_keeps_its_calendar():
    """24 steps a day: the twelfth begins half a day on."""
    assert NOON + DAY // 2 == Recording(NOON, np.zeros(48), None, 24).calendar(12)


def test_history_is_what_the_store_would_have_kept():
    """28 days of steps, nine of minutes; nothing of the step that begins."""
    minutes = np.arange(30 * 1440.0)
    history = Recording(NOON, minutes.reshape(-1, 5).max(axis=1), minutes).history(29 * 288)

    assert (28 * 288, 9 * 1440) == (len(history.steps), len(history.minutes))
    assert 29 * 1440 - 1 == history.steps[-1] == history.minutes[-1]


def test_history_begins_with_the_first_step_that_was_measured():
    steps = np.append(np.full(100, np.nan), np.arange(50.0))

    assert np.arange(20.0).tolist() == Recording(NOON, steps).history(120).steps.tolist()


def test_what_was_measured_since_a_step_brings_its_run_up_and_nothing_later():
    minutes = np.arange(3000.0)
    recent = Recording(NOON, minutes.reshape(-1, 5).max(axis=1), minutes).since(100, 110)

    assert list(range(500, 550)) == recent.minutes_since_fit.tolist()
    assert 500 - RUN_UP_MINUTES == recent.minutes[0]
    assert 10 == len(recent.steps)
    assert list(range(1, 51)) == recent.origins.tolist()


def test_a_run_up_before_the_first_minute_is_a_gap():
    minutes = np.arange(100.0)
    recent = Recording(NOON, minutes.reshape(-1, 5).max(axis=1), minutes).since(1, 3)

    assert RUN_UP_MINUTES + 10 == len(recent.minutes)
    assert RUN_UP_MINUTES - 5 == np.isnan(recent.minutes).sum()
    assert list(range(5, 15)) == recent.minutes_since_fit.tolist()

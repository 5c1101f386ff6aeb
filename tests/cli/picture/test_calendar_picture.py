"""cronhpa.cli.picture.calendar, cronhpa.cli.picture.drawing: each hour is drawn once, at its local day and hour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.situations import schedule, spec
from cronhpa.cli.picture.calendar import pieces
from cronhpa.cli.tables.bounds_table import BoundsSubject
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, parse_instant
from cronhpa.core.schedules.timeline import timeline

YEAR = parse_instant("2026-01-01T00:00:00Z")
# Midnight is skipped in Cairo and comes twice in Havana; Lord Howe changes by half an hour, Troll by two, Tokyo never.
ZONES = ["Africa/Cairo", "America/Havana", "Australia/Lord_Howe", "Antarctica/Troll", "Asia/Tokyo", "Europe/Berlin"]


def drawn(zone, start, end):
    of = spec(schedules=(schedule("night", "30 23 * * *", duration=3 * HOUR, zone=zone, floor=20, lead=0),))
    return list(pieces(BoundsSubject("shop", of, zone, timeline(of, start, end))))


@given(st.sampled_from(ZONES), st.integers(0, 365 * 24 * 60), st.integers(1, 120 * 24 * 60))
def test_the_hours_drawn_are_those_of_the_span_and_none_leaves_its_day(zone, begins, minutes):
    start = YEAR + begins * MINUTE
    texts = drawn(zone, start, start + minutes * MINUTE)

    assert minutes / 60 == pytest.approx(sum(hours for _, _, _, hours in texts))
    assert all(hour >= 0 and hours > 0 and hour + hours <= 24.0001 for _, _, hour, hours in texts)


def test_a_window_stands_at_its_local_hours_before_and_after_a_clock_change():
    """23:30 to 2:30 of 24 March, and of the 28th, when the clocks skip 2:00 to 3:00, to 3:30."""
    start = parse_instant("2027-03-23T12:00:00Z")
    floors = [
        (day.day, hour, hours)
        for segment, day, hour, hours in drawn("Europe/Berlin", start, start + 5 * DAY)
        if segment.minimum == 20
    ]

    assert [(23, 23.5, 0.5), (24, 0, 2.5)] == floors[:2]
    assert [(27, 23.5, 0.5), (28, 0, 2), (28, 3, 0.5)] == floors[-3:]

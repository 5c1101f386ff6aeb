"""Times and lengths as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.cli.tables.time_format import format_length, format_moment, parse_length, parse_moment
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, format_instant, parse_instant

NOW = parse_instant("2026-11-23T09:00:30Z")  # 10:00:30 in Berlin


def moment(text, **options):
    return format_instant(parse_moment(text, "Europe/Berlin", NOW, **options))


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("now", "2026-11-23T09:00:00Z"),
        ("2026-12-24", "2026-12-23T23:00:00Z"),
        ("2026-12-24T18:00", "2026-12-24T17:00:00Z"),
        ("2026-12-24 18:00:30", "2026-12-24T17:00:30Z"),
        ("2026-12-24T18:00:00Z", "2026-12-24T18:00:00Z"),
        ("2026-12-24T18:00:00-05:00", "2026-12-24T23:00:00Z"),
        ("18:00", "2026-11-23T17:00:00Z"),
        ("09:59", "2026-11-24T08:59:00Z"),
        ("2026-07-01", "2026-06-30T22:00:00Z"),
    ],
)
def test_a_time_is_local_unless_it_has_an_offset_and_a_time_of_day_is_the_next(text, instant):
    assert instant == moment(text)


def test_a_time_that_comes_twice_is_the_first_and_as_an_end_the_second():
    assert ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"] == [
        moment("2026-10-25T02:30", is_end=is_end) for is_end in (False, True)
    ]


@pytest.mark.parametrize("text", ["", "soon", "25:00", "2026-02-30", "2026-11-23T10:00:00+25:00", "0001-01-01", "٣:00"])
def test_a_malformed_time_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="is no time: write for example"):
        parse_moment(text, "Asia/Tokyo", NOW)


def test_a_local_time_of_a_zone_that_is_not_known_here_is_refused_and_one_with_an_offset_is_read():
    """An API server with newer zones accepts it in an object. Found: a traceback."""
    for text in ("18:00", "2026-11-23T18:00"):
        with pytest.raises(ValueError, match=r'"Mars/Port" is not an IANA time zone: .*, or an offset, such as'):
            parse_moment(text, "Mars/Port", NOW)

    assert parse_instant("2026-11-23T17:00:00Z") == parse_moment("2026-11-23T18:00:00+01:00", "Mars/Port", NOW)


LENGTHS = {"90m": 90 * MINUTE, "1h30m": 90 * MINUTE, "7d": 7 * DAY, "2w": 14 * DAY}


@pytest.mark.parametrize(("text", "length"), LENGTHS.items(), ids=list(LENGTHS))
def test_a_length_is_hours_and_minutes_or_days_or_weeks(text, length):
    assert length == parse_length(text)


@pytest.mark.parametrize("text", ["", "7", "-2h", "0d", "0s", "d", "1y", "7 d", "99999999h"])
def test_a_malformed_length_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="is no length of time: write for example"):
        parse_length(text)


def test_a_moment_is_shown_with_its_weekday_its_offset_and_the_seconds_that_it_has():
    at = parse_instant("2026-07-01T09:00:00Z")

    assert "Wed 2026-07-01 11:00 +02:00" == format_moment(at, "Europe/Berlin")
    assert "Wed 2026-07-01 09:00 +00:00" == format_moment(at, "UTC")
    assert "Wed 2026-07-01 11:00:05 +02:00" == format_moment(at + 5 * SECOND, "Europe/Berlin")


@given(st.datetimes().map(lambda wall: wall.replace(second=0, microsecond=0)), st.sampled_from(["UTC", "Asia/Tokyo"]))
def test_a_moment_that_is_shown_can_be_read(wall, zone):
    shown = wall.isoformat(timespec="minutes")
    try:
        at = parse_moment(shown, zone, NOW)
    except ValueError:
        assert wall.year in {1, 9999}
        return

    _, date, clock, _ = format_moment(at, zone).split()
    assert shown == f"{date}T{clock}"


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (10 * HOUR, "10 h"),
        (62 * HOUR, "2 d 14 h"),
        (90 * SECOND, "1 min 30 s"),
        (DAY + MINUTE, "1 d 1 min"),
        (1, "0 s"),
    ],
)
def test_a_length_is_shown_in_its_two_largest_units(length, text):
    assert text == format_length(length)

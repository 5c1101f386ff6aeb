"""cronhpa.core.model.local_time: instants as people read them, on the clock of a zone."""

import pytest

from cronhpa.core.model.instant import DAY, parse_instant
from cronhpa.core.model.local_time import format_ahead, format_length, format_moment, local_times

MONDAY = parse_instant("2026-11-23T10:00:00Z")


@pytest.mark.parametrize(
    ("at", "zone", "shown"),
    [
        ("2026-11-23T17:00:00Z", "UTC", "Mon 17:00 +00:00"),
        ("2026-11-23T17:00:00Z", "Europe/Berlin", "Mon 18:00 +01:00"),
        ("2026-11-23T23:30:00Z", "Europe/Berlin", "Tue 00:30 +01:00"),
        ("2026-11-29T23:59:00Z", "UTC", "Sun 23:59 +00:00"),
        ("2026-11-30T08:00:00Z", "UTC", "2026-11-30"),
        ("2026-11-29T23:59:00Z", "Europe/Berlin", "2026-11-30"),
        ("2027-11-23T17:00:00Z", "UTC", "2027-11-23"),
        ("2026-11-22T17:00:00Z", "UTC", "2026-11-22"),
    ],
)
def test_a_weekday_is_named_where_it_can_only_be_the_next_one(at, zone, shown):
    """Seen on Monday, 23 November 2026: the next Monday is a date. Berlin is an hour ahead."""
    assert shown == format_ahead(parse_instant(at), zone, MONDAY)


def test_instants_in_the_words_of_others_are_told_on_the_same_clocks():
    text = "from 2026-11-23T17:00:00Z until 2026-11-24T17:00:05Z"

    assert "from 18:00 +01:00 until Tue 2026-11-24 18:00:05 +01:00" == local_times(text, "Europe/Berlin", MONDAY)
    assert "v2026-11-23T17:00:00Zx" == local_times("v2026-11-23T17:00:00Zx", "Europe/Berlin", MONDAY)


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("9999-12-31T22:59:59Z", "Fri 9999-12-31 23:59:59 +01:00"),
        ("9999-12-31T23:00:00Z", "Fri 9999-12-31 23:00 +00:00"),
    ],
)
def test_an_end_for_ever_is_told_in_utc_where_the_zone_has_no_year_for_it(at, shown):
    """Berlin is an hour ahead. Found: an override until the end of 9999 ended each reconciliation of its object."""
    assert shown == format_moment(parse_instant(at), "Europe/Berlin")


@pytest.mark.parametrize(("days", "told"), [(729, "729 d"), (730, "2 years"), (2518, "6 years")])
def test_a_length_of_years_is_said_in_years(days, told):
    """Found: "2518 d 18 h" ago."""
    assert told == format_length(days * DAY)

"""cronhpa.core.schedules.wall_clock: the instants of wall times, across clock changes, and which zones there are."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import SECOND, format_instant, from_datetime
from cronhpa.core.schedules.wall_clock import to_instant, zone_problem


def meant(wall, zone, *, is_end=False):
    return format_instant(to_instant(datetime.fromisoformat(wall), zone, is_end=is_end))


def test_a_wall_time_in_a_spring_gap_moves_to_the_first_instant_that_exists():
    """Berlin, 29 March 2026: 02:00 CET becomes 03:00 CEST at 01:00Z."""
    assert "2026-03-29T00:59:00Z" == meant("2026-03-29T01:59", "Europe/Berlin")
    assert "2026-03-29T01:00:00Z" == meant("2026-03-29T02:00", "Europe/Berlin")
    assert "2026-03-29T01:00:00Z" == meant("2026-03-29T02:30", "Europe/Berlin")
    assert "2026-03-29T01:00:00Z" == meant("2026-03-29T02:30", "Europe/Berlin", is_end=True)
    assert "2026-03-29T01:00:00Z" == meant("2026-03-29T03:00", "Europe/Berlin")


def test_in_an_autumn_fold_a_start_is_the_first_and_an_end_the_second_instant():
    """Berlin, 25 October 2026: 02:30 is 00:30Z and again 01:30Z."""
    assert "2026-10-25T00:30:00Z" == meant("2026-10-25T02:30", "Europe/Berlin")
    assert "2026-10-25T01:30:00Z" == meant("2026-10-25T02:30", "Europe/Berlin", is_end=True)


def test_lord_howe_changes_by_half_an_hour():
    """4 October 2026: 02:00 (UTC+10:30) is 02:30 (UTC+11) at 15:30Z; 5 April: 02:00 (+11) is 01:30 at 15:00Z."""
    assert "2026-10-03T15:30:00Z" == meant("2026-10-04T02:10", "Australia/Lord_Howe")
    assert "2026-10-03T15:30:00Z" == meant("2026-10-04T02:30", "Australia/Lord_Howe")
    assert "2026-04-04T14:45:00Z" == meant("2026-04-05T01:45", "Australia/Lord_Howe")
    assert "2026-04-04T15:15:00Z" == meant("2026-04-05T01:45", "Australia/Lord_Howe", is_end=True)


def test_a_day_that_a_zone_skipped_whole():
    """Samoa went from 29 to 31 December 2011: all of the 30th is the first instant of the 31st, 10:00Z."""
    assert "2011-12-30T10:00:00Z" == meant("2011-12-30T00:00", "Pacific/Apia")
    assert "2011-12-30T10:00:00Z" == meant("2011-12-30T18:30", "Pacific/Apia")


@given(
    st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "UTC"]),
    st.integers(from_datetime(datetime.fromisoformat("2010-01-01T00:00Z")) // SECOND, 60 * 365 * 86_400),
)
def test_an_instant_is_meant_by_the_wall_time_that_it_shows(zone, seconds):
    """Of the two instants that show a wall time this is the first or the second: a start or an end means it."""
    instant = seconds * SECOND
    shown = datetime.fromisoformat(format_instant(instant)).astimezone(ZoneInfo(zone))
    wall = shown.replace(tzinfo=None)

    assert instant in {to_instant(wall, zone, is_end=False), to_instant(wall, zone, is_end=True)}
    assert to_instant(wall, zone, is_end=False) <= to_instant(wall, zone, is_end=True)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Asia/Kolkata"])
def test_a_zone_is_known(zone):
    assert zone_problem(zone) is None


@pytest.mark.parametrize(
    "zone",
    [
        "Berlin",
        "europe/berlin",
        "CEST",
        "+01:00",
        "",
        "../UTC",
        "/UTC",
        "America",
        "a\x00b",
        "x" * 300,
        "localtime",
        "posixrules",
        "right/UTC",
    ],
)
def test_a_zone_is_refused_with_a_name_that_works(zone):
    assert 'is not an IANA time zone: use a name such as "Europe/Berlin"' in (zone_problem(zone) or "")

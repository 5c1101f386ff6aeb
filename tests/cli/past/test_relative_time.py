"""cronhpa.cli.past.relative_time: times that have passed, as people say them, in the object's zone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.cli.past.relative_time import check_past_moment, parse_past_moment
from cronhpa.core.model.instant import DAY, format_instant, parse_instant

NOW = parse_instant("2026-11-24T09:00:30Z")  # Tuesday, 10:00:30 in Berlin


def moment(text, now=NOW, **options):
    return format_instant(parse_past_moment(text, "Europe/Berlin", now, **options))


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("now", "2026-11-24T09:00:30Z"),
        ("10:00", "2026-11-24T09:00:00Z"),
        ("10:01", "2026-11-23T09:01:00Z"),
        ("8:02:15", "2026-11-24T07:02:15Z"),
        ("today 08:02", "2026-11-24T07:02:00Z"),
        ("Yesterday  08:02", "2026-11-23T07:02:00Z"),
        ("yesterday", "2026-11-22T23:00:00Z"),
        ("tuesday 08:02", "2026-11-24T07:02:00Z"),
        ("tuesday 18:00", "2026-11-17T17:00:00Z"),
        ("last tuesday 08:02", "2026-11-17T07:02:00Z"),
        ("last tue 08:02", "2026-11-17T07:02:00Z"),
        ("wed 9:00", "2026-11-18T08:00:00Z"),
        ("monday", "2026-11-22T23:00:00Z"),
        ("2h ago", "2026-11-24T07:00:30Z"),
        ("1h30m ago", "2026-11-24T07:30:30Z"),
        ("3d ago", "2026-11-21T09:00:30Z"),
        ("5 minutes ago", "2026-11-24T08:55:30Z"),
        ("An hour ago", "2026-11-24T08:00:30Z"),
        ("1 day and 2 hours ago", "2026-11-23T07:00:30Z"),
        ("90 min ago", "2026-11-24T07:30:30Z"),
        ("2026-11-20", "2026-11-19T23:00:00Z"),
        ("2026-11-20T18:00", "2026-11-20T17:00:00Z"),
        ("2026-11-20 18:00:30", "2026-11-20T17:00:30Z"),
        ("2026-11-20T18:00:00Z", "2026-11-20T18:00:00Z"),
        ("2026-11-20T18:00:00-05:00", "2026-11-20T23:00:00Z"),
    ],
)
def test_a_time_is_the_latest_that_is_meant_in_the_objects_zone(text, instant):
    assert instant == moment(text)


def test_a_time_that_came_twice_is_the_first_and_as_an_end_the_second():
    """On 25 October 2026 the hour from 02:00 comes twice in Berlin."""
    now = parse_instant("2026-10-25T09:00:00Z")

    assert ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"] == [
        moment("today 02:30", now, is_end=is_end) for is_end in (False, True)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "tomorrow", "tomorrow 08:02", "yesterday 25:00", "yesterday8:02", "last 08:02", "last yesterday",
        "ago", "h ago", "0h ago", "-2h ago", "0 hours ago", "2 hours", "two hours ago",
        "08", "8", "08:2", "08:60", "2026-13-01", "2026-11-31",
        "1700000000", "99999999999w ago", "\uff10\uff18:02", "yesterday at 08:02", "\x00", "now ago", "tues 08:02",
        "12:00 pm",
    ],
)  # fmt: skip
def test_an_unreadable_time_is_refused_with_examples(text):
    with pytest.raises(ValueError, match='is no time: write for example "08:02", "yesterday 08:02"'):
        parse_past_moment(text, "Europe/Berlin", NOW)


@pytest.mark.parametrize("text", ["2026-11-25", "today 10:01", "2027-01-01T00:00:00Z"])
def test_a_time_in_the_future_is_refused(text):
    with pytest.raises(ValueError, match=r"which lies .* ahead: name a time that has passed"):
        parse_past_moment(text, "Europe/Berlin", NOW)


@given(
    st.integers(0, 23), st.integers(0, 59), st.sampled_from(["Europe/Berlin", "Asia/Kolkata", "UTC"]),
    st.integers(NOW, NOW + 400 * DAY),
)  # fmt: skip
def test_a_time_of_day_lies_in_the_last_day_or_so_and_never_ahead(hour, minute, zone, now):
    """25 hours, where the clocks went back in between."""
    moment = parse_past_moment(f"{hour}:{minute:02d}", zone, now)

    assert now - DAY - DAY // 24 <= moment <= now


def test_without_a_zone_a_time_is_refused_only_if_it_is_past_nowhere():
    """At 09:00:30 UTC it is 23:00:30 in the zone that is furthest ahead, UTC+14."""
    check_past_moment("2026-11-24T23:00", NOW)

    with pytest.raises(ValueError, match="14 h 30 s ahead: name a time that has passed"):
        check_past_moment("2026-11-24T23:01", NOW)
    with pytest.raises(ValueError, match=r"is no time: .* \(local time of the object's zone\)"):
        check_past_moment("yesterdy", NOW)

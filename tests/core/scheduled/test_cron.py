"""Cron texts: what is accepted, what is refused with which words, and which wall times match."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.scheduled.cron import backwards, forwards, problem


def wall(text):
    return datetime.fromisoformat(text)


def following(text, after, count=1):
    return [str(moment)[:16] for moment in islice(forwards(text, wall(after)), count)]


@pytest.mark.parametrize(
    "text",
    [
        "0 8 * * *",
        "  0 8 * * *  ",
        "*/15 8-17 1,15 jan-mar mon,wed",
        "0 8 * * MON-FRI",
        "0 8 * * 0",
        "0 8 * * 7",
        "0 8 L * *",
        "0 8 * * fri#2",
        "0 8 * * L5",
        "0 8 29 2 *",
        "0 0 29 2 mon",
        "0 0 31 4 mon",  # 31 April never comes, a Monday in April does
        "@hourly",
        "@daily",
        "@midnight",
        "@weekly",
        "@monthly",
        "@yearly",
        "@annually",
    ],
)
def test_is_accepted(text):
    assert problem(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has 0 fields, five are read"),
        ("0 8 * *", "has 4 fields, five are read"),
        ("0 0 8 * * *", "has 6 fields, five are read"),  # seconds
        ("0 8 * * * 2026", "has 6 fields, five are read"),  # years
        ("TZ=Europe/Berlin 0 8 * * *", "has 6 fields"),
        ("@every 1h", "use one of @annually, @daily, @hourly, @midnight, @monthly, @weekly, @yearly"),
        ("@reboot", "use one of @annually"),
        ("0 8 15W * *", "the day of month '15W' has 'W'"),
        ("0 8 ? * *", "the day of month '?' has '?', which is not supported"),
        ("H 8 * * *", "the minute 'H' has 'H'"),
        ("0 8 * * freitag", "the day of week 'freitag' has 'freitag', which is no name of a month or weekday"),
        ("0 8 * foo *", "the month 'foo' has 'foo'"),
        ("0 8 * * jan", "cannot be read"),
        ("0 8 mon * *", "cannot be read"),
        ("60 8 * * *", "cannot be read"),
        ("0 24 * * *", "cannot be read"),
        ("0 8 32 * *", "cannot be read"),
        ("0 8 * * 8", "cannot be read"),
        ("*/0 8 * * *", "cannot be read"),
        ("5,,6 8 * * *", "cannot be read"),
        ("0 8 * * fri#6", "cannot be read"),
        ("\u0663 8 * * *", "has '\u0663', which is not supported"),
        ("0 8 30 2 *", "names a date that never comes"),
        ("0 8 31 2,4,6 *", "names a date that never comes"),
    ],
)
def test_is_refused_with_what_was_found(text, said):
    assert said in (problem(text) or "")


def test_a_long_text_is_refused_and_not_shown_whole():
    found = problem("0 " * 5000) or ""

    assert "has 10000 characters, at most 100 are read" in found
    assert len(found) < 200


@given(st.text("0123456789*/,-#lL @monfrijaw ?\n", max_size=30))
def test_any_text_is_read_or_refused(text):
    found = problem(text)

    assert found is None or found


@pytest.mark.parametrize(
    "text", ["0-9999999999 * * * *", "0 0 1-99999999999 * *", "0-59/99999999999 * * * *", "0 0 29 2 mon#5"]
)
def test_is_judged_fast(text):
    begun = time.perf_counter()

    problem(text)

    assert time.perf_counter() - begun < 0.2


def test_day_of_month_and_weekday_both_restricted_mean_either():
    """November 2026: Friday the 13th, and the other Fridays 20 and 27; 13 December is a Sunday."""
    assert ["2026-11-13 08:00", "2026-11-20 08:00", "2026-11-27 08:00"] == following("0 8 13 * fri", "2026-11-09", 3)
    assert "2026-12-13 08:00" in following("0 8 13 * fri", "2026-12-12")


def test_seven_and_zero_are_sunday():
    assert ["2026-11-29 08:00"] == following("0 8 * * 7", "2026-11-23") == following("0 8 * * 0", "2026-11-23")


def test_l_is_the_last_day_of_the_month():
    assert ["2027-02-28 08:00", "2027-03-31 08:00"] == following("0 8 L * *", "2027-02-01", 2)


def test_a_hash_is_the_nth_weekday_of_the_month():
    """The second Friday of December 2026 is the 11th."""
    assert ["2026-12-11 08:00"] == following("0 8 * * fri#2", "2026-11-23")


def test_a_range_may_wrap_around():
    """fri-mon is Friday to Monday; 22-6 is 22:00 to 06:00."""
    assert ["2026-11-27", "2026-11-28", "2026-11-29", "2026-11-30"] == [
        moment[:10] for moment in following("0 8 * * fri-mon", "2026-11-24", 4)
    ]
    assert ["2026-11-23 22:00", "2026-11-23 23:00", "2026-11-24 00:00"] == following(
        "0 22-6 * * *", "2026-11-23 12:00", 3
    )


@pytest.mark.parametrize("text", ["0 8-8 * * *", "00 08-8 * * *", "0 8-8/2 * * *"])
def test_a_range_of_one_value_is_that_value(text):
    """croniter reads 8-8 as a range all around the clock."""
    assert ["2026-11-24 08:00"] == following(text, "2026-11-23 10:00")


def test_a_range_from_a_weekday_to_itself_is_that_day():
    assert (
        ["2026-11-30 08:00"]
        == following("0 8 * * mon-mon", "2026-11-23 10:00")
        == following("0 8 * * mon-1", "2026-11-23 10:00")
    )


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("@hourly", "2026-11-23 11:00"),
        ("@daily", "2026-11-24 00:00"),
        ("@midnight", "2026-11-24 00:00"),
        ("@weekly", "2026-11-29 00:00"),
        ("@monthly", "2026-12-01 00:00"),
        ("@yearly", "2027-01-01 00:00"),
        ("@annually", "2027-01-01 00:00"),
    ],
)
def test_a_shorthand_means(text, moment):
    assert [moment] == following(text, "2026-11-23 10:00")


def test_forwards_excludes_its_moment_and_backwards_includes_it():
    moment = wall("2026-11-23 08:00")

    assert "2026-11-24 08:00:00" == str(next(forwards("0 8 * * *", moment)))
    assert "2026-11-23 08:00:00" == str(next(backwards("0 8 * * *", moment)))


# --- against a matcher of our own --------------------------------------------------------------------------------

FIELDS = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 6)}


@st.composite
def fields(draw, low, high):
    """A field's text with the set of values it means, None where it restricts nothing."""
    first, second = sorted(draw(st.tuples(st.integers(low, high), st.integers(low, high))))
    step = draw(st.integers(2, 7))
    return draw(
        st.sampled_from(
            [
                ("*", None),
                ("*", None),
                (f"{first}", {first}),
                (f"{first},{second}", {first, second}),
                (f"{first}-{second}", set(range(first, second + 1))),
                (f"{first}-{second}/{step}", set(range(first, second + 1, step))),
            ]
        )
    )


def matches(moment, minute, hour, day, month, weekday):
    def fits(value, allowed):
        return allowed is None or value in allowed

    # Sunday is 0 in cron and 6 in Python.
    on_day, on_weekday = fits(moment.day, day), fits((moment.weekday() + 1) % 7, weekday)
    is_day = on_day or on_weekday if day is not None and weekday is not None else on_day and on_weekday
    return fits(moment.minute, minute) and fits(moment.hour, hour) and fits(moment.month, month) and is_day


@given(
    st.tuples(*(fields(*bounds) for bounds in FIELDS.values())), st.datetimes(wall("2024-01-01"), wall("2031-01-01"))
)
def test_the_next_and_the_previous_moment_match_and_lie_on_their_sides(chosen, moment):
    text = " ".join(shown for shown, _ in chosen)
    allowed = [values for _, values in chosen]
    moment = moment.replace(second=0, microsecond=0)

    later, earlier = next(forwards(text, moment), None), next(backwards(text, moment), None)

    assert later is None or (later > moment and matches(later, *allowed))
    assert earlier is None or (earlier <= moment and matches(earlier, *allowed))
    assert (earlier == moment) == matches(moment, *allowed)

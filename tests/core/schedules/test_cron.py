"""Cron expressions: accepted texts, errors of refused ones, and matching wall times."""

from __future__ import annotations

import re
import sys
import tracemalloc
from datetime import date, datetime, timedelta
from itertools import islice

import pytest
from croniter import croniter
from hypothesis import assume, given
from hypothesis import strategies as st

from cronhpa.core.schedules import cron
from cronhpa.core.schedules.cron import date_from, date_until, forwards, minutes, problem


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
        ("", "five fields are read"),
        ("0 8 * *", "five fields are read"),
        ("0 0 8 * * *", "five fields are read"),  # seconds
        ("0 8 * * * 2026", "five fields are read"),  # years
        ("TZ=Europe/Berlin 0 8 * * *", "five fields are read"),
        ("@every 1h", "use one of @annually, @daily, @hourly, @midnight, @monthly, @weekly, @yearly"),
        ("@reboot", "use one of @annually"),
        ("0 8 15W * *", 'found "15W": the day of the month is 1 to 31, or L for the last; W and ? are not known'),
        ("0 8 ? * *", 'found "?": the day of the month is 1 to 31'),
        ("H 8 * * *", 'found "H": the minute is 0 to 59'),
        ("0 8 * * freitag", 'found "freitag": the day of the week is 0 to 7, sun to sat'),
        ("0 8 * foo *", 'found "foo": the month is 1 to 12, or jan to dec'),
        ("0 8 * * jan", 'found "jan": the day of the week'),
        ("0 8 mon * *", 'found "mon": the day of the month'),
        ("60 8 * * *", 'found "60": the minute is 0 to 59'),
        ("0 24 * * *", 'found "24": the hour is 0 to 23'),
        ("0 8 32 * *", 'found "32": the day of the month'),
        ("0 8 * * 8", 'found "8": the day of the week'),
        ("*/0 8 * * *", "steps within the field (*/10)"),
        ("*/70 8 * * *", 'found "*/70": the minute is 0 to 59; values, ranges (1-5), steps within the field'),
        ("0 */24 * * *", 'found "*/24": the hour'),
        ("0 8 */32 * *", 'found "*/32": the day of the month'),
        ("0 8 * */13 *", 'found "*/13": the month'),
        ("0 8 * * */8", 'found "*/8": the day of the week'),
        ("5,,6 8 * * *", 'found "5,,6"'),
        ("0 8 * * fri#6", 'found "fri#6"'),
        ("0 8 * * fri#2,mon", 'found "fri#2,mon"'),
        ("\u0663 8 * * *", 'found "\u0663"'),
        ("0 8 30 2 *", "names a date that never comes (month 2 has at most 29 days)"),
        ("0 8 31 2,4,6 *", "names a date that never comes (month 2, 4, 6 has at most 30 days)"),
    ],
)
def test_is_refused_with_what_was_found(text, said):
    complaint = problem(text) or ""

    assert said in complaint
    assert "mon-fri" in complaint or "@annually" in complaint  # an example that works


def test_a_long_text_is_refused_and_not_shown_whole():
    complaint = problem("0 " * 5000) or ""

    assert "has 10000 characters, at most 100 are read" in complaint
    assert len(complaint) < 200


@given(st.text("0123456789*/,-#lL @monfrijaw ?\n", max_size=30))
def test_any_text_is_read_or_refused(text):
    complaint = problem(text)

    assert complaint is None or complaint


# Texts of at most 100 characters that ask for the most work: dense lists, ranges that turn around, dates that are
# rare or never come, digits that nobody counts.
COSTLY = {
    "a dense list": "0-59," * 17 + "0-59 * * * *",
    "stars": "*," * 40 + "* * * * *",
    "ranges that turn around": "59-58," * 12 + "59-58 23-22 * * *",
    "ranges that turn around in two fields": "59-58," * 6 + "59-58 " + "23-22," * 6 + "23-22 * * *",
    "zeros": "0" * 92 + " * * * *",
    "zeros before a letter": "0" * 40 + "-" + "0" * 40 + "x * * * *",
    "a huge range": "0-" + "9" * 80 + " * * * *",
    "a huge step": "0-59/" + "9" * 80 + " * * * *",
    "a long list with a mistake at its end": "0-0/1," * 14 + "0- * * * *",
    "last days": "* * " + "l," * 40 + "l * *",
    "last weekdays": "* * * * " + "l5," * 29 + "l5",
    "nth weekdays": "* * * * " + "1#1," * 22 + "1#5",
    "30 February": "0 0 30 2 *",
    "30 and 31 February": "* * 30,31 2 *",
    "31 in short months": "* * 31 2,4,6,9,11 *",
    "29 February or a fifth Monday of February": "0 0 29 2 mon#5",
    "a fifth Monday of February": "0 0 * 2 mon#5",
}


# What is known of a text is kept: with another space between its fields it is another text, as long as before.
OTHER_SPACE = "\t"


# Some ten milliseconds; the dense list takes 73,000 where nothing of it is known.
LINES_MAX = 100_000


def lines_run(call):
    """How many lines of Python a call runs: the same on every machine, however busy."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("name", COSTLY)
def test_is_judged_within_a_hundred_thousand_lines(name):
    text = COSTLY[name].replace(" ", OTHER_SPACE)

    assert lines_run(lambda: problem(text)) < LINES_MAX


def test_a_text_of_ten_megabytes_is_refused_without_a_copy_of_it():
    text = "0 " * 5_000_000
    tracemalloc.start()
    try:
        problem(text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 100_000


@given(st.text("0123456789*/,-#lL monfrijaw@x", min_size=20, max_size=100))
def test_any_text_of_the_alphabet_is_judged_within_a_hundred_thousand_lines(text):
    assert lines_run(lambda: problem(text.replace(" ", OTHER_SPACE))) < LINES_MAX


def test_a_date_that_comes_after_forty_years_is_found_without_walking_them():
    """29 February 2084 is a Tuesday; as 2100 has none, the next on a Tuesday is in 2124."""
    next_days = []

    lines = lines_run(
        lambda: next_days.extend(date_from("0 0 * 2 tue#5", date(2084, *day)) for day in ((2, 29), (3, 1)))
    )

    assert lines < LINES_MAX
    assert [date(2084, 2, 29), date(2124, 2, 29)] == next_days


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


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("0 22-4/3 * * *", [1, 4, 22]),  # croniter reads 2, 22
        ("0 20-6/5 * * *", [1, 6, 20]),
        ("0 23-23/2 * * *", [23]),
        ("0 20/2 * * *", [20, 22]),
    ],
)
def test_steps_go_on_where_a_range_turns_around(text, hours):
    assert [60 * hour for hour in hours] == list(minutes(text))


def test_steps_over_weekdays_and_months_that_turn_around():
    """fri-tue/2 is Friday, Sunday, Tuesday; nov-mar/2 is November, January, March."""
    days = [date(2026, 11, 23) + timedelta(days=number) for number in range(7)]  # from a Monday

    assert [1, 4, 6] == [day.weekday() for day in days if date_from("0 0 * * fri-tue/2", day) == day]
    assert [date(2026, 11, 1), date(2027, 1, 1), date(2027, 3, 1)] == [
        date_from("0 0 1 nov-mar/2 *", date(year, month, 1)) for year, month in ((2026, 11), (2026, 12), (2027, 2))
    ]


def test_an_nth_weekday_beside_a_day_of_the_month_is_either_too():
    """croniter takes both for needed. The second Friday of December 2026 is the 11th."""
    assert ["2026-12-01 08:00", "2026-12-11 08:00", "2027-01-01 08:00", "2027-01-08 08:00"] == following(
        "0 8 1 * fri#2", "2026-11-23", 4
    )


def test_the_last_weekday_of_a_month():
    """L5: the last Friday of December 2026 is the 25th; of January 2027 the 29th."""
    assert ["2026-12-25 08:00", "2027-01-29 08:00"] == following("0 8 * * L5", "2026-12-01", 2)


@pytest.mark.parametrize(("text", "days"), [("0 8 13 * *", 1), ("0 8 */1 * fri", 4), ("0 8 1-31 * fri", 30)])
def test_a_field_restricts_unless_it_is_a_star(text, days):
    """November 2026 has 30 days and four Fridays. `1-31` names each day, so either of both is every day."""
    assert days == len(cron.days_of(text, 2026, 11))


def test_forwards_excludes_its_moment():
    assert "2026-11-24 08:00:00" == str(next(forwards("0 8 * * *", wall("2026-11-23 08:00"))))


def test_a_date_counts_from_both_sides():
    assert (
        date(2026, 11, 23)
        == date_from("0 8 * * mon", date(2026, 11, 23))
        == date_until("0 8 * * mon", date(2026, 11, 29))
    )


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


CHOSEN = st.tuples(*(fields(*bounds) for bounds in FIELDS.values()))


@given(CHOSEN, st.datetimes(wall("2024-01-01"), wall("2031-01-01")))
def test_the_next_moment_and_the_next_and_last_date_match_and_lie_on_their_sides(chosen, moment):
    text = " ".join(shown for shown, _ in chosen)
    allowed = [values for _, values in chosen]
    moment = moment.replace(second=0, microsecond=0)
    names_today = any(matches(moment.replace(hour=at // 60, minute=at % 60), *allowed) for at in minutes(text))

    later = next(forwards(text, moment), None)
    earliest, latest = date_from(text, moment.date()), date_until(text, moment.date())

    assert later is None or (later > moment and matches(later, *allowed))
    assert names_today == (earliest == moment.date()) == (latest == moment.date())
    assert (problem(text) is None) == (earliest is not None)


@given(CHOSEN, st.datetimes(wall("2024-01-01"), wall("2031-01-01")))
def test_croniter_finds_the_same_moments_where_it_reads_the_same(chosen, moment):
    text = " ".join(shown for shown, _ in chosen)
    ranges = re.findall(r"(\d+)-(\d+)", text)
    assume(problem(text) is None and all(first != last for first, last in ranges))
    moment = moment.replace(second=0, microsecond=0)

    theirs = croniter(text, moment, max_years_between_matches=41)

    assert [theirs.get_next(datetime) for _ in range(3)] == list(islice(forwards(text, moment), 3))

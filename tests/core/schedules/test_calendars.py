"""Calendars: which dates are among days, and which holidays are known."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.schedules.holiday_codes import known
from cronhpa.core.model.spec import DateRange, Days, Holidays
from cronhpa.core.schedules.calendars import contains, first_in, first_outside, problem
from cronhpa.core.schedules.holiday_codes import COUNTRIES, PARTS

FIRST, LAST = date(2026, 1, 1), date(2027, 12, 31)
BAVARIA = Days(holidays=(Holidays("DE", "BY"),))


def test_a_range_has_both_its_ends():
    days = Days(ranges=(DateRange(date(2026, 12, 27), date(2026, 12, 31)),))

    assert [False, True, True, True, True, True, False] == [
        contains(days, date(2026, 12, 26) + timedelta(days=number)) for number in range(7)
    ]


def test_a_part_of_a_country_has_holidays_of_its_own():
    """Epiphany is a holiday in Bavaria, not in all of Germany; Christmas Day is in both."""
    germany = Days(holidays=(Holidays("DE"),))

    assert [(False, True), (True, True)] == [
        (contains(germany, day), contains(BAVARIA, day)) for day in (date(2026, 1, 6), date(2026, 12, 25))
    ]


def test_a_holiday_is_also_the_day_on_which_it_is_observed():
    """The fourth of July 2026 is a Saturday: offices are closed on Friday the third."""
    assert contains(Days(holidays=(Holidays("US"),)), date(2026, 7, 3))


def test_a_holiday_that_is_observed_in_the_year_before_is_found_there():
    """1 January 2028 is a Saturday: the United States observe it on Friday, 31 December 2027."""
    assert contains(Days(holidays=(Holidays("US"),)), date(2027, 12, 31))


def test_the_next_holiday_may_lie_in_another_year():
    assert date(2027, 1, 1) == first_in(BAVARIA, date(2026, 12, 27), LAST)
    assert first_in(BAVARIA, date(2026, 12, 27), date(2026, 12, 31)) is None


def test_what_lies_outside_begins_after_all_that_touch():
    """25 and 26 December are holidays, 27 to 31 a range, 1 January a holiday."""
    days = Days((DateRange(date(2026, 12, 27), date(2026, 12, 31)),), BAVARIA.holidays)

    assert date(2027, 1, 2) == first_outside(days, date(2026, 12, 25), LAST)


def test_a_range_to_the_end_of_time_leaves_nothing_outside():
    days = Days(ranges=(DateRange(date(2026, 1, 1), date.max),))

    assert first_outside(days, date(2026, 1, 1), LAST) is None


DATES = st.dates(FIRST, LAST)
RANGES = st.tuples(DATES, DATES).map(lambda pair: DateRange(*sorted(pair)))
DAYS = st.builds(
    Days,
    st.lists(RANGES, max_size=4).map(tuple),
    st.lists(st.sampled_from([Holidays("DE", "BY"), Holidays("US"), Holidays("JP")]), max_size=2).map(tuple),
)


@given(DAYS, DATES, DATES)
def test_the_first_date_inside_and_outside_are_what_a_walk_finds(days, first, last):
    walk = [first + timedelta(days=number) for number in range((last - first).days + 1)]

    assert next((day for day in walk if contains(days, day)), None) == first_in(days, first, last)
    assert next((day for day in walk if not contains(days, day)), None) == first_outside(days, first, last)


@pytest.mark.parametrize(
    ("country", "subdivision", "field", "said"),
    [
        ("UK", None, "country", '"UK" is not known: use GB'),
        ("DEU", None, "country", '"DEU" is not known: use an ISO 3166 code such as DE'),
        ("de", None, "country", '"de" is not known: use an ISO 3166 code such as DE'),
        ("", None, "country", '"" is not known: use an ISO 3166 code such as AD'),
        ("\u00c4\u00d6", None, "country", "use an ISO 3166 code such as DE, US"),
        ("DE", "Bayern", "subdivision", '"Bayern" is not known in DE: use a code such as BY'),
        ("DE", "??", "subdivision", '"??" is not known in DE: use a code such as BB'),
        ("VA", "RM", "subdivision", '"RM" is not known: VA has no parts with holidays of their own, leave it out'),
    ],
)
def test_unknown_holidays_are_named_with_codes_that_are_known(country, subdivision, field, said):
    complaint = problem(Holidays(country, subdivision))

    assert complaint is not None
    assert field == complaint[0]
    assert said in complaint[1]


def test_the_codes_are_those_of_the_library_that_is_installed():
    """After an update of it: PYTHONPATH=tests python -m core.schedules.holiday_codes, and make format."""
    assert known() == (COUNTRIES, PARTS)


def test_known_holidays_have_no_problem():
    assert problem(Holidays("DE")) is None
    assert problem(Holidays("DE", "BY")) is None


def test_the_library_is_imported_at_the_first_holiday_and_not_before():
    """It costs 80 ms and 11 MB, which a cluster without holidays must not pay."""
    program = """
import sys
from datetime import date
import cronhpa.operator.app
from cronhpa.core.schedules import calendars
from cronhpa.core.schedules import windows
from cronhpa.core.model.spec import CronWindow, DateRange, Days, Holidays
days = Days(ranges=(DateRange(date(2026, 12, 27), date(2026, 12, 31)),))
windows.state(CronWindow("0 8 * * *", "Europe/Berlin", end="0 18 * * *", exclude=days), 10**18)
unknown = calendars.problem(Holidays("XX")), calendars.problem(Holidays("DE", "XX")), calendars.problem(Holidays("UK"))
before = "holidays" in sys.modules or None in unknown
windows.state(CronWindow("0 8 * * *", "UTC", end="0 18 * * *", exclude=Days(holidays=(Holidays("DE"),))), 10**18)
print(before, "holidays" in sys.modules)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "False True\n" == answer.stdout

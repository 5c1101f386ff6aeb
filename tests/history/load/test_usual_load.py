"""history/load/usual_load.py: the same hours of the same weekday, over four weeks."""

from datetime import date

from msgspec.structs import replace

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, parse_instant, to_datetime
from cronhpa.core.model.spec import CronWindow, DateRange, Days, OnceWindow
from cronhpa.history.database.series import Series
from cronhpa.history.load.usual_load import usual_load

FRIDAY = parse_instant("2026-11-27T18:00:00Z")
SALE = OnceWindow("2026-11-27T18:00", "2026-11-27T20:00", "UTC")
STEP = 5 * MINUTE
SHOP = Series("prod", "shop", "cpu")


def loads(by_week, *, share=1.0):
    """Reads the steps of a history in which a whole week has one load; by_week: of 1, 2, ... weeks before."""

    def read(since, until):
        week = round((FRIDAY - since) / (7 * DAY))
        load = by_week.get(week)
        begun = range(since + -since % STEP, until, STEP)
        steps = [(at, load) for at in begun] if load is not None else []
        return steps[: round(len(steps) * share)]

    return read


def test_it_is_the_ninetieth_percentile_over_the_weeks():
    """12 steps an hour of 10, 20, 30 and 40: the 44th of 48 is 40."""
    read = loads({1: 10.0, 2: 20.0, 3: 30.0, 4: 40.0})

    assert 40.0 == usual_load(read, SALE, FRIDAY, FRIDAY + HOUR)


def test_a_single_high_step_is_not_usual():
    """One of 48 steps is 1,000: above the 90th percentile."""

    def read(since, until):
        return [(at, 1000.0 if at == FRIDAY - 7 * DAY else 10.0) for at in range(since, until, STEP)]

    assert 10.0 == usual_load(read, SALE, FRIDAY, FRIDAY + HOUR)


def test_of_a_longer_window_the_busiest_hour_counts():
    """10 in the first hour and 30 in the second."""

    def read(since, until):
        return [(at, 10.0 if at < since + HOUR else 30.0) for at in range(since, until, STEP)]

    assert 30.0 == usual_load(read, SALE, FRIDAY, FRIDAY + 2 * HOUR)


def test_one_known_week_is_not_enough_and_two_are():
    assert usual_load(loads({3: 10.0}), SALE, FRIDAY, FRIDAY + HOUR) is None
    assert 20.0 == usual_load(loads({3: 10.0, 4: 20.0}), SALE, FRIDAY, FRIDAY + HOUR)


def test_a_week_of_which_less_than_half_is_known_does_not_count():
    read = loads({1: 10.0, 2: 10.0}, share=0.4)

    assert usual_load(read, SALE, FRIDAY, FRIDAY + HOUR) is None


def test_a_window_shorter_than_a_step_without_a_history_has_no_usual_load():
    """Half of the steps of four minutes are none, so no step is enough of none: four known weeks without a load."""
    assert usual_load(loads({}), SALE, FRIDAY, FRIDAY + 4 * MINUTE) is None
    assert 10.0 == usual_load(loads({1: 10.0, 2: 10.0}), SALE, FRIDAY, FRIDAY + 4 * MINUTE)


def test_a_window_within_a_step_has_the_load_of_that_step():
    """From 18:01 to 18:05 no step begins; that of 18:00 holds its maxima."""
    read = loads({1: 10.0, 2: 20.0})

    assert 20.0 == usual_load(read, SALE, FRIDAY + MINUTE, FRIDAY + 5 * MINUTE)


def test_the_hour_is_that_of_the_local_clock_also_over_a_clock_change():
    """Berlin leaves summer time on 25 October: 18:00 is 17:00 UTC on 6 November, and 16:00 UTC on 23 October."""
    at = parse_instant("2026-11-06T17:00:00Z")
    read_at = []

    def read(since, until):
        read_at.append(since)
        return []

    usual_load(read, replace(SALE, zone="Europe/Berlin"), at, at + HOUR)

    assert parse_instant("2026-10-30T17:00:00Z") == read_at[0]
    assert parse_instant("2026-10-23T16:00:00Z") == read_at[1]


def test_the_load_that_the_event_itself_made_is_not_usual():
    """On the first Fridays of a month it holds: of 6 and 13, 20 and 27 November, 6 November does not count."""
    monthly = CronWindow("0 18 1-7 * *", "UTC", duration=2 * HOUR)

    assert 20.0 == usual_load(loads({1: 10.0, 2: 20.0, 3: 90.0}), monthly, FRIDAY, FRIDAY + HOUR)


def by_weekday(since, until):
    """50 on weekdays, 10 at weekends, 900 on Fridays, on which the event holds, and 800 on Christmas."""
    day = to_datetime(since)
    load = 900.0 if day.weekday() == 4 else 10.0 if day.weekday() >= 5 else 50.0
    return [(at, 800.0 if (day.month, day.day) == (12, 24) else load) for at in range(since, until, STEP)]


def test_an_event_of_each_week_refers_to_the_same_hours_of_the_other_weekdays():
    """16 weekdays of 50 and 8 of a weekend."""
    weekly = CronWindow("0 18 * * 5", "UTC", duration=2 * HOUR)

    assert 50.0 == usual_load(by_weekday, weekly, FRIDAY, FRIDAY + HOUR)


def test_an_event_of_each_day_has_no_usual_load():
    daily = CronWindow("0 18 * * *", "UTC", duration=2 * HOUR)

    assert usual_load(by_weekday, daily, FRIDAY, FRIDAY + HOUR) is None


def test_days_that_the_window_excludes_are_no_usual_ones():
    """Christmas Eve is excluded. It is one of four Thursdays: its load of 800 would be the 90th percentile."""
    start = parse_instant("2026-12-31T18:00:00Z")
    monthly = CronWindow("0 18 31 * *", "UTC", duration=2 * HOUR)
    eve = Days((DateRange(date(2026, 12, 24), date(2026, 12, 24)),))

    assert 800.0 == usual_load(by_weekday, monthly, start, start + HOUR)
    assert 50.0 == usual_load(by_weekday, replace(monthly, exclude=eve), start, start + HOUR)


def test_a_day_on_which_the_clock_skips_the_hour_is_read_from_the_first_instant_that_exists():
    """Berlin, 28 March 2027: at 2:00, 1:00 UTC, it is 3:00. Found: half past two was read as half past three."""
    at = parse_instant("2027-04-04T00:30:00Z")  # 2:30
    read_at = []

    def read(since, until):
        read_at.append((since, until))
        return []

    usual_load(read, replace(SALE, zone="Europe/Berlin"), at, at + HOUR)

    skipped = parse_instant("2027-03-28T01:00:00Z")
    assert (skipped, skipped + HOUR) == read_at[0]
    assert parse_instant("2027-03-21T01:30:00Z") == read_at[1][0]


def test_a_window_past_utc_midnight_is_read_from_both_days(file_store):
    """
    22:00 to 2:00, a load of its own in each hour: 30 after midnight is the busiest. Of the hours two weeks ago every
    other step is missing, which are half of them.
    """
    by_hour = {22: 10.0, 23: 20.0, 0: 30.0, 1: 25.0, 2: 900.0, 21: 900.0}
    at = parse_instant("2026-11-27T22:00:00Z")
    for week in (1, 2):
        begin = at - week * 7 * DAY
        steps = range(begin - HOUR, begin + 5 * HOUR, STEP * week)
        values = [(step, by_hour[to_datetime(step).hour]) for step in steps]
        file_store.loads.backfill(SHOP, values, width=STEP)

    def read(since, until):
        return file_store.loads.steps(SHOP, since, until)

    window = OnceWindow("2026-11-27T22:00", "2026-11-28T02:00", "UTC")
    assert 30.0 == usual_load(read, window, at, at + 4 * HOUR)

"""Windows found in a load: rises at one local time of most days; none by chance; peaks that came once."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, from_datetime, parse_instant
from cronhpa.reporting.rhythm import day_grid, likely_zone, one_time_peaks, windows_of
from reporting.made_targets import MONDAY, points, rush

PER_POD = 0.6


def windows(load, zone="UTC"):
    return windows_of(day_grid(load, PER_POD, zone))


def test_a_rise_on_weekdays_is_a_window_of_weekdays():
    """12 cores at 0.6 a pod are 20 pods, from 8:00 to 10:00 UTC on ten weekdays of two weeks."""
    (window,) = windows(points(14, lambda at: rush(at, weekdays=range(5))))

    assert ("mon-fri", 20) == (window.days, window.replicas)
    assert 8 * 60 == window.start_minute
    assert 9 * 60 <= window.end_minute <= 10 * 60 + 5
    assert 10 == len(window.support)


def test_a_day_that_does_not_rise_is_named():
    holiday = date(2026, 3, 11)
    load = points(14, lambda at: rush(at, weekdays=range(5)) if (at - MONDAY) // DAY != 9 else 1.5)

    (window,) = windows(load)

    assert (holiday,) == window.skipped


def test_a_load_that_is_always_the_same_suggests_nothing():
    assert [] == windows(points(14, lambda _: 6.0))


def test_a_slow_daily_wave_needs_no_window():
    """From 6 to 18 pods within 12 hours: half a pod in half an hour, which metrics follow."""
    load = points(14, lambda at: (12 - 6 * np.cos(2 * np.pi * (at % DAY) / DAY)) * PER_POD)

    assert [] == windows(load)


@pytest.mark.parametrize("seed", range(20))
def test_shuffled_values_suggest_nothing(seed):
    values = [value for _, value in points(14, rush)]
    shuffled = np.random.default_rng(seed).permutation(values)

    assert [] == windows([(MONDAY + place * MINUTE, float(value)) for place, value in enumerate(shuffled)])


@pytest.mark.parametrize("seed", range(20))
def test_a_rise_at_another_time_each_day_suggests_nothing(seed):
    hours = np.random.default_rng(seed).uniform(0, 22, 14)
    load = points(14, lambda at: rush(at, hour=hours[(at - MONDAY) // DAY]), step=5 * MINUTE)

    assert [] == windows(load)


def test_values_that_miss_at_the_same_time_of_each_day_are_no_rise():
    random = np.random.default_rng(1)
    load = [(at, value) for at, value in points(14, lambda _: random.uniform(3, 9)) if at % DAY >= 8 * HOUR]

    assert [] == windows(load)


def test_the_zone_of_a_load_without_nights_is_told_without_a_warning():
    """Found: the median of the hours that no day knows was a warning of numpy below the report's progress."""
    load = [(at, value) for at, value in points(14, rush) if at % DAY >= 6 * HOUR]

    assert ("UTC", False) == likely_zone(load, PER_POD, ["UTC", "Asia/Tokyo"])


def test_the_zone_is_the_one_whose_clock_change_the_load_follows():
    """8:00 in Berlin is 7:00 UTC until 29 March 2026, and 6:00 UTC from then on."""
    berlin = ZoneInfo("Europe/Berlin")

    def cores(at):
        local = datetime.fromtimestamp(at / 10**9, UTC).astimezone(berlin)
        return 12.0 if 8 <= local.hour < 18 else 1.5

    load = points(28, cores, step=5 * MINUTE, begin=parse_instant("2026-03-16T00:00:00Z"))
    zones = ("UTC", "America/New_York", "Europe/Berlin")

    assert ("Europe/Berlin", True) == likely_zone(load, PER_POD, zones)
    assert ("UTC", False) == likely_zone(load[: 10 * 288], PER_POD, zones)


def test_a_window_in_a_zone_with_a_clock_change_starts_at_one_local_time():
    load = points(28, rush, step=5 * MINUTE, begin=parse_instant("2026-03-16T00:00:00Z"))

    grid = day_grid(load, PER_POD, "Europe/Berlin")

    assert (29, 288) == grid.needed.shape
    starts = {int(np.argmax(row >= 20)) for row in grid.needed[1:-1]}
    assert {9 * 12, 10 * 12} == starts


def test_a_peak_of_one_day_is_no_window_and_is_told_with_what_is_usual():
    """Sunday, 8 March, 20:00 to 21:00: 40 pods, where all other evenings need 5."""
    begin = from_datetime(datetime(2026, 3, 8, 20, tzinfo=UTC))
    load = points(14, lambda at: 24.0 if begin <= at < begin + HOUR else 3.0)
    grid = day_grid(load, PER_POD, "UTC")

    (peak,) = one_time_peaks(grid)

    assert [] == windows_of(grid)
    assert (begin, begin + HOUR, 40, 5) == (peak.begin, peak.end, peak.replicas, peak.usual)


@pytest.mark.parametrize(("day", "begin"), [(29, "2026-03-29T08:00:00Z"), (28, "2026-03-28T09:00:00Z")])
def test_a_peak_of_the_day_of_a_clock_change_is_told_at_its_time(day, begin):
    """From 10:00 to 11:00 in Berlin, whose clocks go forward at 2:00 on 29 March: the day has 23 hours."""
    peak_at = from_datetime(datetime(2026, 3, day, 10, tzinfo=ZoneInfo("Europe/Berlin")))
    load = points(30, lambda at: 12.0 if 0 <= at - peak_at < HOUR else 1.5)

    (peak,) = one_time_peaks(day_grid(load, PER_POD, "Europe/Berlin"))

    assert (parse_instant(begin), HOUR) == (peak.begin, peak.end - peak.begin)

"""Who is fitted when."""

from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, parse_instant
from cronhpa.forecasting.refit_schedule import daily_fit_time, due
from cronhpa.history.database.series import Series
from cronhpa.history.load.fits import FitInfo

NOON = parse_instant("2026-03-01T12:00:00Z")
WEB, API, JOBS = (Series("shop", name, "cpu") for name in ("web", "api", "jobs"))


def test_new_ones_come_before_edited_ones_and_those_before_the_daily_fits_longest_waiting_first():
    old = Series("shop", "old", "cpu")
    fits = {API: FitInfo(NOON - HOUR, "before"), JOBS: FitInfo(NOON - 2 * DAY, "same"), old: FitInfo(0, "same")}
    wanted = {old: "same", JOBS: "same", API: "after", WEB: "same"}

    assert [WEB, API, old, JOBS] == due(wanted, fits, NOON)


def test_what_was_fitted_since_its_last_daily_fit_is_not_due():
    assert [] == due({WEB: "same"}, {WEB: FitInfo(daily_fit_time(WEB, NOON), "same")}, NOON)


def test_a_fit_from_the_future_is_made_anew():
    """The clock was set back."""
    assert [WEB] == due({WEB: "same"}, {WEB: FitInfo(NOON + 1, "same")}, NOON)


def test_a_fit_younger_than_half_a_day_lets_a_daily_fit_pass():
    fit_time = daily_fit_time(WEB, NOON)
    fitted = {WEB: FitInfo(fit_time - HOUR, "same")}

    assert [] == due({WEB: "same"}, fitted, fit_time + HOUR)
    assert [WEB] == due({WEB: "same"}, fitted, fit_time + DAY)


@given(st.text(max_size=20), st.integers(0, 2**62))
def test_the_daily_fit_comes_once_a_day_and_is_never_ahead(name, now):
    series = Series("shop", name, "cpu")
    fit_time = daily_fit_time(series, now)

    assert now - DAY < fit_time <= now
    assert fit_time + DAY == daily_fit_time(series, fit_time + DAY) == daily_fit_time(series, fit_time + DAY + MINUTE)
    assert fit_time == daily_fit_time(series, fit_time)


def test_the_daily_fits_of_many_are_spread_over_the_day():
    """A thousand in 24 hours: 42 an hour, give or take four standard deviations of 6.4."""
    hours = [0] * 24
    for i in range(1000):
        hours[daily_fit_time(Series("shop", f"web-{i}", "cpu"), NOON) % DAY // HOUR] += 1

    assert 16 <= min(hours)
    assert max(hours) <= 68

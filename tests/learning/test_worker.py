"""What the worker answers: forecasts with their provenance, or why there are none."""

import math

import pytest

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, MINUTE, parse_instant
from cronhpa.core.observation import Absent
from cronhpa.learning import worker
from cronhpa.learning.store import STEP, Fault, Sample, Series, Store

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
WEB = Series("shop", "web", "cpu")
API = Series("shop", "api", "cpu")


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "history.db")
    yield opened
    opened.close()


def jump(at):
    """One core until 06:00, ten after; up to 10 % more from day to day and step to step, repeatable."""
    clock = at % DAY
    return (1.0 if clock < 6 * HOUR else 10.0) * (1 + 0.05 * (1 + math.sin(at // STEP * 1.7)))


def remember(store, since, until, series=WEB, load=jump):
    store.backfill(series, [(at, load(at)) for at in range(since, until, STEP)])


def ask(store, now, *series, quantile_percent=95):
    answers, fault = worker.refresh(store.path, series or (WEB,), now, quantile_percent)
    assert fault is None
    return dict(answers)


def test_a_jump_of_past_days_is_in_the_forecast_before_it_comes(store):
    now = MIDNIGHT + 5 * HOUR + 57 * MINUTE
    remember(store, MIDNIGHT - 10 * DAY, now - now % STEP)

    forecast = ask(store, now)[WEB]

    assert forecast.load[0] < 2.0
    assert 10.0 <= forecast.load[1] <= 12.5
    assert 12 == len(forecast.load)


def test_a_forecast_says_when_and_from_what_it_was_made(store):
    now = MIDNIGHT + 57 * MINUTE
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT + 55 * MINUTE)

    forecast = ask(store, now, quantile_percent=90)[WEB]

    assert ("cpu", "PeriodicAutoregression", 90) == (forecast.metric, forecast.model, forecast.quantile_percent)
    assert (now, MIDNIGHT + 55 * MINUTE, STEP) == (forecast.issued_at, forecast.start, forecast.step)
    assert MIDNIGHT + 55 * MINUTE == forecast.trained_until


def test_the_ceiling_is_a_tenth_above_the_largest_load_of_seven_days(store):
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT, load=lambda _: 5.0)
    store.backfill(WEB, [(MIDNIGHT - 8 * DAY, 100.0), (MIDNIGHT - 6 * DAY, 20.0)])

    assert pytest.approx(22.0) == ask(store, MIDNIGHT)[WEB].ceiling


def test_what_the_running_step_has_seen_is_the_least_of_its_forecast(store):
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT)
    store.record([Sample(WEB, MIDNIGHT + MINUTE, 50.0)])

    forecast = ask(store, MIDNIGHT + 2 * MINUTE)[WEB]

    assert 50.0 == forecast.load[0]
    assert pytest.approx(55.0) == forecast.ceiling
    assert forecast.load[1] < 2.0


def test_nothing_after_now_is_looked_at(store):
    """History is stored on both sides of `now`; the answer is that of a store that ends at `now`."""
    now = MIDNIGHT + 5 * HOUR
    remember(store, MIDNIGHT - 5 * DAY, now)
    before = ask(store, now)[WEB]
    other = Store(store.path.with_name("other.db"))
    remember(other, MIDNIGHT - 5 * DAY, now)
    remember(other, now + STEP, now + 3 * DAY, load=lambda _: 777.0)

    assert before == ask(other, now)[WEB]
    other.close()


@pytest.mark.parametrize("known", [0, HOUR, 2 * DAY - STEP])
def test_under_two_days_of_history_it_is_learning(store, known):
    remember(store, MIDNIGHT - known, MIDNIGHT)

    absent = ask(store, MIDNIGHT)[WEB]

    assert "Learning" == absent.reason
    assert "forecasts begin with 48 h of history, 24 h of it measured" in absent.message


def test_learning_says_how_much_there_is(store):
    remember(store, MIDNIGHT - 30 * HOUR, MIDNIGHT - 20 * HOUR)

    assert ask(store, MIDNIGHT)[WEB].message.startswith("10 h of cpu measured over 30 h")


def test_two_days_with_hardly_anything_measured_are_not_enough(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT - 5 * DAY + 23 * HOUR)

    assert "Learning" == ask(store, MIDNIGHT)[WEB].reason


def test_two_days_of_history_are_enough(store):
    remember(store, MIDNIGHT - 2 * DAY, MIDNIGHT)

    assert isinstance(ask(store, MIDNIGHT)[WEB], Forecast)


def test_a_load_not_measured_for_longer_than_fifteen_minutes_is_stale(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT - 20 * MINUTE)

    absent = ask(store, MIDNIGHT)[WEB]

    assert (
        Absent(
            "Stale",
            "cpu was last measured before 2026-03-09T23:40:00Z: a forecast needs a load from the last 15 minutes",
        )
        == absent
    )


def test_a_load_not_measured_for_hours_is_stale(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT - 8 * HOUR)

    assert "not measured for six hours" in ask(store, MIDNIGHT)[WEB].message


def test_a_fit_lasts_a_day_while_forecasts_follow_every_step(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT + 3 * DAY)

    trained = [ask(store, MIDNIGHT + hours * HOUR)[WEB].trained_until for hours in (0, 12, 23, 24, 36)]

    assert [MIDNIGHT] * 3 + [MIDNIGHT + DAY] * 2 == trained


def test_a_fit_from_the_future_is_made_anew(store):
    """The clock was set back by two days."""
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT + 2 * DAY)
    ask(store, MIDNIGHT + 2 * DAY)

    assert MIDNIGHT == ask(store, MIDNIGHT)[WEB].trained_until


def test_a_series_that_is_new_is_fitted_beside_those_that_are_not(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT + HOUR)
    ask(store, MIDNIGHT)
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT + HOUR, API)

    answers = ask(store, MIDNIGHT + HOUR, WEB, API)

    assert {WEB: MIDNIGHT, API: MIDNIGHT + HOUR} == {each: value.trained_until for each, value in answers.items()}


def test_one_that_is_learning_does_not_keep_another_from_its_forecast(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)
    remember(store, MIDNIGHT - HOUR, MIDNIGHT, API)

    answers = ask(store, MIDNIGHT, API, WEB)

    assert isinstance(answers[WEB], Forecast)
    assert "Learning" == answers[API].reason


def test_forecasts_are_in_the_store(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)

    assert ask(store, MIDNIGHT) == store.latest_forecasts()


def test_coverage_is_counted_on_what_was_forecast_and_what_came(store):
    """Forecasts at every step of a day; then a day's outcomes at zero are all below, at 1000 all above."""
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT + DAY, load=lambda _: 5.0)
    early = ask(store, MIDNIGHT + HOUR)[WEB].coverage_percent
    for at in range(MIDNIGHT + HOUR, MIDNIGHT + 10 * HOUR, STEP):
        ask(store, at)
    below = ask(store, MIDNIGHT + 10 * HOUR)[WEB].coverage_percent
    store.backfill(WEB, [(at, 1000.0) for at in range(MIDNIGHT + HOUR, MIDNIGHT + 10 * HOUR + STEP, STEP)])
    above = ask(store, MIDNIGHT + 10 * HOUR + STEP)[WEB].coverage_percent

    assert (None, 100, 0) == (early, below, above)


def test_a_store_that_cannot_be_written_still_forecasts_and_says_so(store, monkeypatch):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)
    fault = Fault("history.db: database or disk is full: nothing was recorded")
    monkeypatch.setattr(Store, "_write", lambda _store, _work: fault)

    answers, reported = worker.refresh(store.path, [WEB], MIDNIGHT, 95)

    assert isinstance(answers[0][1], Forecast)
    assert fault == reported

"""cronhpa.forecasting.worker: how much load must be known, how new it must be, and what of it is not looked at."""

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.messages import gather
from cronhpa.history.database.series import STEP
from cronhpa.history.store import Store
from forecasting.asked_worker import MIDNIGHT, WEB, ask, fit, forecast, in_words, jump, remember, subject


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "history.db")
    yield opened
    opened.close()


def test_a_clock_that_steps_back_a_day_costs_no_forecast_and_one_that_steps_ahead_only_what_is_not_known(store):
    """Learnt at the wrong time, and again at the right one; a day after all that was measured nothing can be said."""
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT)

    ahead = ask(store, MIDNIGHT + DAY)[WEB]
    not_fitted = forecast(store, MIDNIGHT)[WEB]
    back = ask(store, MIDNIGHT)[WEB]
    further_back = ask(store, MIDNIGHT - DAY)[WEB]

    assert ["Stale", "Learning"] == [ahead.reason, not_fitted.reason]
    assert [MIDNIGHT, MIDNIGHT - DAY] == [back.issued_at, further_back.issued_at]
    assert "3 of 3 in 1 d" == in_words(back.track_record)


def test_a_week_without_any_load_is_not_fitted(store):
    """It has no errors to tell chances by; what came before it was ten days."""
    remember(store, MIDNIGHT - 18 * DAY, MIDNIGHT - 8 * DAY)
    remember(store, MIDNIGHT - HOUR, MIDNIGHT - 55 * MINUTE)

    assert (
        Absent("Learning", "too little of cpu was measured in the last seven days to learn from")
        == ask(store, MIDNIGHT)[WEB]
    )


def test_nothing_after_now_is_looked_at(store):
    """History is stored on both sides of `now`; the answer is that of a store that ends at `now`."""
    now = MIDNIGHT + 5 * HOUR
    remember(store, MIDNIGHT - 5 * DAY, now)
    before = ask(store, now)[WEB]
    other = Store(store.address.with_name("other.db"))
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


def test_of_the_first_hour_the_minutes_are_said(store):
    """Of a new object there is no length to say: the 672 h that it was said to be measured over are 28 days."""
    begin = "forecasts begin with 48 h of history, 24 h of it measured"
    assert f"no load of cpu to learn from yet: {begin}" == ask(store, MIDNIGHT)[WEB].message

    remember(store, MIDNIGHT - 10 * MINUTE, MIDNIGHT)

    assert f"10 min of cpu measured over 10 min: {begin}" == ask(store, MIDNIGHT)[WEB].message


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


@pytest.mark.parametrize("hours", [-1, 72])
def test_a_fit_of_the_future_or_of_three_days_ago_forecasts_nothing(store, hours):
    """The first is what a clock that was set back leaves."""
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT + 4 * DAY)
    fit(store, MIDNIGHT)

    assert Absent("Learning", "cpu waits to be fitted") == forecast(store, MIDNIGHT + hours * HOUR)[WEB]


def test_a_span_that_is_left_out_is_a_gap_to_what_is_fitted(store):
    """A sale of three hours at a hundred cores."""
    now, sale = MIDNIGHT, MIDNIGHT - 30 * HOUR
    remember(store, now - 5 * DAY, now, load=lambda at: 100.0 if sale <= at < sale + 3 * HOUR else jump(at))
    told = replace(subject(WEB), left_out=(Span(sale, sale + 3 * HOUR),))

    past = np.frombuffer(gather(store, [told], now)[0].highs)

    assert 36 == np.isnan(past).sum()
    assert max(ask(store, now, told)[WEB].load) < 13.0


def test_whoever_leaves_out_nearly_everything_is_told_that_it_does_not_count(store):
    """A hostile calendar, or an `exclude` of all days but the last hour."""
    now = MIDNIGHT
    remember(store, now - 10 * DAY, now)
    told = replace(subject(WEB), left_out=(Span(now - 45 * DAY, now - HOUR),))

    assert (
        "1 h of cpu measured over 1 h, without days and hours that are left out: forecasts begin with 48 h of"
        " history, 24 h of it measured"
    ) == ask(store, now, told)[WEB].message


def test_an_ignored_span_is_a_gap_to_what_is_fitted_and_to_the_ceiling(store):
    """Three hours of a hundred cores, of which two hours and a minute are ignored."""
    now, incident = MIDNIGHT, MIDNIGHT - 30 * HOUR
    remember(store, now - 5 * DAY, now, load=lambda at: 100.0 if incident <= at < incident + 3 * HOUR else jump(at))
    span = Span(incident + MINUTE, incident + 2 * HOUR + 2 * MINUTE)

    past = np.frombuffer(gather(store, [subject(WEB, span)], now)[0].highs)
    all_ignored = subject(WEB, Span(incident, incident + 3 * HOUR))

    # From the first step that it touches to the last: 0:00 to 2:00 of the incident, 25 steps of 36.
    assert (25, 11) == (np.isnan(past).sum(), (past == 100.0).sum())
    made = ask(store, now, all_ignored)[WEB]
    assert pytest.approx(12.1, rel=0.01) == made.ceiling
    assert max(made.load) < 13.0


def test_what_was_ignored_before_the_first_known_step_is_no_history(store):
    """Ten days, of which the first seven are ignored: the fit is that of three days, and two of them are evaluated."""
    now = MIDNIGHT
    remember(store, now - 10 * DAY, now)
    other = Store(store.address.with_name("other.db"))
    remember(other, now - 3 * DAY, now)

    told = fit(store, now, subject(WEB, Span(now - 20 * DAY, now - 3 * DAY)))[WEB]

    assert 2 == msgspec.json.decode(told.choice)["days"]
    assert fit(other, now)[WEB].choice == told.choice
    other.close()

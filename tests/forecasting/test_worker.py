"""What the worker answers: forecasts with their provenance, or why there are none."""

import sqlite3

import msgspec
import numpy as np
import pytest

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import CronWindow, ExternalMetric, MetricTarget, ResourceMetric, Schedule, Span
from cronhpa.forecasting import worker
from cronhpa.forecasting.coverage import OUTCOMES_MIN
from cronhpa.forecasting.messages import ForecastTarget, WorkerRequest
from cronhpa.forecasting.policy import CONSTANT, SPIKES_ALONE
from cronhpa.history.database.database import Fault
from cronhpa.history.database.series import STEP, LoadSample
from cronhpa.history.store import Store
from cronhpa_models.catalog import DEFAULT
from forecasting.asked_worker import API, MIDNIGHT, WEB, ask, fit, forecast, in_words, jump, remember, subject


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "history.db")
    yield opened
    opened.close()


def test_a_jump_of_past_days_is_in_the_forecast_before_it_comes(store):
    now = MIDNIGHT + 5 * HOUR + 57 * MINUTE
    remember(store, MIDNIGHT - 10 * DAY, now - now % STEP)

    made = ask(store, now)[WEB]

    assert made.load[0] <= made.load[1]
    assert 10.0 <= made.load[1] <= 13.5
    # The newest day, by the decisions themselves: the rise comes once a day, and reactive pods are there 3 min later.
    assert "3 of 3 in 1 d" == in_words(made.track_record)
    # The whole budget may go into a margin; that of one rise costs less than half of it.
    assert made.track_record.extra_percent < 2.5


def burst(at):
    """
    One core, and for seven minutes from each half past on of eight of ten hours, drawn anew each day, ten.

    Of rarer ones more are expected in vain: at seven of ten replicas change 880 times in nine days instead of 751, more
    than a tenth more often than reactively, and a floor that avoids little is preferred (`choose`).
    """
    hour, minute = at // HOUR, at % HOUR // MINUTE
    comes = np.random.default_rng(hour).random() < 0.8
    return 10.0 if comes and 30 <= minute < 37 else 1.0


@pytest.mark.slow
def test_a_jump_is_asked_for_by_the_minute_in_which_it_is_due(store):
    """Bursts at half past: at 27 a pod asked for now is Ready in time, at 10 it would wait for nothing."""
    until = MIDNIGHT + 10 * HOUR
    store.loads.backfill(WEB, [(at, burst(at)) for at in range(MIDNIGHT - 10 * DAY, until, MINUTE)])
    ten = subject(WEB, budget_percent=50)
    fit(store, until, ten)
    asked = {}
    for minute in (10, 20, 27, 28):
        now = until + minute * MINUTE
        store.loads.record([LoadSample(WEB, at, 1.0) for at in range(until, now, MINUTE)])
        asked[minute] = max(forecast(store, now, ten)[WEB].load)

    assert asked[10] < 3.0
    assert asked[20] < 3.0
    assert max(asked[27], asked[28]) > 9.0


def test_a_load_test_that_was_announced_raises_no_ceiling_and_is_seen_while_it_runs(store):
    """Of the ten minutes since the fit the first five are ignored: a hundred cores there, then ten."""
    until = MIDNIGHT + 10 * HOUR
    store.loads.backfill(WEB, [(at, burst(at)) for at in range(MIDNIGHT - 3 * DAY, until, MINUTE)])
    ten = subject(WEB, Span(until, until + 5 * MINUTE), budget_percent=50)
    fit(store, until, ten)
    store.loads.record([LoadSample(WEB, at, 100.0) for at in range(until, until + 5 * MINUTE, MINUTE)])
    during = forecast(store, until + 5 * MINUTE, ten)[WEB]
    store.loads.record(
        [LoadSample(WEB, at, 20.0) for at in range(until + 5 * MINUTE, until + 10 * MINUTE, MINUTE)],
    )
    after = forecast(store, until + 10 * MINUTE, ten)[WEB]

    assert (pytest.approx(11.0), pytest.approx(22.0)) == (during.ceiling, after.ceiling)


def test_three_hours_before_the_jump_nothing_is_asked_for(store):
    now = MIDNIGHT + 2 * HOUR + 57 * MINUTE
    remember(store, MIDNIGHT - 10 * DAY, now - now % STEP)

    assert max(ask(store, now)[WEB].load) < 3.0


def test_a_forecast_says_when_and_from_what_it_was_made(store):
    now = MIDNIGHT + 57 * MINUTE
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT + 55 * MINUTE)

    made = ask(store, now)[WEB]

    assert "cpu" == made.metric
    assert made.model in {*DEFAULT, CONSTANT, SPIKES_ALONE}
    assert (now, MIDNIGHT + 55 * MINUTE, STEP) == (made.issued_at, made.start, made.step)
    assert MIDNIGHT + 55 * MINUTE == made.trained_until


def test_the_ceiling_is_a_tenth_above_the_largest_load_of_seven_days(store):
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT)
    store.loads.backfill(WEB, [(MIDNIGHT - 8 * DAY, 100.0), (MIDNIGHT - 6 * DAY, 20.0)])

    assert pytest.approx(22.0) == ask(store, MIDNIGHT)[WEB].ceiling


def test_minutes_are_seen_before_their_step_is_over(store):
    """What was measured in the last two minutes may be more than all of the week before: so is what is believed."""
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT)
    fitted = fit(store, MIDNIGHT)
    store.loads.record([LoadSample(WEB, MIDNIGHT + minute * MINUTE, 50.0) for minute in (0, 1)])

    made = forecast(store, MIDNIGHT + 2 * MINUTE)[WEB]

    assert WEB in fitted
    assert pytest.approx(55.0) == made.ceiling
    assert MIDNIGHT == made.start


def test_a_load_that_never_is_short_of_pods_has_nothing_to_gain(store):
    """Of nine days each but the first was evaluated."""
    remember(store, MIDNIGHT - 9 * DAY, MIDNIGHT, load=lambda _: 5.0)

    absent = ask(store, MIDNIGHT)[WEB]

    assert Absent("NothingToGain", "no minute in 8 days was under-provisioned") == absent


def test_each_day_adds_a_confirmation_of_its_own(store):
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT + 3 * DAY)

    records = []
    for now in (MIDNIGHT, MIDNIGHT + DAY, MIDNIGHT + 2 * DAY):
        fit(store, now)
        records.append(in_words(forecast(store, now)[WEB].track_record))

    assert ["3 of 3 in 1 d", "6 of 6 in 2 d", "9 of 9 in 3 d"] == records


def capped(subject, replicas):
    return msgspec.structs.replace(subject, spec=msgspec.structs.replace(subject.spec, max_replicas=replicas))


@pytest.mark.slow
def test_what_the_decisions_do_not_bear_out_is_not_used(store):
    """
    At most 2 pods, which 1.1 cores of the night need anyway: the columns know no maximum and choose a forecast that no
    decision can follow. 10.5 cores on 2 pods that carry 1.66 each are short for the 18 hours from 06:00 on, on
    each of the nine days that were evaluated: 9 * 18 * 60 = 9720 minutes.
    """
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT)

    absent = ask(store, MIDNIGHT, capped(subject(WEB), 2))[WEB]

    assert (
        Absent(
            "NothingToGain",
            "with this object's bounds, behavior and schedules 0 of 9720 under-provisioned minutes in 9 days would be "
            "avoided at +0.0 % pod-hours: some are needed, at no more than 10 %",
        )
        == absent
    )


@pytest.mark.slow
def test_an_edit_of_the_spec_is_confirmed_anew(store):
    """What was found for a maximum of 99 says nothing of one of 2, and the other way round."""
    remember(store, MIDNIGHT - 10 * DAY, MIDNIGHT)

    fits = [ask(store, MIDNIGHT, target)[WEB] for target in (subject(WEB), capped(subject(WEB), 2), subject(WEB))]

    assert ["3 of 3 in 1 d", "NothingToGain", "3 of 3 in 1 d"] == [
        candidate.reason if isinstance(candidate, Absent) else in_words(candidate.track_record) for candidate in fits
    ]


def test_forecasts_need_no_schedules(store):
    """Fits do: they decide by them. What is ignored is read by both: here the two hours of the morning's rise."""
    eight = MIDNIGHT + 8 * HOUR
    remember(store, MIDNIGHT - 5 * DAY, eight)
    plain = subject(WEB, Span(eight - 2 * HOUR, eight))
    schedule = Schedule("office", CronWindow("0 8 * * *", "UTC", end="0 18 * * *"), floor=5)
    spec = msgspec.structs.replace(plain.spec, schedules=(schedule,))
    full = msgspec.structs.replace(plain, spec=spec, left_out=(Span(MIDNIGHT - 2 * DAY, MIDNIGHT - DAY),))
    fit(store, MIDNIGHT, full)

    made = forecast(store, eight, full)[WEB]

    assert made == forecast(store, eight, full.of_forecasts)[WEB]
    assert made != forecast(store, eight, subject(WEB))[WEB]


def test_a_series_whose_target_says_nothing_of_a_pod_is_not_forecast(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)
    plain = subject(WEB)
    utilization = (ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60)),)
    spec = msgspec.structs.replace(plain.spec, metrics=utilization)

    assert "NoPodLoad" == ask(store, MIDNIGHT, ForecastTarget(WEB, spec))[WEB].reason
    assert isinstance(ask(store, MIDNIGHT, ForecastTarget(WEB, spec, request=1660))[WEB], Forecast)


def test_what_pods_share_of_an_external_metric_is_forecast(store):
    """Requests a second at an ingress, one for each pod: as many pods are short every morning as of cores."""
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)
    plain = subject(WEB)
    ingress = (ExternalMetric("cpu", MetricTarget("AverageValue", average_value=1000)),)

    made = ask(store, MIDNIGHT, ForecastTarget(WEB, msgspec.structs.replace(plain.spec, metrics=ingress)))[WEB]

    assert "3 of 3 in 1 d" == in_words(made.track_record)


def test_forecasts_follow_every_step_from_the_fit_that_there_is(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT + 3 * DAY)
    fit(store, MIDNIGHT)

    made = [forecast(store, MIDNIGHT + hours * HOUR)[WEB] for hours in (0, 12, 71)]

    assert [MIDNIGHT] * 3 == [policy.trained_until for policy in made]
    assert [MIDNIGHT, MIDNIGHT + 12 * HOUR, MIDNIGHT + 71 * HOUR] == [policy.start for policy in made]


def test_who_is_fitted_later_is_forecast_beside_those_fitted_before(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT + HOUR)
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT + HOUR, API)
    fit(store, MIDNIGHT)
    fit(store, MIDNIGHT + HOUR, subject(API))

    answers = forecast(store, MIDNIGHT + HOUR, subject(WEB), subject(API))

    assert {WEB: MIDNIGHT, API: MIDNIGHT + HOUR} == {series: value.trained_until for series, value in answers.items()}


def test_one_that_is_learning_does_not_keep_another_from_its_forecast(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)
    remember(store, MIDNIGHT - HOUR, MIDNIGHT, API)

    answers = ask(store, MIDNIGHT, subject(API), subject(WEB))

    assert isinstance(answers[WEB], Forecast)
    assert "Learning" == answers[API].reason


def test_forecasts_are_in_the_store(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)

    assert ask(store, MIDNIGHT) == store.forecasts.newest()


def test_coverage_is_counted_on_what_was_forecast_and_what_came(store):
    """Forecasts at every step of ten hours; then outcomes at zero are all below, at 1000 all above."""
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)
    fit(store, MIDNIGHT)
    early = forecast(store, MIDNIGHT)[WEB].coverage_percent
    for at in range(MIDNIGHT, MIDNIGHT + 10 * HOUR, STEP):
        store.loads.backfill(WEB, [(at, 0.01)])
        forecast(store, at + STEP)
    below = forecast(store, MIDNIGHT + 10 * HOUR)[WEB]
    store.loads.backfill(WEB, [(at, 1000.0) for at in range(MIDNIGHT, MIDNIGHT + 10 * HOUR + STEP, STEP)])
    above = forecast(store, MIDNIGHT + 10 * HOUR + STEP)[WEB]

    assert early is None
    assert below.coverage_percent > below.quantile_percent
    assert above.coverage_percent < above.quantile_percent / 2


def test_within_a_step_coverage_stays_what_its_first_forecast_counted(store):
    """99 outcomes tell no coverage; the hundredth, which comes late, counts from the next step on."""
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)
    fit(store, MIDNIGHT)
    # The forecast of each step is of the next one: the first outcome is that of the second step.
    steps = [MIDNIGHT + number * STEP for number in range(OUTCOMES_MIN + 2)]
    for at in steps[:-1]:
        store.loads.backfill(WEB, [(at, jump(at))])
        forecast(store, at + STEP)
    end = steps[-1] + STEP
    before = forecast(store, end)[WEB].coverage_percent
    store.loads.backfill(WEB, [(steps[-1], jump(steps[-1])), (end, jump(end))])

    within, after = (forecast(store, at)[WEB].coverage_percent for at in (end + MINUTE, end + STEP))

    assert (None, None) == (before, within)
    assert after is not None


def test_a_store_that_cannot_be_written_still_forecasts_and_says_so(store):
    remember(store, MIDNIGHT - 5 * DAY, MIDNIGHT)
    fit(store, MIDNIGHT)
    fault = Fault(f"{store.address}: database or disk is full: nothing was recorded")
    other = sqlite3.connect(store.address)
    for table in ("forecast", "fit"):
        full = "SELECT RAISE(ABORT, 'database or disk is full')"
        other.execute(f"CREATE TRIGGER no_room_for_a_{table} BEFORE INSERT ON {table} BEGIN {full}; END")
    other.close()

    made = worker.forecast(WorkerRequest(str(store.address), [subject(WEB)], MIDNIGHT))

    assert isinstance(dict(made.answers)[WEB], Forecast)
    assert fault == made.fault
    assert fault == worker.fit(WorkerRequest(str(store.address), [subject(WEB)], MIDNIGHT)).fault

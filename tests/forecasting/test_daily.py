"""A policy day by day over a recording: what it knows, and when it answers."""

import msgspec
import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, MINUTE, SECOND
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings
from cronhpa.forecasting.choice import Choice
from cronhpa.forecasting.coverage import OUTCOMES_MIN
from cronhpa.forecasting.daily import DailyWalk
from cronhpa.forecasting.policy import FittedPolicy
from cronhpa.forecasting.recording import Recording
from cronhpa.history.database.series import STEP
from forecasting.made_loads import (
    MIDNIGHT,
    SPEC,
    STEPS_PER_DAY,
    WEB,
    daily_jump,
    every_four_hours,
    step_maxima,
)

DELAY = 30 * SECOND


def by_minute(minutes):
    return Recording(MIDNIGHT, step_maxima(minutes), minutes)


def by_step(steps):
    return Recording(MIDNIGHT, steps)


def days_of(recording, first, last, target=WEB, **rest):
    walk = DailyWalk(recording, target, **rest)
    return [walk.day(day * STEPS_PER_DAY) for day in range(first, last)]


def test_each_day_has_the_floors_of_every_minute_of_it_from_a_fit_at_its_begin():
    first, second = days_of(by_minute(every_four_hours(6)), 4, 6)

    assert [MIDNIGHT + 4 * DAY, MIDNIGHT + 5 * DAY] == [first.begin, second.begin]
    assert [(1, 1440)] * 2 == [day.provisioned.replicas.shape for day in (first, second)]
    assert [True, True] == [day.by_minute for day in (first, second)]


def test_a_day_that_was_not_recorded_to_its_end_is_shorter():
    (day,) = days_of(by_step(daily_jump(5)[:-100]), 4, 5)

    assert (2, STEPS_PER_DAY - 100) == day.provisioned.replicas.shape
    assert not day.by_minute


@pytest.mark.slow
def test_it_has_fitted_for_two_weeks_when_it_begins_and_evaluates_each_day_once():
    """
    As an operator that ran for a while. Before day 16 are 14 fits, at the begins of days 2 to 15, and each evaluates
    the day before it: 1 to 14. The fits of days 16 and 17 evaluate 15 and 16, and choose from the last 14 days.
    """
    tried = []

    def evaluate(begin, work):
        tried.append((begin - MIDNIGHT) // DAY)
        return work()

    first, second = days_of(by_step(daily_jump(18)), 16, 18, evaluate=evaluate)

    assert list(range(1, 17)) == tried
    assert [14, 14] == [day.fitted.choice.days for day in (first, second)]


def test_a_day_with_too_little_before_it_is_learning():
    too_early, empty, enough = days_of(by_step(daily_jump(3)), 0, 3)

    assert [Absent, Absent, FittedPolicy] == [type(day.fitted) for day in (too_early, empty, enough)]
    assert Absent("Learning", "nothing was recorded by then") == too_early.fitted
    assert {empty.fitted} == {answer for _, answer in empty.answers(DELAY, MIDNIGHT + 2 * DAY)}


def test_a_day_of_a_load_that_is_never_short_says_at_every_step_that_there_is_nothing_to_gain():
    (day,) = days_of(by_step(np.full(4 * STEPS_PER_DAY, 6.0)), 3, 4)

    answers = list(day.answers(DELAY, MIDNIGHT + 9 * DAY))

    assert [MIDNIGHT + 3 * DAY + DELAY + step * STEP for step in range(STEPS_PER_DAY)] == [at for at, _ in answers]
    assert {"NothingToGain"} == {answer.reason for _, answer in answers}
    assert day.provisioned is None
    assert np.isnan(day.excess).all()


def test_forecasts_are_issued_a_delay_after_their_minute_and_those_behind_the_end_are_not():
    (day,) = days_of(by_minute(every_four_hours(4)), 3, 4)
    begin = MIDNIGHT + 3 * DAY

    answers = list(day.answers(DELAY, begin + 10 * MINUTE))

    assert [begin + minute * MINUTE + DELAY for minute in range(10)] == [at for at, _ in answers]
    assert all(isinstance(answer, Forecast) for _, answer in answers)
    assert [at for at, _ in answers] == [answer.issued_at for _, answer in answers]
    assert {begin} == {answer.trained_until for _, answer in answers}
    assert day.provisioned.load[0, :10].tolist() == [answer.load[0] for _, answer in answers]


def test_in_a_gap_of_the_recording_a_forecast_is_stale():
    """
    From minute 60 to 79 nothing was measured: from 65 on none of the newest five minutes is known. The spike hazard
    knows the clock, and asks for pods in some of them all the same.
    """
    minutes = every_four_hours(4)
    minutes[3 * 1440 + 60 : 3 * 1440 + 80] = np.nan
    (day,) = days_of(by_minute(minutes), 3, 4)

    answers = [answer for _, answer in day.answers(DELAY, MIDNIGHT + 3 * DAY + 100 * MINUTE)]

    silent = [minute for minute in range(65, 81) if not day.provisioned.replicas[:, minute].any()]
    assert silent == [i for i, answer in enumerate(answers) if isinstance(answer, Absent)]
    assert [Absent("Stale", "cpu was not measured")] * len(silent) == [answers[minute] for minute in silent]
    assert len(silent) > 5


def test_what_the_week_before_cost_is_known_to_the_next_choice():
    """20 % beyond the plan halve the budget of the next choice, 1 %: to 0.5."""
    one_percent = msgspec.structs.replace(SPEC, forecast=ForecastSettings(budget_percent=1))
    target = msgspec.structs.replace(WEB, spec=one_percent)
    plain, dear = (DailyWalk(by_minute(every_four_hours(6)), target, catalog=()) for _ in range(2))

    fits = [walk.day(5 * STEPS_PER_DAY, spent).fitted for walk, spent in ((plain, 0.0), (dear, 20.0))]

    assert isinstance(fits[0].choice, Choice)
    assert fits[1].expected_percent <= 0.5 < fits[0].expected_percent <= 1.0


def test_coverage_is_counted_on_the_day_before_from_a_third_of_it_on():
    """A hundred outcomes of steps are the least; each minute of a step has the coverage of its begin."""
    first, second = days_of(by_minute(every_four_hours(6)), 4, 6)

    assert np.isnan(first.excess[: OUTCOMES_MIN * 5]).all()
    assert not np.isnan(first.excess[(OUTCOMES_MIN + 1) * 5 :]).any()
    assert not np.isnan(second.excess).any()
    assert (second.excess.reshape(-1, 5) == second.excess[::5, None]).all()


def test_an_object_whose_load_of_a_pod_is_not_known_is_not_walked_for():
    bare = msgspec.structs.replace(WEB, spec=msgspec.structs.replace(SPEC, metrics=()))

    with pytest.raises(ValueError, match="the spec does not tell the load of one pod"):
        days_of(by_step(daily_jump(3)), 2, 3, bare)


LOADS = {
    "minutes": by_minute(every_four_hours(6)),
    "steps": by_step(daily_jump(6) * np.random.default_rng(2).gamma(400.0, 1 / 400, 6 * STEPS_PER_DAY)),
}


@pytest.fixture(scope="module", params=LOADS)
def known(request):
    """A load, and the last two days of it."""
    load = LOADS[request.param]
    days = days_of(load, 4, 6)
    assert all(day.provisioned.replicas.any() for day in days), "floors that are never asked for prove nothing"
    return load, days


# A walk takes seconds: what fails is not made smaller.
@pytest.mark.slow
@settings(max_examples=3, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    cut=st.integers(4 * STEPS_PER_DAY, 6 * STEPS_PER_DAY - 1),
    seed=st.integers(0, 2**32 - 1),
    gap=st.sampled_from([0, 60]),
)
@example(cut=5 * STEPS_PER_DAY, seed=1, gap=0)  # the instant of a fit
def test_noise_after_an_instant_changes_no_floor_and_no_coverage_before_it(known, cut, seed, gap):
    """Fits, choices, validations, floors and coverage: none of them sees a load before it is measured."""
    load, days = known
    noise = np.random.default_rng(seed).gamma(1.0, 30.0, 5 * (len(load.steps) - cut))
    noise[:gap] = np.nan
    if load.minutes is None:
        noisy = by_step(np.append(load.steps[:cut], step_maxima(noise)))
    else:
        noisy = by_minute(np.append(load.minutes[: 5 * cut], noise))

    walked = days_of(noisy, 4, 6)

    for number, (one, other) in enumerate(zip(days, walked, strict=True), start=4):
        steps = min(cut - number * STEPS_PER_DAY, STEPS_PER_DAY)
        if steps >= 0:
            # The origin at the instant itself knows all before it.
            before = 1 + (steps if load.minutes is None else 5 * steps)
            assert one.fitted == other.fitted
            assert one.provisioned.replicas[:, :before].tolist() == other.provisioned.replicas[:, :before].tolist()
            np.testing.assert_allclose(one.provisioned.load[:, :before], other.provisioned.load[:, :before], rtol=1e-9)
            np.testing.assert_allclose(one.excess[:before], other.excess[:before])

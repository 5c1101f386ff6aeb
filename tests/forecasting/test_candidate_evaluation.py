"""cronhpa.forecasting.evaluation: every candidate on a past day, fitted on the history before that day."""

import msgspec
import numpy as np
import pytest

from cronhpa.core.model.instant import DAY
from cronhpa.forecasting.candidates import Candidate
from cronhpa.forecasting.choice import Choice, NothingToGain
from cronhpa.forecasting.evaluation import (
    RUN_UP_STEPS,
    SCORES,
    CandidateScores,
    DayScores,
    PastDay,
    past_day,
    provisioned_on_day,
    score,
)
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES, KnownLoad, RecentLoad
from cronhpa.forecasting.policy import Attempts, fit
from cronhpa.forecasting.workload import workload_of
from cronhpa_models import catalog
from forecasting.made_loads import (
    DAY_MINUTES,
    MIDNIGHT,
    PODS,
    STEPS_PER_DAY,
    WEB,
    daily_jump,
    half_past_nine,
    step_maxima,
)

RUN_UP = RUN_UP_STEPS * 5
LENGTH = RUN_UP_STEPS + STEPS_PER_DAY
CANDIDATES = (Candidate("Clock", 0.15, 0.0), Candidate("", 0.15, 0.0), Candidate("", float("inf"), 0.05))


def by_minute(minutes):
    return KnownLoad(step_maxima(minutes), minutes)


def flat(*floors):
    """The same floor in each minute of run-up and day."""
    return np.repeat(np.array(floors, np.int16)[:, None], LENGTH * 5, axis=1)


def scored(day, *floors):
    """Minutes, pods and actions of each."""
    scores = score(day, flat(*floors), PODS)
    return scores.minutes[:, 0].tolist(), scores.pods[:, 0].tolist(), scores.actions[:, 0].tolist()


def test_a_past_day_is_cut_once_with_its_run_up_and_what_was_known_before_both():
    """The day before yesterday of four: 300 steps that end a day before the history does."""
    minutes = np.arange(4.0 * DAY_MINUTES)

    day = past_day(by_minute(minutes), 2)

    assert (3 * DAY_MINUTES - 1, 2 * DAY_MINUTES - RUN_UP) == (day.minutes[-1], day.minutes[0])
    assert LENGTH == len(day.load.steps) == len(day.minutes) // 5
    assert len(day.minutes) + RUN_UP_MINUTES == len(day.load.minutes)
    assert day.minutes[0] - 1 == day.before.steps[-1] == day.before.minutes[-1]
    assert not day.are_points


@pytest.mark.parametrize(("missing", "known"), [(200, True), (201, False)])
def test_a_day_with_more_than_200_missing_minutes_is_evaluated_by_its_steps(missing, known):
    """Not by its minutes, and not with what minutes tell of the days before."""
    minutes = half_past_nine(4)
    minutes[-2 * missing :: 2] = np.nan

    day = past_day(by_minute(minutes), 1)

    assert known is (day.minutes is not None) is (day.before.minutes is not None)
    assert (LENGTH, False) == (len(day.load.steps), day.are_points)


def test_a_day_whose_first_minutes_are_no_longer_kept_is_evaluated_by_its_steps():
    minutes = half_past_nine(4)
    kept = RUN_UP_MINUTES + RUN_UP + DAY_MINUTES
    enough, few = (
        past_day(KnownLoad(step_maxima(minutes), minutes[-minutes_kept:]), 1) for minutes_kept in (kept, kept - 5)
    )

    assert (True, False) == (enough.minutes is not None, few.minutes is not None)


def test_without_any_minutes_steps_are_points():
    assert past_day(KnownLoad(daily_jump(4)), 1).are_points


def test_a_floor_over_the_jump_avoids_what_reactive_scaling_is_short_of():
    """Minutes 9:30 to 9:33 and 120 s of start-up: three minutes without a floor, none with 34 pods, nine with one."""
    day = past_day(by_minute(half_past_nine(4)), 1)

    minutes, pods, actions = scored(day, 0, 34, 1)

    assert minutes[0] == minutes[2] > 0 == minutes[1]
    assert pods[0] == pods[2] < pods[1]
    assert actions[0] == actions[2] > 0
    assert 34 * STEPS_PER_DAY <= pods[1]


def test_equal_floors_are_equally_good_wherever_they_stand():
    day = past_day(by_minute(half_past_nine(4)), 1)

    for values in scored(day, 0, 20, 0, 20):
        assert values[:2] == values[2:]


def test_a_run_up_is_played_and_not_scored():
    """A jump in the first minutes of the run-up is short before the day begins."""
    minutes = np.full(4 * DAY_MINUTES, 6.0)
    minutes[3 * DAY_MINUTES - RUN_UP + 5 : 3 * DAY_MINUTES - RUN_UP + 15] = 30.0

    scores, pods, _ = scored(past_day(by_minute(minutes), 1), 0)

    assert ([0.0], [10.0 * STEPS_PER_DAY]) == (scores, pods)


def test_points_are_joined_by_lines_from_the_end_of_one_step_to_that_of_the_next():
    """Points of steps k and k + 1 lie five minutes apart: the first ends step k."""
    draw = np.random.default_rng(1)
    steps = draw.gamma(4.0, 3.0, LENGTH)
    lines = np.interp(np.arange(LENGTH * 5) / 5 - 1, np.arange(LENGTH), steps)
    before = KnownLoad(daily_jump(2))

    points = scored(PastDay(before, RecentLoad(steps), are_points=True), 0, 20)

    history = np.append(np.full(RUN_UP_MINUTES, np.nan), lines)
    assert scored(PastDay(before, RecentLoad(steps, history)), 0, 20) == points


def test_a_rise_within_a_step_is_taken_to_happen_in_its_first_minute():
    """The maximum of a step is known at its end: what the next one rises to is there a minute later."""
    steps = np.random.default_rng(1).gamma(4.0, 3.0, LENGTH)
    early = np.repeat(np.append(steps[1:], steps[-1]), 5)
    early[::5] = steps
    before = KnownLoad(daily_jump(2))

    maxima = scored(PastDay(before, RecentLoad(steps)), 0, 20)

    history = np.append(np.full(RUN_UP_MINUTES, np.nan), early)
    assert scored(PastDay(before, RecentLoad(steps, history)), 0, 20) == maxima


def test_the_lowest_and_the_highest_count_of_a_day_are_kept_beside_its_sums():
    """At a target of 0.6 a load of 6 takes ten pods and one of 30 takes 50; with a floor of 60 there are always 60."""
    day = past_day(by_minute(half_past_nine(4)), 1)

    scores = score(day, flat(0, 60), PODS)

    assert [[10], [60]] == scores.lowest.tolist()
    assert [[50], [60]] == scores.highest.tolist()


def test_scores_of_a_day_come_back_as_they_were_kept():
    """With 32 bits each; days are put together column by column."""
    draw = np.random.default_rng(2)
    days = [CandidateScores(*draw.integers(0, 1000, (len(SCORES), 5, 1)).astype(np.float64)) for _ in range(2)]

    kept = [DayScores.of(0, day, 2.5) for day in days]
    together = CandidateScores.together([day.scores() for day in kept])

    assert [(4, 2.5, None)] * 2 == [(day.candidates, day.expected_percent, day.effect) for day in kept]
    for name in SCORES:
        assert np.hstack([getattr(day, name) for day in days]).tolist() == getattr(together, name).tolist()


@pytest.mark.parametrize("by_the_minute", [False, True], ids=["steps", "minutes"])
def test_floors_of_a_past_day_are_fitted_on_what_was_known_before_it_and_see_no_later_hour(by_the_minute):
    """Noise from noon on, and behind the day: the floors of the morning are the same."""
    draw = np.random.default_rng(5)
    minutes = np.repeat(daily_jump(), 5) * draw.uniform(0.9, 1.0, 6 * DAY_MINUTES)
    noon = len(minutes) - 3 * DAY_MINUTES // 2
    noisy = np.append(minutes[:noon], draw.uniform(0, 100, len(minutes) - noon))
    floors = []
    for day_minutes in (minutes, noisy):
        history = by_minute(day_minutes) if by_the_minute else KnownLoad(step_maxima(day_minutes))
        floors.append(provisioned_on_day(past_day(history, 2), PODS, catalog.default(), CANDIDATES, Attempts()))

    known_minutes = RUN_UP + DAY_MINUTES // 2
    assert (1 + len(CANDIDATES), LENGTH * 5) == floors[0].shape
    assert not floors[0][0].any()
    assert floors[0][1, :known_minutes].any()
    np.testing.assert_array_equal(floors[0][:, :known_minutes], floors[1][:, :known_minutes])
    assert (floors[0] != floors[1]).any()


def test_slow_pods_are_short_for_longer():
    day = past_day(by_minute(half_past_nine(4)), 1)
    slow = msgspec.structs.replace(PODS, start_up_seconds=300)

    short, longer = (score(day, flat(0), workload).minutes[0, 0] for workload in (PODS, slow))

    assert short < longer <= 7


def test_a_day_without_a_choice_is_no_plan_that_costs_are_compared_with():
    """
    Without a forecast nothing is counted, and a plan of 0 % would halve the mean of two days: the next choice would be
    planned with less, though the first one kept to its plan.
    """
    load, budgets, previous, policies = daily_jump(10), (5.0, -100.0, 5.0), None, []
    for day, budget in enumerate(budgets):
        history, now = KnownLoad(load[: (8 + day) * STEPS_PER_DAY]), MIDNIGHT + day * DAY
        known = workload_of(WEB)
        assert known is not None
        workload = msgspec.structs.replace(known, budget_percent=budget)
        spent = None if previous is None else policies[0].expected_percent
        previous = fit(history, WEB, workload, catalog.default(), now, previous=previous, spent_percent=spent)
        policies.append(previous)

    assert [Choice, NothingToGain, Choice] == [type(candidate.choice) for candidate in policies]
    plans = [day.expected_percent for day in msgspec.msgpack.decode(policies[-1].days, type=list[DayScores])]
    assert [policies[0].expected_percent, None] == plans[-2:]

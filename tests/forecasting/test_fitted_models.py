"""The floor of each candidate at an origin: from what was known there, and from nothing else."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.forecasting.candidates import CONSTANT_SHARES, COSTS, Candidate
from cronhpa.forecasting.fitted_models import (
    CEILING,
    RUN_UP_MINUTES,
    FittedModels,
    KnownLoad,
    RecentLoad,
    by_minute,
    fit_models,
    fit_spikes,
    without_gaps,
)
from cronhpa.forecasting.policy import Attempts
from cronhpa.forecasting.predictions import PredictionsRequest, SpikesRequest, predict
from cronhpa.forecasting.provisioning import provisioned_by_candidate
from cronhpa.forecasting.workload import shortages
from cronhpa_models import catalog, spike_hazard
from forecasting.made_loads import (
    DAY_MINUTES,
    PODS,
    STEPS_PER_DAY,
    daily_jump,
    every_four_hours,
    half_past_nine,
    step_maxima,
)
from forecasting.odd_methods import Odd, chosen

CANDIDATES = (
    Candidate("Clock", 0.15, 0.0),
    Candidate("NearClock", 0.35, 0.02),
    Candidate("ClockAndLoad", 0.07, 0.0),
    Candidate("", 0.07, 0.0),
    Candidate("", float("inf"), 0.05),
)
VARIANTS = {candidate.method for candidate in CANDIDATES}
SPIKES_ALONE = [Candidate("", 0.15, 0.0)]


def asked_of(past, own, workload=PODS):
    """What a spike hazard with this history is asked at every minute since the fit."""
    nothing = np.zeros(0)
    hazard = spike_hazard.FittedHazard(
        workload.lead_minutes, 0.0, 0.0, 0.0, nothing, nothing, nothing, np.log(past), np.zeros(0, int)
    )
    return SpikesRequest.of(hazard, own.minutes_since_fit, own.origins, workload)


def models(spikes, workload=PODS, *, mean_replicas=10.0, week_max=30.0):
    """
    No method but a spike hazard; a constant floor has as many replicas as percent, one by the hour as many as hours
    since the fit.
    """
    constants = tuple(round(100 * share) for share in CONSTANT_SHARES)
    by_hour = (tuple(range(24)),) * len(COSTS)
    return FittedModels(workload, (), spikes, constants, by_hour, mean_replicas, week_max, np.full(25, np.nan))


def predictions(fitted, recent, origins=None, variants=()):
    at = recent.origins if origins is None else origins
    return predict(PredictionsRequest(fitted, recent, at, variants, Attempts()))


def since(minutes, begin):
    """What is known after a fit at a minute."""
    own = minutes[begin - RUN_UP_MINUTES :]
    return RecentLoad(step_maxima(own[RUN_UP_MINUTES : len(own) // 5 * 5]), own)


def test_the_spike_hazard_asks_for_a_jump_when_it_is_due_and_lets_go_when_it_is_over():
    """Of 30 load 34 pods carry 0.9 each. One asked for when 9:27 has passed is ready before 9:31, at the latest."""
    minutes = half_past_nine(9)
    fitted = models(fit_spikes(minutes[: 8 * DAY_MINUTES], PODS))

    floors = provisioned_by_candidate(fitted, predictions(fitted, since(minutes, 8 * DAY_MINUTES)), SPIKES_ALONE)[0, 0]

    assert [34] == np.unique(floors[floors > 0]).tolist()
    asked = np.flatnonzero(floors)
    assert 566 <= asked[0] <= 567
    assert asked[-1] <= 577


@pytest.mark.parametrize("start_up", [60, 120, 150, 240])
def test_what_was_short_since_a_fit_is_what_was_short_in_all(start_up):
    """From the first minute after it on, in which here a jump begins: 150 s are late by 4 minutes and led by 3."""
    workload = msgspec.structs.replace(PODS, start_up_seconds=start_up)
    minutes = half_past_nine(9)
    fit_at = 8 * DAY_MINUTES + 570

    told = asked_of(minutes[fit_at - 8 * DAY_MINUTES : fit_at], since(minutes[: fit_at + 60], fit_at), workload)

    assert told.exceeded[0]
    assert shortages(minutes, workload)[fit_at : fit_at + 60].tolist() == told.exceeded.tolist()


def test_a_load_test_that_was_announced_is_a_gap_to_the_spike_hazard_and_no_news_to_an_origin_in_it():
    """Of ten minutes since the fit the first five are ignored: to it the load is as before, to the pods it is 30."""
    minutes = np.concatenate([np.full(DAY_MINUTES, 6.0), np.full(10, 30.0)])
    own = since(minutes, DAY_MINUTES)
    ignored = np.arange(len(own.minutes)) // 5 == RUN_UP_MINUTES // 5

    announced = RecentLoad(own.steps, own.minutes, ignored)
    expected_loads = predictions(models(None, week_max=6.0), announced)
    told = asked_of(minutes[:DAY_MINUTES], announced)

    assert [6.0] * 5 + [30.0] * 5 == pytest.approx(told.later.tolist())
    assert [50.0] * 10 == expected_loads.running.tolist()
    assert [CEILING * 6.0] * 5 + [CEILING * 30.0] * 5 == pytest.approx(expected_loads.ceiling.tolist())


@pytest.mark.parametrize("known", ["no-minutes", "no-past", "one-point-in-five-minutes"])
def test_without_single_minutes_there_is_no_spike_hazard(known):
    minutes = half_past_nine(9)
    past, recent = minutes[: 8 * DAY_MINUTES], since(minutes, 8 * DAY_MINUTES)
    sparse = np.where(np.arange(len(past)) % 5 == 0, past, np.nan)
    histories = {"no-past": None, "one-point-in-five-minutes": sparse}
    history = KnownLoad(step_maxima(past), histories.get(known, past))
    recent = RecentLoad(recent.steps) if known == "no-minutes" else recent

    fitted = fit_models(history, PODS, (), Attempts(), (1, 2))

    assert (fitted.spikes is None) is (known != "no-minutes")
    assert predictions(fitted, recent).spikes is None


def test_a_history_younger_than_eight_days_has_the_same_hazard_wherever_it_lies_in_the_span_that_is_kept():
    """Three days alone, and behind six of which nothing is known: those are neither gaps nor quiet days."""
    young = half_past_nine(3)

    alone, behind = (
        fit_spikes(minutes_known, PODS) for minutes_known in (young, np.append(np.full(6 * DAY_MINUTES, np.nan), young))
    )

    assert alone.encode() == behind.encode()
    assert fit_spikes(np.full(9 * DAY_MINUTES, np.nan), PODS) is None
    assert fit_spikes(np.zeros(0), PODS) is None


def test_in_a_gap_the_spike_hazard_knows_what_was_known_last_and_not_what_comes_after_it():
    """From 8:00 to 9:00 nothing is known; then it is 6 or 30: until then every minute of the day is told alike."""
    minutes = half_past_nine(9)
    fitted = models(fit_spikes(minutes[: 8 * DAY_MINUTES], PODS))
    spikes_of_days = []
    for after in (6.0, 30.0):
        day = minutes.copy()
        day[8 * DAY_MINUTES + 480 : 8 * DAY_MINUTES + 540] = np.nan
        day[8 * DAY_MINUTES + 540 :] = after
        spikes_of_days.append(predictions(fitted, since(day, 8 * DAY_MINUTES)).spikes)

    (one, held_one), (two, held_two) = spikes_of_days
    np.testing.assert_array_equal(one.chance[:540], two.chance[:540])
    np.testing.assert_array_equal(held_one[:540], held_two[:540])
    assert (10, 50) == (held_one[540], held_two[540])  # 6 / 0.6, 30 / 0.6


def test_the_largest_load_that_is_believed_is_a_tenth_above_that_of_the_week_and_of_what_came_since():
    """A hundred eight days ago is forgotten, twenty six days ago counts until thirty come."""
    steps = np.full(10 * STEPS_PER_DAY, 5.0)
    steps[2 * STEPS_PER_DAY - 1], steps[4 * STEPS_PER_DAY] = 100.0, 20.0
    fitted = fit_models(KnownLoad(steps), PODS, (), Attempts(), (1, 2))

    expected_loads = predictions(fitted, RecentLoad(np.array([5.0, np.nan, 30.0, 5.0])))

    assert [22.0, 22.0, 33.0, 33.0] == pytest.approx(expected_loads.ceiling.tolist())


def test_a_constant_floor_holds_at_every_origin_and_beside_a_method_the_higher_one_does():
    fitted = models(None)
    expected_loads = predictions(fitted, RecentLoad(np.full(3, 6.0)))

    floors = provisioned_by_candidate(
        fitted, expected_loads, [Candidate("", float("inf"), 0.08), Candidate("Missing", 0.1, 0.02)]
    )

    assert (2, 2, 3) == floors.shape
    assert [8, 2] == [np.unique(floor).item() for floor in floors]


@pytest.mark.parametrize("is_gap_at_noon", [False, True], ids=["no-gap", "gap"])
@pytest.mark.parametrize("by_the_minute", [False, True], ids=["steps", "minutes"])
def test_floors_of_a_morning_do_not_know_the_afternoon(by_the_minute, is_gap_at_noon):
    """The leak test of all that makes floors: nor do those of a gap know what came after it."""
    draw = np.random.default_rng(5)
    minutes = np.repeat(daily_jump(), 5) * draw.uniform(0.9, 1.0, 6 * DAY_MINUTES)
    begin = 5 * DAY_MINUTES
    noon = begin + DAY_MINUTES // 2
    history = KnownLoad(step_maxima(minutes[:begin]), minutes[:begin] if by_the_minute else None)
    fitted = fit_models(history, PODS, catalog.default(), Attempts(), PODS.windows(by_minute=by_the_minute))
    floors = []
    for factor in (1.0, draw.uniform(0.05, 1.0, DAY_MINUTES // 2)):
        day = minutes.copy()
        day[noon:] *= factor
        if is_gap_at_noon:
            day[noon - 60 : noon] = np.nan
        recent = since(day, begin)
        recent = recent if by_the_minute else RecentLoad(recent.steps)
        floors.append(provisioned_by_candidate(fitted, predictions(fitted, recent, variants=VARIANTS), CANDIDATES))

    noon_place = floors[0].shape[-1] // 2
    np.testing.assert_array_equal(floors[0][..., :noon_place], floors[1][..., :noon_place])
    assert (floors[0] != floors[1]).any()
    assert floors[0][:4].any(axis=(1, 2)).all() or not by_the_minute


@pytest.fixture(scope="module")
def fitted_to_days():
    """By whether origins are minutes: eight days, and the models that are fitted to them."""
    minutes = every_four_hours(8)
    return {
        by_the_minute: fit_models(
            KnownLoad(step_maxima(minutes), minutes if by_the_minute else None),
            PODS,
            catalog.default(),
            Attempts(),
            PODS.windows(by_minute=False),
        )
        for by_the_minute in (False, True)
    }


@pytest.mark.parametrize("by_the_minute", [False, True], ids=["steps", "minutes"])
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    gaps=st.sampled_from([0.0, 0.05, 0.5]),
    length=st.integers(1, 400),
    picks=st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
def test_several_origins_at_once_are_what_they_are_one_by_one(fitted_to_days, by_the_minute, seed, gaps, length, picks):
    """One by one an origin is handed nothing but what was known at it."""
    fitted = fitted_to_days[by_the_minute]
    draw = np.random.default_rng(seed)
    past = every_four_hours(8)[-RUN_UP_MINUTES:]
    minutes = np.append(past, every_four_hours(1, seed)[:length] * draw.uniform(0.5, 1.5, length))
    minutes[draw.random(len(minutes)) < gaps] = np.nan
    if gaps:
        minutes[RUN_UP_MINUTES + length // 2 :][:40] = np.nan
    at_once = recent_of(minutes, len(minutes), by_the_minute)
    origins = np.unique([round(pick * (len(at_once.origins) - 1)) for pick in picks if len(at_once.origins)])
    origins = at_once.origins[origins.astype(int)]

    together = predictions(fitted, at_once, origins, VARIANTS)
    floors = provisioned_by_candidate(fitted, together, CANDIDATES)

    for place, origin in enumerate(origins):
        end = RUN_UP_MINUTES + origin * (1 if by_the_minute else 5)
        alone = predictions(fitted, recent_of(minutes, end, by_the_minute), np.array([origin]), VARIANTS)
        np.testing.assert_array_equal(floors[..., [place]], provisioned_by_candidate(fitted, alone, CANDIDATES))
        assert (together.running[place], together.ceiling[place]) == (alone.running[0], alone.ceiling[0])


def recent_of(minutes, end, by_the_minute):
    """What is known at a minute of the run-up and of what follows it."""
    steps = step_maxima(minutes[RUN_UP_MINUTES : RUN_UP_MINUTES + (end - RUN_UP_MINUTES) // 5 * 5])
    return RecentLoad(steps, minutes[:end] if by_the_minute else None)


def test_a_method_that_cannot_be_fitted_leaves_its_candidates_the_rest_of_their_floor():
    attempt = Attempts()
    history = KnownLoad(daily_jump())

    fitted = fit_models(history, PODS, [chosen(Odd(broken=("fit",)))], attempt, (1, 2))
    floors = provisioned_by_candidate(
        fitted, predictions(fitted, RecentLoad(np.full(3, 30.0)), variants={"Odd"}), [Candidate("Odd", 0.012, 0.1)]
    )

    assert {"Odd": "BrokenError: fit"} == attempt.failures
    assert [fitted.constants[CONSTANT_SHARES.index(0.1)]] == np.unique(floors).tolist()


def test_the_floor_of_the_step_after_the_next_holds_as_soon_as_a_pod_would_be_ready_for_it_alone():
    """Pods of two minutes: from the third minute of a step on."""
    floors = np.array([[[3, 1], [5, 2]]], np.int16)

    assert [[3, 3, 5, 5, 5, 1, 1, 2, 2, 2]] == by_minute(floors, PODS, 10).tolist()


def test_a_floor_by_the_minute_is_that_of_its_minute_and_for_slow_pods_the_higher_of_both_windows():
    floors = np.array([[[3, 1], [2, 4]]], np.int16)
    slow = msgspec.structs.replace(PODS, start_up_seconds=600)

    assert [[3, 1]] == by_minute(floors, PODS, 2).tolist()
    assert [[3, 4]] == by_minute(floors, slow, 2).tolist()


def test_a_gap_is_a_line_and_what_is_never_known_is_zero():
    assert [1.0, 1.0, 2.0, 3.0, 3.0] == without_gaps(np.array([np.nan, 1.0, np.nan, 3.0, np.nan])).tolist()
    assert [0.0, 0.0] == without_gaps(np.full(2, np.nan)).tolist()


def test_a_history_as_it_was_some_steps_ago_has_neither_its_steps_nor_its_minutes():
    history = KnownLoad(np.arange(10.0), np.arange(20.0))

    before = history.until(3)

    assert np.arange(7.0).tolist() == before.steps.tolist()
    assert np.arange(5.0).tolist() == before.minutes.tolist()
    assert [] == history.until(9).minutes.tolist()

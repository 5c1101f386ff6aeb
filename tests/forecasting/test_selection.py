"""Which forecast is used: the one that saves most within the budget, and none where none pays."""

import msgspec
import numpy as np
import pytest
from cronhpa.forecasting.selection import (
    CANDIDATES,
    LEASTS,
    PRICES,
    STEPS_PER_DAY,
    CandidateScores,
    Choice,
    Day,
    NothingToGain,
    WorkloadModel,
    budget_correction,
    candidate_floors,
    choose,
    chosen_floors,
    fit_jumps,
    jumps_of,
    jumps_since,
    least_replicas,
    needs_far,
    priced_floors,
    select,
    shortages,
    stated,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa_models import error_mixture, jump_clock
from cronhpa_models.error_mixture import LAGS, METHODS, Chances

# Pods are scaled for 0.6, planned to carry 0.9, and short above 1.
PODS = WorkloadModel(target=0.6, carried=0.9, capacity=1.0, start_up_seconds=120, budget_percent=5)
DAYS = 6


def daily_jump(days=DAYS):
    """6 until 06:00, 30 after it: 10 pods, then 50 at a target of 0.6."""
    return np.where(np.arange(days * STEPS_PER_DAY) % STEPS_PER_DAY < 72, 6.0, 30.0)


def screened(*rows):
    """(minutes, pods, actions) of plain reactive scaling and of the first candidates; the others do as it does."""
    known = [(*row, 0)[:3] for row in rows]
    table = np.array([*known, *[known[0]] * (1 + len(CANDIDATES) - len(rows))], dtype=np.float64)
    return CandidateScores(table[:, :1], table[:, 1:2], table[:, 2:])


def test_a_daily_jump_is_worth_a_forecast():
    choice = select(daily_jump(), PODS)

    assert isinstance(choice, Choice)
    assert choice.avoided > 0.7 * choice.of > 0
    assert choice.extra_percent <= 5
    assert DAYS - 1 == choice.days


def test_a_load_that_is_never_short_has_nothing_to_gain():
    assert NothingToGain(0.0, DAYS - 1) == select(np.full(DAYS * STEPS_PER_DAY, 12.0), PODS)


def test_one_day_is_not_enough_to_try_anything():
    assert NothingToGain(0.0, 0) == select(daily_jump(1), PODS)


def test_the_fewest_minutes_within_the_budget_win():
    """+6 % is too dear, whatever it saves; of those within 5 % the second leaves 10 of 50 minutes."""
    table = screened((50, 100), (0, 106), (10, 104), (30, 101))

    choice = choose(table, PODS, daily_jump(1))

    assert (40.0, 50.0, pytest.approx(4.0)) == (choice.avoided, choice.of, choice.extra_percent)


def test_of_those_hardly_worse_the_cheapest_is_taken():
    """20.1 minutes are within 1 % of 20, for a quarter of the pods."""
    choice = choose(screened((50, 100), (20, 104), (20.1, 101)), PODS, daily_jump(1))

    assert pytest.approx(1.0) == choice.extra_percent


def test_a_lower_price_is_taken_while_it_loses_no_minutes_for_half_of_the_budget():
    """Prices follow each other in steps of the leasts: 0.5, 2 and 4 % for the same ten minutes; 2.5 % is half of 5."""
    rows = [(50, 100)] * (1 + 4 * len(LEASTS))
    for number, pods in enumerate((100.5, 102, 104)):
        rows[1 + number * len(LEASTS)] = (10, pods)

    choice = choose(screened(*rows), PODS, daily_jump(1))

    assert (pytest.approx(2.0), PRICES[1]) == (choice.extra_percent, choice.price)


def test_what_saves_less_than_a_minute_in_a_week_is_not_used():
    """A seventh of a minute on the one day that was tried: 0.1 is less, 0.2 is more."""
    assert isinstance(choose(screened((5, 100), (4.9, 100)), PODS, daily_jump(1)), NothingToGain)
    assert isinstance(choose(screened((5, 100), (4.8, 100)), PODS, daily_jump(1)), Choice)


def test_pods_that_come_and_go_much_more_often_are_left_for_where_nothing_else_avoids_a_minute():
    """Of 100 actions a tenth more and one up and down, 112, are calm."""
    restless, calm = (10, 102, 113), (20, 102, 112)

    assert 30 == choose(screened((50, 100, 100), restless, calm), PODS, daily_jump(1)).avoided
    assert 40 == choose(screened((50, 100, 100), restless), PODS, daily_jump(1)).avoided


def test_a_minute_avoided_may_cost_what_it_is_worth_and_no_more():
    """At 4 % for a minute a day, 0.2 of a minute is worth 0.8 %, though the budget is 5 %."""
    assert isinstance(choose(screened((5, 1000), (4.8, 1009)), PODS, daily_jump(1)), NothingToGain)
    assert isinstance(choose(screened((5, 1000), (4.8, 1007)), PODS, daily_jump(1)), Choice)


def half_past_nine(days):
    """By the minute: 6, and for seven minutes from 9:30 on of every day 30."""
    clock = np.arange(days * 1440) % 1440
    return np.where((clock >= 570) & (clock < 577), 30.0, 6.0)


def test_a_load_is_short_from_its_jump_until_pods_that_the_metric_asked_for_are_ready():
    """They are asked for by 9:30 and 60 s, the mean's middle and its delay, and ready 120 s later: three minutes."""
    short = shortages(half_past_nine(2), PODS)

    assert [570, 571, 572, 2010, 2011, 2012] == np.flatnonzero(short).tolist()


def test_the_jump_clock_asks_for_a_jump_when_it_is_due_and_lets_go_when_it_is_over():
    """Of 30 load 34 pods carry 0.9 each. One asked for when 9:27 has passed is ready before 9:31, at the latest."""
    by_minute = half_past_nine(9)
    past, day = by_minute[: 8 * 1440], by_minute[8 * 1440 - LAGS * 5 :]
    steps = by_minute[8 * 1440 :].reshape(-1, 5).max(axis=1)

    jumps = jumps_of(Day(steps, day, past=past), PODS)
    floors = jumps.floors([0.15], usual=10.0, ceiling=33.0, carried=0.9)[0]

    assert [34] == np.unique(floors[floors > 0]).tolist()
    asked = np.flatnonzero(floors)
    assert 566 <= asked[0] <= 567
    assert asked[-1] <= 577


@pytest.mark.parametrize("start_up", [60, 120, 150, 240])
def test_what_was_short_since_a_fit_is_what_was_short_in_all(start_up, monkeypatch):
    """From the first minute after it on, in which here a jump begins: 150 s are late by 4 minutes and led by 3."""
    settings = msgspec.structs.replace(PODS, start_up_seconds=start_up)
    by_minute = half_past_nine(9)
    fit_until = 8 * 1440 + 570
    past, since = by_minute[fit_until - 8 * 1440 : fit_until], by_minute[fit_until : fit_until + 60]
    fitted = fit_jumps(past, settings)
    told = []
    monkeypatch.setattr(jump_clock, "chances", lambda _fit, _load, short, at: told.append(short) or np.zeros(len(at)))

    jumps_since(fitted, since, np.array([60]), settings)

    assert told[0][0]
    assert shortages(by_minute, settings)[fit_until : fit_until + 60].tolist() == told[0].tolist()


@pytest.mark.parametrize("known", ["no-minutes", "no-past", "one-point-in-five-minutes"])
def test_without_single_minutes_there_is_no_jump_clock(known):
    by_minute = half_past_nine(9)
    past, day = by_minute[: 8 * 1440], by_minute[8 * 1440 - LAGS * 5 :]
    steps = by_minute[8 * 1440 :].reshape(-1, 5).max(axis=1)
    sparse = np.where(np.arange(len(past)) % 5 == 0, past, np.nan)
    days = {
        "no-minutes": Day(steps, None, past=past),
        "no-past": Day(steps, day),
        "one-point-in-five-minutes": Day(steps, day, past=sparse),
    }

    assert jumps_of(days[known], PODS) is None


def test_a_pod_is_taken_when_its_chance_is_worth_its_price():
    """
    10 pods run, 5 load is certain, 20 comes with a chance of 0.2: 20 pods are 10 more than run, as many as usual.

    At a price of 0.15 that costs 0.15 for a chance of 0.2; at 0.25 it costs more than it may save.
    """
    shape = (len(METHODS), 1, 1, 2)
    found = Chances(np.array([[[5.0, 20.0]]]), np.broadcast_to([0.8, 1.0], shape))

    floors = priced_floors(found, np.array([[10.0]]), 1.0, 100.0, 10.0)[0, :, 0, 0]

    assert [0, 20] == [floors[PRICES.index(price)] for price in (0.25, 0.15)]


def test_no_floor_is_above_the_ceiling():
    found = Chances(np.array([[[5.0, 500.0]]]), np.broadcast_to([0.0, 1.0], (len(METHODS), 1, 1, 2)))

    floors = priced_floors(found, np.array([[1.0]]), 1.0, 50.0, 10.0)

    assert 50 == floors.max()


@settings(max_examples=30)
@given(st.lists(st.integers(1, 60), min_size=10, max_size=200))
def test_a_least_adds_no_more_than_its_share(counts):
    reactive = np.array(counts, dtype=np.float64)

    for share, least in zip(LEASTS, least_replicas(reactive), strict=True):
        added = np.maximum(least - reactive, 0).sum() / reactive.sum()
        assert added <= share + 1e-9


@pytest.mark.parametrize("most", [1e9, 2e30])
def test_a_spike_of_any_height_takes_no_more_memory(most):
    """1 pod, and 1e9 in one minute, at a target of a thousandth: a list of all counts up to it took 20 GB."""
    reactive = np.ones(2016)
    reactive[1000] = most

    assert 14_000 == max(least_replicas(reactive))


def test_a_plan_that_came_out_dearer_plans_with_less():
    """Planned 4 %, spent 10 %: (4 + 2) / (10 + 2) = 0.5."""
    assert (1.0, 0.5) == (budget_correction([], []), budget_correction([4.0], [10.0]))
    assert 1.0 < budget_correction([4.0], [1.0]) <= 1.5


@pytest.mark.parametrize(("start_up", "expected"), [(60, 3), (120, 2), (240, 0)], ids=["1 min", "2 min", "4 min"])
def test_slow_pods_are_asked_for_earlier_in_a_step(start_up, expected):
    """The minute from which on a pod would be ready for the step after the next only: delay + minutes + start-up."""
    slow = WorkloadModel(0.6, 0.9, 1.0, start_up, 5)

    assert expected == next(minute for minute in range(9) if needs_far(minute, slow))


def test_a_history_younger_than_eight_days_has_the_same_clock_wherever_it_lies_in_the_span_that_is_kept():
    """Three days alone, and behind six of which nothing is known: those are neither gaps nor quiet days."""
    short = half_past_nine(3)

    alone, behind = (fit_jumps(each, PODS) for each in (short, np.concatenate([np.full(6 * 1440, np.nan), short])))

    assert jump_clock.encode(alone) == jump_clock.encode(behind)
    assert fit_jumps(np.full(9 * 1440, np.nan), PODS) is None


def test_in_a_gap_the_jump_clock_knows_what_was_known_last_and_not_what_comes_after_it():
    """From 8:00 to 9:00 nothing is known; then it is 6 or 30: until then every minute of the day is told alike."""
    by_minute = half_past_nine(9)
    day = by_minute[8 * 1440 - LAGS * 5 :]
    told = []
    for after in (6.0, 30.0):
        own = day.copy()
        own[LAGS * 5 + 480 : LAGS * 5 + 540] = np.nan
        own[LAGS * 5 + 540 :] = after
        told.append(jumps_of(Day(own[LAGS * 5 :: 5], own, past=by_minute[: 8 * 1440]), PODS))

    one, two = told
    np.testing.assert_array_equal(one.chance[:540], two.chance[:540])
    np.testing.assert_array_equal(one.running[:540], two.running[:540])
    assert (10, 50) == (one.running[540], two.running[540])  # 6 / 0.6, 30 / 0.6


@pytest.mark.parametrize("is_gap_at_noon", [False, True], ids=["no-gap", "gap"])
@pytest.mark.parametrize("by_minute", [False, True], ids=["steps", "minutes"])
def test_floors_of_a_morning_do_not_know_the_afternoon(by_minute, is_gap_at_noon):
    """The leak test of the whole way from history to floors: nor do those of a gap know what came after it."""
    load = daily_jump()
    draw = np.random.default_rng(5)
    minutes = np.repeat(load, 5) * draw.uniform(0.9, 1.0, 5 * len(load))
    row, noon = 5 * STEPS_PER_DAY, 144
    floors = []
    for factor in (np.ones(STEPS_PER_DAY - noon), draw.uniform(0.05, 1.0, STEPS_PER_DAY - noon)):
        day = load[row : row + STEPS_PER_DAY].copy()
        own = minutes[(row - LAGS) * 5 : (row + STEPS_PER_DAY) * 5].copy()
        day[noon:] *= factor
        own[(LAGS + noon) * 5 :] *= np.repeat(factor, 5)
        if is_gap_at_noon:
            day[noon - 12 : noon] = own[(LAGS + noon - 12) * 5 : (LAGS + noon) * 5] = np.nan
        of_day = Day(day, own, past=minutes[: row * 5]) if by_minute else Day(day)
        floors.append(candidate_floors(load[:row], of_day, PODS, STEPS_PER_DAY))

    np.testing.assert_array_equal(floors[0][:, : noon * 5], floors[1][:, : noon * 5])
    assert (floors[0] != floors[1]).any()


def test_what_is_stated_comes_back_as_the_same_floor():
    """The load that stands for n pods, divided by what one carries and rounded up, is n."""
    load = daily_jump()[: 5 * STEPS_PER_DAY + 71]
    fitted = error_mixture.fit(load, steps_per_day=STEPS_PER_DAY)
    found = error_mixture.chances(
        fitted, np.array([]), error_mixture.on_grid(fitted, np.array([]), np.array([len(load) - 1]))
    )
    choice = Choice("NearClock", 0.15, 0, 30.0, 1.0, 2.0, 3.0, 5)

    said = stated(choice, found, 10.0, 0.9, 33.0)
    floors = chosen_floors(choice, found, np.full((2, 1), 10.0), 0.9, 33.0)

    assert floors[1, 0] == np.ceil(said.load[1] / 0.9) >= 34  # 30 / 0.9 = 33.3
    assert said.level[1] > 0.5
    assert said.load[0] < 10.0 * 0.9 + 1e-9

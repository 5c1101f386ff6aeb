"""Which candidate is used: the one that saves most within the budget, and none where none pays."""

import numpy as np
import pytest

from cronhpa.forecasting.candidates import CONSTANTS, COSTS, candidates_of
from cronhpa.forecasting.choice import Choice, NothingToGain, budget_correction, choose
from cronhpa.forecasting.evaluation import CandidateScores

CANDIDATES = candidates_of(("First", "Second"))
A_COST = len(CONSTANTS)  # rows from one cost of a pod to the next
A_METHOD = len(COSTS) * A_COST


def chosen(plain, rows, *, budget=5.0, days=1, unusable=()):
    """
    plain, rows: (minutes, pods, actions) of plain reactive scaling and, by their place, of candidates; the others do
    as plain scaling does.
    """
    table = np.array([(*plain, 0)[:3]] * (1 + len(CANDIDATES)), dtype=np.float64)
    for place, row in rows.items():
        table[1 + place] = (*row, 0)[:3]
    each_day = np.repeat(table[:, :, None] / days, days, axis=2)
    usable = np.array([True, *(place not in unusable for place in range(len(CANDIDATES)))])
    replicas = np.zeros((2, len(table), days))
    return choose(CandidateScores(*each_day.transpose(1, 0, 2), *replicas), CANDIDATES, budget, usable)


def test_the_fewest_minutes_within_the_budget_win():
    """+6 % is too dear, whatever it saves; of those within 5 % the second leaves 10 of 50 minutes."""
    choice = chosen((50, 100), {0: (0, 106), 1: (10, 104), 2: (30, 101)})

    assert (CANDIDATES[1], 1) == (choice.candidate, choice.days)
    assert (40.0, 50.0, 4.0) == pytest.approx((choice.avoided, choice.of, choice.extra_percent))


def test_of_those_hardly_worse_the_cheapest_is_taken():
    """20.1 minutes are within 1 % of 20, for a quarter of the pods."""
    assert pytest.approx(1.0) == chosen((50, 100), {0: (20, 104), 1: (20.1, 101)}).extra_percent


def test_a_lower_cost_is_taken_while_it_loses_no_minutes_and_the_budget_lasts():
    """Costs follow each other in steps of the shares: 0.5, 4 and 6 % for the same ten minutes; 6 % is beyond 5."""
    choice = chosen((50, 100), {0: (10, 100.5), A_COST: (10, 104), 2 * A_COST: (10, 106)})

    assert (pytest.approx(4.0), COSTS[1]) == (choice.extra_percent, choice.candidate.cost)


def test_a_lower_cost_is_taken_for_no_more_than_the_minutes_are_worth():
    """Of 5 minutes 0.2 are avoided: 0.2 * 12 % = 2.4 %, less than the budget of 5. 2.3 % is taken, 2.5 % is not."""
    near, far = (chosen((5, 1000), {0: (4.8, 1005), A_COST: (4.8, pods)}) for pods in (1023, 1025))

    assert [COSTS[1], COSTS[0]] == [near.candidate.cost, far.candidate.cost]


def test_a_lower_cost_that_loses_minutes_is_not_taken():
    """10.2 of 10 minutes are 2 % more, 10.3 are 3 %."""
    near, far = (chosen((50, 100), {0: (10, 100.5), A_COST: (lost, 101)}) for lost in (10.2, 10.3))

    assert [COSTS[1], COSTS[0]] == [near.candidate.cost, far.candidate.cost]


def test_the_margin_of_a_method_is_no_other_method():
    """What follows the lowest cost of the first method is the highest of the second."""
    lowest = A_METHOD - A_COST

    choice = chosen((50, 100), {lowest: (10, 100.5), lowest + A_COST: (10, 101)})

    assert ("First", COSTS[-1]) == (choice.candidate.method, choice.candidate.cost)
    assert "Second" == CANDIDATES[lowest + A_COST].method


def test_what_saves_less_than_a_minute_in_a_week_is_not_used():
    """A seventh of a minute on the one day that was evaluated: 0.1 is less, 0.2 is more."""
    assert isinstance(chosen((5, 100), {0: (4.9, 100)}), NothingToGain)
    assert isinstance(chosen((5, 100), {0: (4.8, 100)}), Choice)
    assert NothingToGain(5.0, 7) == chosen((5, 100), {0: (4.1, 100)}, days=7)
    assert isinstance(chosen((5, 100), {0: (3.9, 100)}, days=7), Choice)


def test_pods_that_come_and_go_much_more_often_are_left_for_where_nothing_else_avoids_a_minute():
    """Of 100 actions a tenth more and one up and down, 112, are calm."""
    restless, calm = (10, 102, 113), (20, 102, 112)

    assert 30 == chosen((50, 100, 100), {0: restless, 1: calm}).avoided
    assert 40 == chosen((50, 100, 100), {0: restless}).avoided


def test_a_calm_choice_takes_no_restless_margin():
    """A lower cost that saves as many minutes for as many pods, with 113 actions instead of 112."""
    choice = chosen((50, 100, 100), {0: (10, 101, 112), A_COST: (10, 101, 113)})

    assert COSTS[0] == choice.candidate.cost


def test_a_minute_avoided_may_cost_what_it_is_worth_and_no_more():
    """At 12 % for a minute a day, 0.2 of a minute is worth 2.4 %, though the budget is 5 %."""
    assert isinstance(chosen((5, 1000), {0: (4.8, 1025)}), NothingToGain)
    assert isinstance(chosen((5, 1000), {0: (4.8, 1023)}), Choice)


def test_a_candidate_whose_method_cannot_be_asked_is_neither_chosen_nor_a_margin():
    best, margin = {0: (0, 100.5), 1: (10, 101)}, {1: (10, 101), 1 + A_COST: (10, 101.5)}

    assert CANDIDATES[1] == chosen((50, 100), best, unusable={0}).candidate
    assert CANDIDATES[1] == chosen((50, 100), margin, unusable={1 + A_COST}).candidate
    assert CANDIDATES[1 + A_COST] == chosen((50, 100), margin).candidate


def test_a_load_that_is_never_short_has_nothing_to_gain():
    assert NothingToGain(0.0, 3) == chosen((0, 100), {0: (0, 100)}, days=3)


def test_a_plan_that_came_out_dearer_plans_with_less():
    """Planned 4 %, spent 10 %: (4 + 2) / (10 + 2) = 0.5."""
    assert (1.0, 0.5) == (budget_correction([], []), budget_correction([4.0], [10.0]))
    assert pytest.approx(5 / 6) == budget_correction([2.0, 4.0], [4.0])


def test_a_correction_is_half_at_the_least_and_half_as_much_again_at_the_most():
    """What a forecast saved counts as nothing: (10 + 2) / (0 + 2) would be 6."""
    assert (0.5, 1.5) == (budget_correction([1.0], [100.0]), budget_correction([10.0], [-5.0]))

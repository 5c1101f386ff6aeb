"""What a policy may choose from."""

from itertools import pairwise

from cronhpa.forecasting.candidates import (
    BY_HOUR,
    CONSTANT_SHARES,
    CONSTANTS,
    COSTS,
    Candidate,
    at_budget_levels,
    candidates_of,
)


def test_every_method_and_none_comes_at_every_cost_with_every_constant_floor():
    """And every share but none comes alone: (2 + 1) * 12 * 10 + 8."""
    candidates = candidates_of(("A", "B"))

    assert 3 * len(COSTS) * len(CONSTANTS) + len(CONSTANT_SHARES) - 1 == len(candidates) == len(set(candidates))
    assert [0.01, 0.02] == [candidate.constant_share for candidate in candidates if candidate.is_constant][:2]
    assert BY_HOUR not in {candidate.constant_share for candidate in candidates if candidate.is_constant}
    assert {""} == {candidate.method for candidate in candidates if candidate.is_constant}


def test_the_next_lower_cost_of_the_same_method_and_floor_lies_a_row_of_shares_on():
    """The step that spends a part of the budget on safety relies on it."""
    candidates = candidates_of(("A",))[: 2 * len(COSTS) * len(CONSTANTS)]

    steps = zip(candidates, candidates[len(CONSTANTS) :], strict=False)
    lower = [(one, other) for one, other in steps if one.method == other.method]
    assert 2 * (len(COSTS) - 1) * len(CONSTANTS) == len(lower)
    assert all(
        one.constant_share == other.constant_share and COSTS.index(one.cost) + 1 == COSTS.index(other.cost)
        for one, other in lower
    )


def test_costs_fall_and_shares_rise():
    assert all(one > other > 0 for one, other in pairwise(COSTS))
    assert all(one < other for one, other in pairwise(CONSTANT_SHARES))
    assert 0.0 == CONSTANT_SHARES[0]


def test_a_candidate_of_the_spike_hazard_alone_is_no_constant_floor():
    assert (False, True) == (Candidate("", 0.25, 0.0).is_constant, Candidate("", float("inf"), 0.05).is_constant)


def test_a_budget_level_goes_up_the_costs_or_down_the_shares_and_stops_at_the_end():
    """One, two and four steps: from 0.35 on the costs 0.45, 0.6 and 1.2; from 3 % on the shares 2, 1 and 0 %."""
    priced, constant = Candidate("A", 0.35, BY_HOUR), Candidate("", float("inf"), 0.03)

    assert [Candidate("A", cost, BY_HOUR) for cost in (0.45, 0.6, 1.2)] == list(at_budget_levels(priced))
    assert [0.02, 0.01, 0.0] == [candidate.constant_share for candidate in at_budget_levels(constant)]
    assert [6.0, 6.0, 6.0] == [candidate.cost for candidate in at_budget_levels(Candidate("A", 6.0, 0.0))]

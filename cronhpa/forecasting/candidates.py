"""
The candidates that a policy chooses from: a method's distribution, the cost of a pod, and a constant floor.

The cost of a pod is relative to the mean replicas: at a cost of 1, doubling the replicas must be certain to help.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from cronhpa.core.forecasts.budget import BUDGET_LEVELS

# At the first cost only certain floors are worth their pods, at the last one almost all; roughly logarithmic.
COSTS = (6.0, 2.4, 1.2, 0.8, 0.6, 0.45, 0.35, 0.25, 0.15, 0.07, 0.03, 0.012)
# Pod-hours that a constant floor adds by itself, as shares of those of reactive scaling.
CONSTANT_SHARES = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1)
# In place of a share: for each hour the count that is worth the cost of a pod, by the loads of the last week.
BY_HOUR = -1.0
# The constant counts beside each cost of a pod.
CONSTANTS = (*CONSTANT_SHARES, BY_HOUR)
# The candidate without a method: a constant floor, with or without the spike hazard.
NO_METHOD = ""


class Candidate(Struct, frozen=True):
    method: str
    """A variant of the catalog, or NO_METHOD."""
    cost: float
    """Cost of a pod; infinite: neither method nor spike hazard is used."""
    constant_share: float
    """One of CONSTANTS; with an infinite cost, one of CONSTANT_SHARES."""

    @property
    def is_constant(self) -> bool:
        return math.isinf(self.cost)


def at_budget_levels(candidate: Candidate) -> tuple[Candidate, ...]:
    """
    The candidate at higher costs of a pod, by budget level: a higher cost, or for a constant floor a lower share.

    BUDGET_LEVELS has the steps of each level, up COSTS or down CONSTANT_SHARES.
    """
    if candidate.is_constant:
        place = CONSTANT_SHARES.index(candidate.constant_share)
        shares = [CONSTANT_SHARES[max(place - steps, 0)] for _, steps in BUDGET_LEVELS]
        return tuple(Candidate(candidate.method, candidate.cost, share) for share in shares)
    place = COSTS.index(candidate.cost)
    costs = [COSTS[max(place - steps, 0)] for _, steps in BUDGET_LEVELS]
    return tuple(Candidate(candidate.method, cost, candidate.constant_share) for cost in costs)


def candidates_of(methods: Sequence[str]) -> tuple[Candidate, ...]:
    """Every candidate of these methods; the candidate of the next lower cost is len(CONSTANTS) places later."""
    names = (*methods, NO_METHOD)
    priced = [Candidate(method, cost, share) for method in names for cost in COSTS for share in CONSTANTS]
    return (*priced, *(Candidate(NO_METHOD, math.inf, share) for share in CONSTANT_SHARES[1:]))

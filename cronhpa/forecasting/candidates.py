"""
What a policy chooses from: a method's distribution, the cost of a pod, and a constant floor.

The cost of a pod is relative to the mean replicas: at a cost of 1, doubling the replicas must be certain to help.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

# Rising from what buys nothing but certainties to what buys almost everything, in steps that look alike on a log scale.
COSTS = (6.0, 2.4, 1.2, 0.8, 0.6, 0.45, 0.35, 0.25, 0.15, 0.07, 0.03, 0.012)
# Pod-hours that a constant floor adds by itself, as shares of those of reactive scaling.
CONSTANT_SHARES = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1)
# The candidate that asks a method for nothing: a constant floor, with or without the spike hazard.
NO_METHOD = ""


class Candidate(Struct, frozen=True):
    """
    method: a variant of the catalog, or NO_METHOD. cost: of a pod; infinite: neither method nor spike hazard is asked.
    constant_share: one of CONSTANT_SHARES.
    """

    method: str
    cost: float
    constant_share: float

    @property
    def is_constant(self) -> bool:
        return math.isinf(self.cost)


def candidates_of(methods: Sequence[str]) -> tuple[Candidate, ...]:
    """Every candidate over these methods: lower costs of one method and constant floor follow len(CONSTANT_SHARES) on."""
    priced = [
        Candidate(method, cost, share)
        for method in (*methods, NO_METHOD)
        for cost in COSTS
        for share in CONSTANT_SHARES
    ]
    return (*priced, *(Candidate(NO_METHOD, math.inf, share) for share in CONSTANT_SHARES[1:]))

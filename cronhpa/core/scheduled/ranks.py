"""
Who wins where several state a bound: the highest rank that states it, for the minimum and the maximum apart.

At equal rank the largest minimum and the smallest maximum win. Of a minimum above a maximum the one of higher rank
holds, at equal rank the maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from cronhpa.core.decision import Proposal, Role, Source, SourceRef
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.scheduled import windows
from cronhpa.core.spec import OnceWindow, Override, Schedule, Spec

# gc=False: values without cycles, of which an edge that all objects share makes very many at once.
Rank = tuple[int, int, int]
SPEC_RANK: Rank = (0, 0, 0)
OVERRIDE_RANK: Rank = (1, 0, 0)


class RankedBound(Struct, frozen=True, gc=False):
    """A bound that somebody states, and its rank."""

    rank: Rank
    proposal: Proposal

    @property
    def number(self) -> int:
        return self.proposal.replicas

    @property
    def by(self) -> SourceRef:
        return self.proposal.by


class Settled(Struct, frozen=True, gc=False):
    """
    low, high: the minimum and the maximum of the highest rank, each for itself. minimum, maximum: what holds; where low
    is above high, one of the two is both.
    """

    low: RankedBound
    high: RankedBound
    minimum: RankedBound
    maximum: RankedBound


def settled_at(spec: Spec, at: Nanoseconds) -> Settled:
    """The bounds of the windows that are open at an instant, the override and the spec together, without leads."""
    stated: list[RankedBound] = []
    for schedule in spec.schedules:
        if schedule.problem is None and not schedule.suspend:
            state = windows.state(schedule.window, at)
            if state.is_open:
                stated += stated_by(schedule, state.until)
    if spec.override is not None and at < spec.override.until:
        stated += statements(Source.OVERRIDE, spec.override, OVERRIDE_RANK, spec.override.until)
    return settle(spec, stated)


def contradiction(settled: Settled) -> str:
    """
    A minimum above a maximum in words, and which of them won; "" where there is none.

    An override contradicts what it likes: that is what it is for.
    """
    low, high = settled.low, settled.high
    if low.number <= high.number or OVERRIDE_RANK in {low.rank, high.rank}:
        return ""
    asked = f"{low.by} asks for at least {low.number}, {high.by} for at most {high.number}"
    if low.rank == high.rank:
        return f"{asked}, at equal rank: the maximum wins"
    return f"{asked}: {settled.minimum.by} is of higher rank and wins"


def settle(spec: Spec, stated: Sequence[RankedBound], ahead: RankedBound | None = None) -> Settled:
    """The minimum and the maximum by rank. ahead: a floor that leads; it raises the minimum of any rank."""
    low, high = _of_spec(spec.min_replicas, spec.max_replicas)
    for item in stated:
        if item.proposal.role is Role.FLOOR:
            if (item.rank, item.number) > (low.rank, low.number):
                low = item
        elif (item.rank, -item.number) > (high.rank, -high.number):
            high = item
    if ahead is not None and ahead.number > low.number:
        low = ahead
    if low.number <= high.number:
        return Settled(low, high, low, high)
    # The higher rank moves the other; at equal rank the maximum wins.
    winner = low if low.rank > high.rank else high
    return Settled(low, high, winner, winner)


# 600 bytes each.
@lru_cache(maxsize=4096)
def _of_spec(minimum: int, maximum: int) -> tuple[RankedBound, RankedBound]:
    return (
        RankedBound(SPEC_RANK, Proposal(Source.SPEC, "", Role.FLOOR, minimum)),
        RankedBound(SPEC_RANK, Proposal(Source.SPEC, "", Role.CAP, maximum)),
    )


def stated_by(schedule: Schedule, until: Nanoseconds | None) -> list[RankedBound]:
    return statements(Source.SCHEDULE, schedule, rank_of(schedule), until)


def rank_of(schedule: Schedule) -> Rank:
    """Above the spec's own bounds, by priority; of equal priorities a planned event beats what recurs."""
    return (0, 1, 2 * schedule.priority + isinstance(schedule.window, OnceWindow))


def statements(source: Source, by: Schedule | Override, rank: Rank, until: Nanoseconds | None) -> list[RankedBound]:
    """What a schedule or an override states while it holds."""
    name = by.name if isinstance(by, Schedule) else ""
    return [
        RankedBound(rank, Proposal(source, name, role, number, until))
        for role, number in ((Role.FLOOR, by.floor), (Role.CAP, by.cap))
        if number is not None
    ]

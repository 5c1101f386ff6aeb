"""
The order of sources that state bounds. The source of the highest rank sets the minimum, and likewise the maximum.

At equal rank the largest minimum and the smallest maximum hold. If the minimum is above the maximum, both become the
bound of higher rank; at equal rank, the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.decision import (
    Abstention,
    Edge,
    Proposal,
    Role,
    Source,
    SourceRef,
    Window,
    WindowState,
    event_of,
)
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.spec import OnceWindow, Override, Schedule, Spec
from cronhpa.core.schedules import windows

# gc=False: these values have no cycles, and an edge that all objects share creates very many at once.
Rank = tuple[int, int, int]
SPEC_RANK: Rank = (0, 0, 0)
OVERRIDE_RANK: Rank = (1, 0, 0)


class RankedBound(Struct, frozen=True, gc=False):
    """A bound with its source and its rank."""

    rank: Rank
    proposal: Proposal

    @property
    def number(self) -> int:
        return self.proposal.replicas

    @property
    def by(self) -> SourceRef:
        return self.proposal.by


class Settled(Struct, frozen=True, gc=False):
    low: RankedBound
    high: RankedBound
    """The minimum and the maximum of the highest rank, each resolved separately."""
    minimum: RankedBound
    maximum: RankedBound
    """The bounds in force: low and high; if low > high, both are the same one of the two."""


class SeenSchedules(Struct):
    """The schedules and the override at an instant."""

    states: list[Window]
    stated: list[RankedBound]
    abstentions: list[Abstention]
    closed: list[tuple[int, Nanoseconds]]
    """Index and start of the schedules that may lead."""
    relative: list[tuple[Schedule, Nanoseconds | None]]
    """The open schedules with bounds in percent, and the ends of their windows."""
    headroom: int = 0
    edge: Edge | None = None

    def meets(self, at: Nanoseconds | None, name: str, state: WindowState) -> None:
        """Sets the next edge if this one is the earliest so far."""
        if at is not None and (self.edge is None or at < self.edge.at):
            self.edge = Edge(at, name, state)


def settled_at(spec: Spec, at: Nanoseconds) -> Settled:
    """The bounds of the windows that are open at an instant, the override and the spec together, without leads."""
    return settle(spec, stated_at(spec, at))


def stated_at(spec: Spec, at: Nanoseconds) -> list[RankedBound]:
    """What the windows that are open at an instant, and the override, state."""
    return look(spec, at).stated


def look(spec: Spec, at: Nanoseconds) -> SeenSchedules:
    """The schedules and the override at an instant, without leads."""
    seen = SeenSchedules([], [], [], [], [])
    for index, schedule in enumerate(spec.schedules):
        if schedule.suspend:
            seen.states.append(Window(schedule.name, WindowState.SUSPENDED, None))
        elif schedule.problem is not None:
            seen.abstentions.append(Abstention(Source.SCHEDULE, schedule.name, "Unreadable", schedule.problem))
            seen.states.append(Window(schedule.name, WindowState.UNREADABLE, None))
        else:
            _look_at(seen, index, schedule, at)
    override = spec.override
    if override is not None and at < override.until:
        seen.stated += statements(Source.OVERRIDE, override, OVERRIDE_RANK, override.until)
        seen.meets(override.until, "override", WindowState.CLOSED)
    if seen.relative:
        seen.stated += relative_bounds(spec, seen.stated, seen.relative)
    return seen


def _look_at(seen: SeenSchedules, index: int, schedule: Schedule, at: Nanoseconds) -> None:
    state = windows.state(schedule.window, at)
    if state.is_open:
        seen.states.append(Window(schedule.name, WindowState.OPEN, state.until))
        seen.stated += stated_by(schedule, state.until)
        if schedule.is_relative:
            seen.relative.append((schedule, state.until))
        seen.headroom = max(seen.headroom, schedule.headroom_percent)
        seen.meets(state.until, schedule.name, WindowState.CLOSED)
        return
    seen.states.append(Window(schedule.name, WindowState.CLOSED, state.until))
    seen.meets(state.until, schedule.name, WindowState.OPEN)
    if state.until is not None and (schedule.has_floor or schedule.headroom_percent):
        seen.closed.append((index, state.until))


def relative_bounds(
    spec: Spec, stated: Sequence[RankedBound], relative: Iterable[tuple[Schedule, Nanoseconds | None]]
) -> list[RankedBound]:
    """
    The bounds of open schedules that depend on those of other sources, as counts.

    stated: the bounds of all open sources that depend on no other. relative: the schedules, with the ends of their
    windows. First the caps in percent, of the maximum of the others; then the floors in counts, within the maximum;
    then the floors in percent, of the minimum of all others. The schedules of one event are no other sources to each
    other, and two schedules in percent do not add up.
    """
    relative = tuple(relative)
    others = _OtherSources(spec, stated)
    out = [
        _relative(schedule, Role.CAP, part(schedule.cap_percent, others.of(schedule).maximum.number), until)
        for schedule, until in relative
        if schedule.cap_percent is not None
    ]
    limit = max(spec.max_replicas, settle(spec, [*stated, *out]).maximum.number)
    # The smallest cap that a schedule states itself: its floors are cut to it, and do not contradict it.
    caps: dict[str, int] = {}
    for bound in (*stated, *out):
        if bound.proposal.role is Role.CAP:
            caps[bound.by.name] = min(bound.number, caps.get(bound.by.name, bound.number))

    def within(schedule: Schedule, floor: int) -> int:
        most = caps.get(schedule.name, limit if schedule.within_maximum else floor)
        return min(floor, most)

    floors = [
        _relative(schedule, Role.FLOOR, within(schedule, schedule.floor), until)
        for schedule, until in relative
        if schedule.floor is not None
    ]
    others = _OtherSources(spec, [*stated, *floors])
    by_percent = [
        _relative(
            schedule,
            Role.FLOOR,
            within(schedule, part(schedule.floor_percent, others.of(schedule).minimum.number)),
            until,
        )
        for schedule, until in relative
        if schedule.floor_percent is not None
    ]
    return [*out, *floors, *by_percent]


class _OtherSources:
    """What the sources besides a schedule, and besides those of its planned event, state."""

    def __init__(self, spec: Spec, stated: Sequence[RankedBound]) -> None:
        self._spec, self._stated = spec, stated
        self._all: Settled | None = None
        self._named = {event_of(bound.by.name) for bound in stated}

    def of(self, schedule: Schedule) -> Settled:
        own = event_of(schedule.name)
        if own in self._named:
            return settle(self._spec, [bound for bound in self._stated if event_of(bound.by.name) != own])
        if self._all is None:
            self._all = settle(self._spec, self._stated)
        return self._all


def _relative(schedule: Schedule, role: Role, number: int, until: Nanoseconds | None) -> RankedBound:
    return RankedBound(rank_of(schedule), Proposal(Source.SCHEDULE, schedule.name, role, number, until))


def part(percent: int, number: int) -> int:
    """A number in percent of another, rounded up: it must not fall short by a part of a pod."""
    return -(-percent * number // 100)


def contradiction(settled: Settled) -> str:
    """
    A sentence about a minimum above a maximum, and which of them holds; "" if low <= high.

    An override may contradict schedules: that is its purpose.
    """
    low, high = settled.low, settled.high
    if low.number <= high.number or OVERRIDE_RANK in {low.rank, high.rank}:
        return ""
    text = f"{low.by} asks for at least {low.number}, {high.by} for at most {high.number}"
    if low.rank == high.rank:
        return f"{text}, at equal rank: the maximum wins"
    return f"{text}: {settled.minimum.by} is of higher rank and wins"


def settle(spec: Spec, stated: Sequence[RankedBound], ahead: RankedBound | None = None) -> Settled:
    """The minimum and the maximum by rank. ahead: a floor that leads; it raises the minimum of any rank."""
    low, high = _of_spec(spec.min_replicas, spec.max_replicas)
    for bound in stated:
        if bound.proposal.role is Role.FLOOR:
            if (bound.rank, bound.number) > (low.rank, low.number):
                low = bound
        elif (bound.rank, -bound.number) > (high.rank, -high.number):
            high = bound
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
    """The bounds of an open schedule that depend on no other source."""
    if schedule.is_relative:
        schedule = replace(schedule, floor=None)
    return statements(Source.SCHEDULE, schedule, rank_of(schedule), until)


def rank_of(schedule: Schedule) -> Rank:
    """Above the spec's own bounds, by priority; at equal priority a planned event ranks above a recurring window."""
    return (0, 1, 2 * schedule.priority + isinstance(schedule.window, OnceWindow))


def statements(source: Source, by: Schedule | Override, rank: Rank, until: Nanoseconds | None) -> list[RankedBound]:
    """The bounds of a schedule or an override while it is in force."""
    name = by.name if isinstance(by, Schedule) else ""
    return [
        RankedBound(rank, Proposal(source, name, role, number, until))
        for role, number in ((Role.FLOOR, by.floor), (Role.CAP, by.cap))
        if number is not None
    ]

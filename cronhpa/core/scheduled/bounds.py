"""
The bounds in force at an instant, and who set them: override, then open schedules by rank, then the spec.

The effective minimum and maximum are resolved apart from each other, each by the highest rank that states it. At
equal rank the largest minimum and the smallest maximum win.
"""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.decision import Abstention, Edge, Proposal, Role, Source, Window
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.scheduled import windows
from cronhpa.core.spec import OnceWindow, Override, Schedule, Spec

Rank = tuple[int, int, int]
_SPEC: Rank = (0, 0, 0)


class Bounds(Struct, frozen=True):
    """
    minimum, maximum: the effective bounds. floor, cap: the same where a schedule or an override set them, else None.
    minimum_by, maximum_by: who did. conflict: bounds of equal rank that contradict each other, in words.
    headroom_percent: the largest of the open schedules. unreadable: whether a schedule had to abstain.
    """

    minimum: int
    maximum: int
    floor: int | None
    cap: int | None
    minimum_by: str
    maximum_by: str
    headroom_percent: int
    proposals: tuple[Proposal, ...]
    abstentions: tuple[Abstention, ...]
    windows: tuple[Window, ...]
    next_edge: Edge | None
    conflict: str
    unreadable: bool


class _Stated(Struct, frozen=True):
    rank: Rank
    proposal: Proposal

    @property
    def number(self) -> int:
        return self.proposal.replicas

    @property
    def label(self) -> str:
        return self.proposal.label


def resolve(spec: Spec, now: Nanoseconds) -> Bounds:
    """The bounds that hold at `now`."""
    stated: list[_Stated] = []
    abstentions: list[Abstention] = []
    states: list[Window] = []
    headroom = 0
    edge: Edge | None = None

    for schedule in spec.schedules:
        if schedule.problem is not None:
            abstentions.append(Abstention(Source.SCHEDULE, schedule.name, "Unreadable", schedule.problem))
            states.append(Window(schedule.name, "Unreadable", None))
            continue
        if schedule.suspend:
            states.append(Window(schedule.name, "Suspended", None))
            continue
        state = windows.state(schedule.window, now)
        states.append(Window(schedule.name, "Open" if state.is_open else "Closed", state.until))
        if state.until is not None and (edge is None or state.until < edge.at):
            edge = Edge(at=state.until, schedule=schedule.name, opens=not state.is_open)
        if not state.is_open:
            continue
        headroom = max(headroom, schedule.headroom_percent)
        stated += _statements(Source.SCHEDULE, schedule, _rank(schedule), state.until)

    override = spec.override
    if override is not None and now < override.until:
        stated += _statements(Source.OVERRIDE, override, (1, 0, 0), override.until)
        if edge is None or override.until < edge.at:
            edge = Edge(at=override.until, schedule="override", opens=False)

    floors = [item for item in stated if item.proposal.role is Role.FLOOR]
    caps = [item for item in stated if item.proposal.role is Role.CAP]
    own_floor = Proposal(Source.SPEC, "", Role.FLOOR, spec.min_replicas)
    own_cap = Proposal(Source.SPEC, "", Role.CAP, spec.max_replicas)
    low = max((*floors, _Stated(_SPEC, own_floor)), key=lambda item: (item.rank, item.number))
    high = max((*caps, _Stated(_SPEC, own_cap)), key=lambda item: (item.rank, -item.number))
    minimum, maximum, conflict = low.number, high.number, ""
    if minimum > maximum and low.rank > high.rank:
        maximum, high = minimum, low
    elif minimum > maximum:
        if low.rank == high.rank and low.rank != _SPEC:
            conflict = (
                f"{low.label} asks for at least {low.number}, {high.label} for at most {high.number}, "
                f"at equal rank: the maximum wins"
            )
        minimum, low = maximum, high
    return Bounds(
        minimum=minimum,
        maximum=maximum,
        floor=None if low.rank == _SPEC else minimum,
        cap=None if high.rank == _SPEC else maximum,
        minimum_by=low.label,
        maximum_by=high.label,
        headroom_percent=headroom,
        proposals=tuple(item.proposal for item in stated),
        abstentions=tuple(abstentions),
        windows=tuple(states),
        next_edge=edge,
        conflict=conflict,
        unreadable=bool(abstentions),
    )


def _rank(schedule: Schedule) -> Rank:
    """Above the spec's own bounds, by priority; of equal priorities a planned event beats what recurs."""
    return (0, 1, 2 * schedule.priority + isinstance(schedule.window, OnceWindow))


def _statements(source: Source, by: Schedule | Override, rank: Rank, until: Nanoseconds | None) -> list[_Stated]:
    """What a schedule or an override states while it holds."""
    name = by.name if isinstance(by, Schedule) else ""
    return [
        _Stated(rank, Proposal(source, name, role, number, until))
        for role, number in ((Role.FLOOR, by.floor), (Role.CAP, by.cap))
        if number is not None
    ]

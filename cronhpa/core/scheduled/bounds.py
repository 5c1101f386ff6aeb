"""
The bounds in force at an instant, and who set them: override, then open schedules by rank, then the spec.

The effective minimum and maximum are resolved apart from each other, each by the highest rank that states it. At
equal rank the largest minimum and the smallest maximum win.

Ahead of its start a schedule leads: what it raises is asked for already, so that it is Ready when the window opens.
Floors and headroom lead; a cap, and a floor that lowers, hold from the start on and not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.behavior import ramp
from cronhpa.core.decision import Abstention, Edge, Lead, Proposal, Role, Source, Window, WindowState
from cronhpa.core.instant import DAY, SECOND, Nanoseconds, format_instant
from cronhpa.core.memory import lead_time
from cronhpa.core.scheduled import windows
from cronhpa.core.spec import CronWindow, OnceWindow, Override, Schedule, Spec

# gc=False: values without cycles, of which an edge that all objects share makes very many at once.
Rank = tuple[int, int, int]
_SPEC: Rank = (0, 0, 0)
_OVERRIDE: Rank = (1, 0, 0)
FOR_EVER: Nanoseconds = 1 << 80


class Bounds(Struct, frozen=True, gc=False):
    """
    minimum, maximum: the effective bounds. floor, cap: the same where a schedule or an override set them, else None.
    minimum_by, maximum_by: who did. conflict: bounds that contradict each other now, in words.
    headroom_percent: the largest of the schedules that are open or lead. leads: the measured leads under way.
    unreadable: whether a schedule had to abstain.
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
    leads: tuple[Lead, ...]
    next_edge: Edge | None
    conflict: str
    unreadable: bool


class Stated(Struct, frozen=True, gc=False):
    """A bound that somebody states, and its rank."""

    rank: Rank
    proposal: Proposal

    @property
    def number(self) -> int:
        return self.proposal.replicas

    @property
    def label(self) -> str:
        return self.proposal.label


class Settled(Struct, frozen=True, gc=False):
    """
    low, high: the minimum and the maximum of the highest rank, each for itself. minimum, maximum: what holds; where low
    is above high, one of the two is both.
    """

    low: Stated
    high: Stated
    minimum: Stated
    maximum: Stated


class _Leading(Struct, frozen=True, gc=False):
    """A schedule that is asked for ahead of its start. floor: what it raises the minimum to, None if it does not."""

    schedule: Schedule
    start: Nanoseconds
    length: Nanoseconds
    floor: int | None


class _Seen(Struct):
    """What the schedules and the override are at an instant. closed: index and start of those that may lead."""

    states: list[Window]
    stated: list[Stated]
    abstentions: list[Abstention]
    closed: list[tuple[int, Nanoseconds]]
    headroom: int = 0
    edge: Edge | None = None

    def meets(self, at: Nanoseconds | None, name: str, state: WindowState) -> None:
        """Takes an edge for the next one if it is the earliest so far."""
        if at is not None and (self.edge is None or at < self.edge.at):
            self.edge = Edge(at, name, state)


def resolve(spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None = None, leads: tuple[Lead, ...] = ()) -> Bounds:
    """
    The bounds that hold at `now`.

    start_up: how long the target's pods take to become Ready, None while it is not known; leads: those that have begun.
    Both are the memory's, and only measured leads depend on them.

    Bounds hold from one edge to the next, so those that an object had last are kept until then.
    """
    kept = _kept(spec, start_up, leads)
    held = kept.held
    if held is None or not held.begin <= now < held.end:
        bounds = _resolved(spec, now, start_up, leads)
        held = kept.held = _Held(now, holds_until(spec, bounds, now), bounds)
    return held.bounds


class _Held(Struct, frozen=True, gc=False):
    """Bounds, and from when to when they hold."""

    begin: Nanoseconds
    end: Nanoseconds
    bounds: Bounds


class _Kept(Struct):
    """The last bounds of one object. In one place, because decisions are made in threads, too."""

    held: _Held | None = None


# 3 kB an object. Bounds of more objects than this are worked out at each turn.
@lru_cache(maxsize=16_384)
def _kept(spec: Spec, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> _Kept:  # noqa: ARG001 - the key
    return _Kept()


def holds_until(spec: Spec, found: Bounds, at: Nanoseconds) -> Nanoseconds:
    """Until when `resolve` says the same as at `at`: the next edge, or the end of the day where none is in sight."""
    edge = FOR_EVER if found.next_edge is None else found.next_edge.at
    # A window that keeps renewing itself names its end once that is in sight, a year ahead.
    is_open_end = any(
        state.changes is None and isinstance(schedule.window, CronWindow)
        for schedule, state in zip(spec.schedules, found.windows, strict=True)
        if state.state in {WindowState.OPEN, WindowState.CLOSED}
    )
    return min(edge, (at // DAY + 1) * DAY) if is_open_end else edge


def _resolved(spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> Bounds:
    seen = _look(spec, now)
    leading = _leading(spec, seen, now, start_up, leads) if seen.closed else []
    settled = _settle(spec, seen.stated)
    conflict = contradiction(settled)
    proposals = [item.proposal for item in seen.stated]
    low, high = settled.minimum, settled.maximum
    if leading:
        blocked = [_is_set_aside(item, leading) for item in seen.stated]
        left = [item for item, is_out in zip(seen.stated, blocked, strict=True) if not is_out]
        ahead = [_ahead(item) for item in leading if item.floor is not None]
        for item in ahead:
            # Each for itself, and no bound lower than it is: beside a cap of higher rank the largest of them may end up
            # lowest, and a cap that is set aside may be one that allows more than the spec does.
            found = _settle(spec, left, item)
            low, high = max(low, found.minimum, key=_number), max(high, found.maximum, key=_number)
        proposals = [
            _told(item.proposal, is_out=is_out and item.number < high.number)
            for item, is_out in zip(seen.stated, blocked, strict=True)
        ]
        proposals += [item.proposal for item in ahead]
    return Bounds(
        minimum=low.number,
        maximum=high.number,
        floor=None if low.rank == _SPEC else low.number,
        cap=None if high.rank == _SPEC else high.number,
        minimum_by=low.label,
        maximum_by=high.label,
        headroom_percent=seen.headroom,
        proposals=tuple(proposals),
        abstentions=tuple(seen.abstentions),
        windows=tuple(seen.states),
        leads=tuple(
            Lead(item.schedule.name, item.start, item.length) for item in leading if item.schedule.lead is None
        ),
        next_edge=seen.edge,
        conflict=conflict,
        unreadable=bool(seen.abstentions),
    )


def _look(spec: Spec, now: Nanoseconds) -> _Seen:
    seen = _Seen([], [], [], [])
    for index, schedule in enumerate(spec.schedules):
        if schedule.problem is not None:
            seen.abstentions.append(Abstention(Source.SCHEDULE, schedule.name, "Unreadable", schedule.problem))
            seen.states.append(Window(schedule.name, WindowState.UNREADABLE, None))
        elif schedule.suspend:
            seen.states.append(Window(schedule.name, WindowState.SUSPENDED, None))
        else:
            _look_at(seen, index, schedule, now)
    override = spec.override
    if override is not None and now < override.until:
        seen.stated += _statements(Source.OVERRIDE, override, _OVERRIDE, override.until)
        seen.meets(override.until, "override", WindowState.CLOSED)
    return seen


def _look_at(seen: _Seen, index: int, schedule: Schedule, now: Nanoseconds) -> None:
    state = windows.state(schedule.window, now)
    if state.is_open:
        seen.states.append(Window(schedule.name, WindowState.OPEN, state.until))
        seen.stated += _stated_by(schedule, state.until)
        seen.headroom = max(seen.headroom, schedule.headroom_percent)
        seen.meets(state.until, schedule.name, WindowState.CLOSED)
        return
    seen.states.append(Window(schedule.name, WindowState.CLOSED, state.until))
    seen.meets(state.until, schedule.name, WindowState.OPEN)
    if state.until is not None and (schedule.floor is not None or schedule.headroom_percent):
        seen.closed.append((index, state.until))


# Schedules that open or meet at one instant share it; what is kept for longer is the lead that comes of it.
@lru_cache(maxsize=4096)
def settled_at(spec: Spec, at: Nanoseconds) -> Settled:
    """What the windows that are open at an instant, the override and the spec come to; leads left aside."""
    stated: list[Stated] = []
    for schedule in spec.schedules:
        if schedule.problem is None and not schedule.suspend:
            state = windows.state(schedule.window, at)
            if state.is_open:
                stated += _stated_by(schedule, state.until)
    if spec.override is not None and at < spec.override.until:
        stated += _statements(Source.OVERRIDE, spec.override, _OVERRIDE, spec.override.until)
    return _settle(spec, stated)


def contradiction(settled: Settled) -> str:
    """
    A minimum above a maximum in words, and which of them won; "" where there is none.

    An override contradicts what it likes: that is what it is for.
    """
    low, high = settled.low, settled.high
    if low.number <= high.number or _OVERRIDE in {low.rank, high.rank}:
        return ""
    asked = f"{low.label} asks for at least {low.number}, {high.label} for at most {high.number}"
    if low.rank == high.rank:
        return f"{asked}, at equal rank: the maximum wins"
    return f"{asked}: {settled.minimum.label} is of higher rank and wins"


def _settle(spec: Spec, stated: Sequence[Stated], ahead: Stated | None = None) -> Settled:
    """ahead: a floor that leads: it raises the minimum, whoever set it."""
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


def _number(item: Stated) -> int:
    return item.number


@lru_cache(maxsize=65_536)
def _of_spec(minimum: int, maximum: int) -> tuple[Stated, Stated]:
    return (
        Stated(_SPEC, Proposal(Source.SPEC, "", Role.FLOOR, minimum)),
        Stated(_SPEC, Proposal(Source.SPEC, "", Role.CAP, maximum)),
    )


# At an edge of one schedule the others of its object state what they did.
@lru_cache(maxsize=65_536)
def _stated_by(schedule: Schedule, until: Nanoseconds | None) -> tuple[Stated, ...]:
    return tuple(_statements(Source.SCHEDULE, schedule, _rank(schedule), until))


def _rank(schedule: Schedule) -> Rank:
    """Above the spec's own bounds, by priority; of equal priorities a planned event beats what recurs."""
    return (0, 1, 2 * schedule.priority + isinstance(schedule.window, OnceWindow))


def _statements(source: Source, by: Schedule | Override, rank: Rank, until: Nanoseconds | None) -> list[Stated]:
    """What a schedule or an override states while it holds."""
    name = by.name if isinstance(by, Schedule) else ""
    return [
        Stated(rank, Proposal(source, name, role, number, until))
        for role, number in ((Role.FLOOR, by.floor), (Role.CAP, by.cap))
        if number is not None
    ]


# --- leads -------------------------------------------------------------------------------------------------------


def _leading(
    spec: Spec, seen: _Seen, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]
) -> list[_Leading]:
    """The closed schedules that are asked for already; `seen` learns of them, and of the lead that begins next."""
    out: list[_Leading] = []
    for index, start in seen.closed:
        assert seen.edge is not None
        # Only what has begun, or may begin before the next edge, is worked out.
        if start - _longest(spec, index, start_up) >= seen.edge.at and not leads:
            continue
        found = _lead(spec, index, start, start_up)
        if found is None:
            continue
        if leads:
            found = _as_begun(found, leads)
        name, begin = found.schedule.name, start - found.length
        if now < begin:
            seen.meets(begin, name, WindowState.LEADING)
            continue
        out.append(found)
        seen.states[index] = Window(name, WindowState.LEADING, start, found.length)
        seen.headroom = max(seen.headroom, found.schedule.headroom_percent)
    return out


@lru_cache(maxsize=65_536)
def _longest(spec: Spec, index: int, start_up: Nanoseconds | None) -> Nanoseconds:
    """No lead of this schedule is longer: the rise from nothing takes the longest."""
    schedule = spec.schedules[index]
    if schedule.lead is not None:
        return schedule.lead
    return lead_time(start_up, spec.tuning) + ramp(spec.behavior, 0, schedule.floor or 0, spec.tuning.sync_period)


@lru_cache(maxsize=65_536)
def _lead(spec: Spec, index: int, start: Nanoseconds, start_up: Nanoseconds | None) -> _Leading | None:
    """How a schedule that opens at `start` leads; None where nothing rises there."""
    schedule = spec.schedules[index]
    before, after = _rise(spec, index, start)
    floor = after if after > before else None
    if floor is None and not schedule.headroom_percent:
        return None
    length = schedule.lead
    if length is None:
        length = lead_time(start_up, spec.tuning) + ramp(spec.behavior, before, after, spec.tuning.sync_period)
    return _Leading(schedule, start, length, floor)


def _as_begun(lead: _Leading, leads: tuple[Lead, ...]) -> _Leading:
    """As long as it was when it began, if it is measured and has."""
    if lead.schedule.lead is not None:
        return lead
    begun = (item for item in leads if item.schedule == lead.schedule.name and item.start == lead.start)
    return next((replace(lead, length=item.length) for item in begun), lead)


def _rise(spec: Spec, index: int, start: Nanoseconds) -> tuple[int, int]:
    """
    The effective minimum just before a schedule opens, and what the schedule makes of it.

    A floor that is outranked when its window opens makes nothing of it.
    """
    schedule = spec.schedules[index]
    before = settled_at(spec, start - 1).minimum.number
    after = settled_at(spec, start)
    if schedule.floor is None or after.low.rank > _rank(schedule):
        return before, before
    return before, min(schedule.floor, after.minimum.number)


def _ahead(item: _Leading) -> Stated:
    assert item.floor is not None
    reason = f"{item.length // SECOND} s ahead of its start at {format_instant(item.start)}"
    proposal = Proposal(Source.SCHEDULE, item.schedule.name, Role.FLOOR, item.floor, reason=reason)
    return Stated(_rank(item.schedule), proposal)


def _is_set_aside(item: Stated, leading: Iterable[_Leading]) -> bool:
    """A cap that closes by the start of what leads must not keep it from being Ready; one of higher rank may."""
    until = item.proposal.until
    return item.proposal.role is Role.CAP and any(
        lead.floor is not None and until is not None and until <= lead.start and item.rank <= _rank(lead.schedule)
        for lead in leading
    )


def _told(proposal: Proposal, *, is_out: bool) -> Proposal:
    return replace(proposal, reason="set aside for what opens when it closes") if is_out else proposal

"""
The bounds in force at an instant, with their sources: override, then open schedules by rank, then the spec.

`ranks` orders the sources; `leads` selects the schedules that count before their start. Bounds are cached until the
next edge.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from weakref import WeakValueDictionary

from msgspec import Struct

from cronhpa.core.cache import OwnedCache
from cronhpa.core.decision import (
    Abstention,
    Edge,
    Lead,
    Proposal,
    Source,
    SourceRef,
    Window,
    WindowState,
)
from cronhpa.core.instant import DAY, FOR_EVER, MINUTE, Nanoseconds
from cronhpa.core.scheduled import windows
from cronhpa.core.scheduled.leads import (
    SeenSchedules,
    ahead_of_start,
    kept_leads,
    leading_schedules,
    look_behind,
    yielding,
)
from cronhpa.core.scheduled.ranks import (
    OVERRIDE_RANK,
    SPEC_RANK,
    RankedBound,
    contradiction,
    settle,
    stated_by,
    statements,
)
from cronhpa.core.spec import CronWindow, Schedule, Spec

# The bounds after an edge are computed at most this long before it. A longer time would keep two sets all day.
_AHEAD_MAX = 15 * MINUTE
_EDGES_AHEAD_MAX = 4
_AHEAD_PLACES = 1 << 16


class Bounds(Struct, frozen=True, gc=False):
    """
    minimum, maximum: the effective bounds. floor, cap: the same if a schedule or an override set them, else None.
    minimum_by, maximum_by: their sources. conflict: bounds that contradict each other now, in words.
    headroom_percent: the largest among the schedules that are open or lead. leads: the measured leads that have begun.
    unreadable: the first schedule that cannot be read and abstains, None if all can be read.
    """

    minimum: int
    maximum: int
    floor: int | None
    cap: int | None
    minimum_by: SourceRef
    maximum_by: SourceRef
    headroom_percent: int
    proposals: tuple[Proposal, ...]
    abstentions: tuple[Abstention, ...]
    windows: tuple[Window, ...]
    leads: tuple[Lead, ...]
    next_edge: Edge | None
    conflict: str
    unreadable: SourceRef | None


def resolve(spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None = None, leads: tuple[Lead, ...] = ()) -> Bounds:
    """
    The bounds in force at `now`.

    start_up: how long the target's pods take to become Ready, None while unknown. leads: the leads that have begun.
    Both come from the memory and only affect measured leads.

    Bounds are constant between edges, so they are cached until the next edge. The bounds after an edge are computed
    shortly before it: at an edge that thousands of objects share, the bounds of all of them are in the cache.
    """
    return resolve_with_expiry(spec, now, start_up, leads)[0]


def resolve_with_expiry(
    spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]
) -> tuple[Bounds, Nanoseconds]:
    """The bounds of `resolve`, and the instant before which it returns the same ones and has nothing to compute."""
    asked = _ASKED.get(spec)
    held = None if asked is None else asked.answer(now, start_up, leads)
    if held is None:
        asked = _shared(spec, start_up, leads)
        held = asked.answer(now, start_up, leads)
        if held is None:
            held = _worked_out(spec, now, start_up, leads)
            _hold(asked, (held, *asked.held[:_EDGES_AHEAD_MAX]), held.end)
    elif now >= held.look_ahead and asked is not None and held.end >= asked.until:
        ahead = (*_behind(spec, held),)
        _hold(asked, (held, *ahead), max((later.end for later in ahead), default=FOR_EVER))
    is_ahead = asked is not None and held.end < asked.until
    return held.bounds, held.end if is_ahead else held.look_ahead


def quiet_until(spec: Spec, edge: Nanoseconds | None, now: Nanoseconds) -> Nanoseconds:
    """
    The instant until which `resolve` answers from its cache for an object that was decided at `now`.

    edge: the object's next edge. At the returned instant the cached bounds end, or `resolve` computes the next ones,
    which takes milliseconds for an object of 50 windows.
    """
    end = (now // DAY + 1) * DAY
    return (end if edge is None else min(edge, end)) - _AHEAD_MAX - spec.options.sync_period


class _Held(Struct, frozen=True, gc=False):
    """
    Cached bounds, valid in [begin, end) for a caller with this start-up time and either the leads that it passed in or
    the leads that were computed. look_ahead: from this instant on the bounds after `end` are computed.
    """

    begin: Nanoseconds
    end: Nanoseconds
    start_up: Nanoseconds | None
    leads: tuple[Lead, ...]
    bounds: Bounds
    look_ahead: Nanoseconds


class _Asked:
    """
    The cache entry that specs with equal schedules and bounds share. The specs keep it alive.

    held: the bounds that were computed last. until: the end of the last consecutive ones.
    """

    __slots__ = ("__weakref__", "held", "until")

    def __init__(self) -> None:
        self.held: tuple[_Held, ...] = ()
        self.until: Nanoseconds = 0

    def answer(self, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> _Held | None:
        held = self.held
        for entry in held:
            if (
                entry.begin <= now < entry.end
                and entry.start_up == start_up
                and leads in (entry.bounds.leads, entry.leads)
            ):
                if entry is not held[0]:  # the next turn looks at the first one first
                    self.held = (entry, *(other for other in held if other is not entry))
                return entry
        return None

    def forget(self) -> None:
        self.held = ()


# The keys are all inputs of bounds: objects that differ only in targets and metrics share an entry.
_SHARED: WeakValueDictionary[tuple[Hashable, ...], _Asked] = WeakValueDictionary()
# Room for the entries of 65,536 objects, and for the bounds of 20,000 objects with five schedules each that share none.
# The bounds of more objects are computed at each turn.
_ASKED: OwnedCache[Spec, _Asked] = OwnedCache(32 * 2**20)
_HELD: OwnedCache[_Asked, None] = OwnedCache(96 * 2**20, dropped=_Asked.forget)
# Bytes of an entry, of bounds without their parts, and of a window and a proposal without its text.
_ASKED_WEIGHT, _BOUNDS_WEIGHT, _WINDOW_WEIGHT, _PROPOSAL_WEIGHT = 500, 700, 110, 240


def _shared(spec: Spec, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> _Asked:
    """The entry that this spec shares with all specs of equal schedules and bounds."""
    question = (
        spec.schedules,
        spec.override,
        spec.min_replicas,
        spec.max_replicas,
        spec.behavior,
        spec.options.sync_period,
        start_up,
        leads,
    )
    asked = _SHARED.get(question)
    if asked is None:
        asked = _SHARED[question] = _Asked()
    _ASKED.put(spec, asked, _ASKED_WEIGHT)
    return asked


def _hold(asked: _Asked, held: tuple[_Held, ...], until: Nanoseconds) -> None:
    asked.held, asked.until = held, until
    _HELD.put(asked, None, sum(_weight(entry.bounds) for entry in held))


def _weight(bounds: Bounds) -> int:
    """The approximate size of bounds in bytes, including parts that they share with others."""
    texts = sum(len(abstention.message) for abstention in bounds.abstentions)
    parts = len(bounds.proposals) + len(bounds.abstentions) + len(bounds.leads)
    return (
        _BOUNDS_WEIGHT + _WINDOW_WEIGHT * len(bounds.windows) + _PROPOSAL_WEIGHT * parts + texts + len(bounds.conflict)
    )


def _behind(spec: Spec, held: _Held) -> Iterator[_Held]:
    """The bounds after these; if a lead begins then, also the bounds after its end."""
    until = held.end + _AHEAD_MAX
    for _ in range(_EDGES_AHEAD_MAX):
        if held.end >= min(until, FOR_EVER):
            return
        held = _worked_out(spec, held.end, held.start_up, held.bounds.leads)
        yield held


def _worked_out(spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> _Held:
    """The bounds in force at `now`, with the instant until which they hold."""
    bounds = resolve_anew(spec, now, start_up, leads)
    end = holds_until(spec, bounds, now)
    # Objects are spread over the minutes before the edge, and none computes in the last turn before it.
    last = end - spec.options.sync_period
    place = max(min(last - now, _AHEAD_MAX), 0) * (hash(spec) % _AHEAD_PLACES) // _AHEAD_PLACES
    return _Held(now, end, start_up, leads, bounds, last - place)


def holds_until(spec: Spec, bounds: Bounds, at: Nanoseconds) -> Nanoseconds:
    """Until when `resolve` returns the same as at `at`: the next edge, or the end of the day if no edge is known."""
    edge = FOR_EVER if bounds.next_edge is None else bounds.next_edge.at
    # The end of a window that its own starts keep open is only known from a year before it on.
    is_open_end = any(
        state.changes is None and isinstance(schedule.window, CronWindow)
        for schedule, state in zip(spec.schedules, bounds.windows, strict=True)
        if state.state in {WindowState.OPEN, WindowState.CLOSED}
    )
    return min(edge, (at // DAY + 1) * DAY) if is_open_end else edge


def resolve_anew(spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> Bounds:
    """`resolve` without its cache."""
    seen = _look(spec, now)
    settled = settle(spec, seen.stated)
    leading = leading_schedules(spec, seen, settled, now, start_up, leads) if seen.closed else []
    if seen.edge is not None and seen.edge.state is WindowState.CLOSED:
        look_behind(spec, seen, start_up)
    conflict = contradiction(settled)
    proposals = [bound.proposal for bound in seen.stated]
    low, high = settled.minimum, settled.maximum
    if leading:
        stated = [yielding(bound, leading) for bound in seen.stated]
        ahead = [ahead_of_start(schedule) for schedule in leading if schedule.floor is not None]
        for floor in ahead:
            # Resolve each leading floor separately and keep the highest result: next to a higher-ranked cap, the
            # largest floor can resolve to the lowest bound.
            raised = settle(spec, stated, floor)
            low, high = max(low, raised.minimum, key=_number), max(high, raised.maximum, key=_number)
        proposals = [bound.proposal for bound in (*stated, *ahead)]
    return Bounds(
        minimum=low.number,
        maximum=high.number,
        floor=None if low.rank == SPEC_RANK else low.number,
        cap=None if high.rank == SPEC_RANK else high.number,
        minimum_by=low.by,
        maximum_by=high.by,
        headroom_percent=seen.headroom,
        proposals=tuple(proposals),
        abstentions=tuple(seen.abstentions),
        windows=tuple(seen.states),
        leads=kept_leads(spec, seen, leading, now, leads),
        next_edge=seen.edge,
        conflict=conflict,
        unreadable=SourceRef(Source.SCHEDULE, seen.abstentions[0].name) if seen.abstentions else None,
    )


def _look(spec: Spec, now: Nanoseconds) -> SeenSchedules:
    seen = SeenSchedules([], [], [], [])
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
        seen.stated += statements(Source.OVERRIDE, override, OVERRIDE_RANK, override.until)
        seen.meets(override.until, "override", WindowState.CLOSED)
    return seen


def _look_at(seen: SeenSchedules, index: int, schedule: Schedule, now: Nanoseconds) -> None:
    state = windows.state(schedule.window, now)
    if state.is_open:
        seen.states.append(Window(schedule.name, WindowState.OPEN, state.until))
        seen.stated += stated_by(schedule, state.until)
        seen.headroom = max(seen.headroom, schedule.headroom_percent)
        seen.meets(state.until, schedule.name, WindowState.CLOSED)
        return
    seen.states.append(Window(schedule.name, WindowState.CLOSED, state.until))
    seen.meets(state.until, schedule.name, WindowState.OPEN)
    if state.until is not None and (schedule.floor is not None or schedule.headroom_percent):
        seen.closed.append((index, state.until))


def _number(bound: RankedBound) -> int:
    return bound.number

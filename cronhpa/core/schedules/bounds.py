"""
The bounds in force at an instant, with their sources: override, then open schedules by rank, then the spec.

`ranks` orders the sources; `leads` selects the schedules that count before their start. A spec keeps its bounds until
the next edge.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from cronhpa.core.model.decision import (
    Abstention,
    Edge,
    Lead,
    Proposal,
    Source,
    SourceRef,
    Window,
    WindowState,
)
from cronhpa.core.model.instant import DAY, FOR_EVER, MINUTE, Nanoseconds
from cronhpa.core.model.observation import Crowd
from cronhpa.core.model.spec import CronWindow, Spec
from cronhpa.core.schedules.leads import (
    ahead_of_start,
    kept_leads,
    leading_schedules,
    look_behind,
    yielding,
)
from cronhpa.core.schedules.ranks import (
    SPEC_RANK,
    RankedBound,
    contradiction,
    look,
    settle,
)

# The bounds after an edge are computed at most this long before it. A longer time would keep several of them all day.
_AHEAD_MAX = 15 * MINUTE
_EDGES_AHEAD_MAX = 4
_PLACES = 1 << 16


class Bounds(Struct, frozen=True, gc=False):
    """The bounds in force at an instant, with their sources."""

    minimum: int
    maximum: int
    """The effective bounds, those of the spec included."""
    timed_floor: int | None
    """The minimum, if a schedule or an override set it; else None."""
    timed_cap: int | None
    """The maximum, if a schedule or an override set it; else None."""
    minimum_by: SourceRef
    maximum_by: SourceRef
    headroom_percent: int
    """The largest among the schedules that are open or lead."""
    proposals: tuple[Proposal, ...]
    abstentions: tuple[Abstention, ...]
    windows: tuple[Window, ...]
    leads: tuple[Lead, ...]
    """The measured leads that have begun."""
    next_edge: Edge | None
    conflict: str
    """Bounds that contradict each other now, in words."""
    unreadable: SourceRef | None
    """The first schedule that cannot be read and abstains; None if all can be read."""


def resolve(
    spec: Spec,
    now: Nanoseconds,
    start_up: Nanoseconds | None = None,
    leads: tuple[Lead, ...] = (),
    crowd: Crowd | None = None,
) -> Bounds:
    """
    The bounds in force at `now`.

    start_up: how long the target's pods take to become Ready, None while unknown. leads: the leads that have begun.
    crowd: that of the object's next start, None while unknown. All come from the memory and affect
    measured leads alone.

    Bounds are constant between edges, so the spec keeps them until the next one. The bounds after an edge are computed
    shortly before it, by each object at another time: an edge may be shared by thousands of objects.
    """
    return resolve_with_expiry(spec, now, start_up, leads, crowd)[0]


def resolve_with_expiry(
    spec: Spec,
    now: Nanoseconds,
    start_up: Nanoseconds | None,
    leads: tuple[Lead, ...],
    crowd: Crowd | None = None,
) -> tuple[Bounds, Nanoseconds]:
    """The bounds of `resolve`, and the instant until which they hold for an object that remembers their leads."""
    cached: tuple[_CachedBounds, ...] = spec.computed.get("bounds", ())
    while cached and not cached[0].hold(now, start_up, leads, crowd):
        cached = cached[1:]
    if not cached:
        cached = (_computed(spec, now, start_up, leads, crowd),)
    current = cached[0]
    if len(cached) == 1 and now >= current.ahead_at:
        cached = (current, *_computed_ahead(spec, current))
    spec.computed["bounds"] = cached
    return current.bounds, current.end


class _CachedBounds(Struct, frozen=True, gc=False):
    """Bounds with their inputs, in force from `begin` up to `end`."""

    bounds: Bounds
    begin: Nanoseconds
    end: Nanoseconds
    ahead_at: Nanoseconds
    """From this instant on the bounds after `end` are computed."""
    start_up: Nanoseconds | None
    leads: tuple[Lead, ...]
    crowd: Crowd | None

    def hold(
        self, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...], crowd: Crowd | None
    ) -> bool:
        """Whether these are the bounds for such inputs; the leads may be those passed in or those computed."""
        is_now = self.begin <= now < self.end
        is_alike = self.start_up == start_up and self.crowd == crowd
        return is_now and is_alike and leads in (self.bounds.leads, self.leads)


def _computed(
    spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...], crowd: Crowd | None
) -> _CachedBounds:
    bounds = resolve_anew(spec, now, start_up, leads, crowd)
    end = holds_until(spec, bounds, now)
    # Objects are spread over the minutes before the edge, and none computes in the last period before it.
    last = end - spec.options.sync_period
    spread = max(min(last - now, _AHEAD_MAX), 0)
    return _CachedBounds(bounds, now, end, last - spread * (hash(spec) % _PLACES) // _PLACES, start_up, leads, crowd)


def _computed_ahead(spec: Spec, latest: _CachedBounds) -> Iterator[_CachedBounds]:
    """The bounds after these, and those after further edges that follow soon, such as a start after its lead."""
    until = min(latest.end + _AHEAD_MAX, FOR_EVER)
    for _ in range(_EDGES_AHEAD_MAX):
        if latest.end >= until:
            return
        latest = _computed(spec, latest.end, latest.start_up, latest.bounds.leads, latest.crowd)
        yield latest


def quiet_until(spec: Spec, edge: Nanoseconds | None, now: Nanoseconds) -> Nanoseconds:
    """
    The instant until which `resolve` has nothing to compute for an object that was decided at `now`.

    edge: the object's next edge. At the returned instant the bounds end, or `resolve` computes the next ones, which
    takes milliseconds for an object of 50 windows.
    """
    end = (now // DAY + 1) * DAY
    return (end if edge is None else min(edge, end)) - _AHEAD_MAX - spec.options.sync_period


def holds_until(spec: Spec, bounds: Bounds, at: Nanoseconds) -> Nanoseconds:
    """Until when `resolve` returns the same as at `at`: the next edge, or the end of the day if no edge is known."""
    edge = FOR_EVER if bounds.next_edge is None else bounds.next_edge.at
    # The end of a window that its own starts keep open is only known from a year before it on, or from a month before
    # it on where each minute is a start.
    is_open_end = any(
        state.changes is None and isinstance(schedule.window, CronWindow)
        for schedule, state in zip(spec.schedules, bounds.windows, strict=True)
        if state.state in {WindowState.OPEN, WindowState.CLOSED}
    )
    return min(edge, (at // DAY + 1) * DAY) if is_open_end else edge


def resolve_anew(
    spec: Spec,
    now: Nanoseconds,
    start_up: Nanoseconds | None,
    leads: tuple[Lead, ...],
    crowd: Crowd | None = None,
) -> Bounds:
    """`resolve` without its cache."""
    seen = look(spec, now)
    settled = settle(spec, seen.stated)
    leading = leading_schedules(spec, seen, settled, now, start_up, leads, crowd) if seen.closed else []
    if seen.edge is not None and seen.edge.state is WindowState.CLOSED:
        look_behind(spec, seen, start_up, crowd)
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
        timed_floor=None if low.rank == SPEC_RANK else low.number,
        timed_cap=None if high.rank == SPEC_RANK else high.number,
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


def _number(bound: RankedBound) -> int:
    return bound.number

"""
Leads: a schedule counts before its start, by the time that pods and policies need to reach its floor.

Floors and headroom lead. A cap, and a floor below the current minimum, hold from the start on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.behavior import ramp
from cronhpa.core.model.decision import (
    Ahead,
    Decision,
    Edge,
    Lead,
    Proposal,
    Role,
    Source,
    Window,
    WindowState,
    Yielding,
)
from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.memory import lead_time
from cronhpa.core.model.observation import Crowd
from cronhpa.core.model.spec import Schedule, Spec
from cronhpa.core.schedules import windows
from cronhpa.core.schedules.ranks import RankedBound, SeenSchedules, Settled, rank_of, settled_at, stated_at

# Whoever looks at a window that has opened waits no longer than this for its event.
_SOON = MINUTE


class Leading(Struct, frozen=True, gc=False):
    """A schedule that counts before its start."""

    schedule: Schedule
    start: Nanoseconds
    length: Nanoseconds
    floor: int | None
    """The raised minimum; None if it raises none."""
    stated: int | None
    """The floor that the schedule states at its start; None if it states none."""
    crowd: Crowd | None = None
    """The crowd that makes the lead longer; None if none does."""


def leading_schedules(
    spec: Spec,
    seen: SeenSchedules,
    settled: Settled,
    now: Nanoseconds,
    start_up: Nanoseconds | None,
    leads: tuple[Lead, ...],
    crowd: Crowd | None = None,
) -> list[Leading]:
    """The closed schedules that count already. Enters them, and the edge at which the next lead begins, in `seen`."""
    assert seen.edge is not None
    begun = {(lead.schedule, lead.start): lead.length for lead in leads}
    # Schedules that open at the same instant share these bounds; nothing changes before the first edge.
    settled_then = {seen.edge.at - 1: settled}
    out: list[Leading] = []
    for index, start in seen.closed:
        length = begun.get((spec.schedules[index].name, start))
        # Only leads that have begun, or may begin before the next edge, are computed.
        if length is None and start - _longest(spec, index, start, start_up, crowd) >= seen.edge.at:
            continue
        for at in (start - 1, start):
            if at not in settled_then:
                settled_then[at] = settled_at(spec, at)
        leading = _lead(spec, index, start, start_up, settled_then[start - 1], settled_then[start], crowd)
        if leading is None:
            continue
        if length is not None and leading.schedule.lead is None:
            # As long as it was when it began.
            leading = replace(leading, length=length, crowd=leading.crowd if length == leading.length else None)
        name, begin = leading.schedule.name, start - leading.length
        if now < begin:
            seen.meets(begin, name, WindowState.LEADING)
            continue
        out.append(leading)
        seen.states[index] = Window(name, WindowState.LEADING, start, leading.length)
        seen.headroom = max(seen.headroom, leading.schedule.headroom_percent)
    return out


def urgent_edge(spec: Spec, decision: Decision) -> Nanoseconds | None:
    """
    The next edge of a decision, if the object must be decided at once then; None without one, and if its next period
    is soon enough: nothing but schedules open whose floors count already.

    Thousands may share a start. Their decisions would delay those of objects that it scales down.
    """
    edge = decision.next_edge
    if edge is None or edge.state is not WindowState.OPEN or spec.options.sync_period > _SOON:
        return None if edge is None else edge.at
    if any(window.changes == edge.at and window.state is not WindowState.LEADING for window in decision.windows):
        return edge.at
    then = settled_at(spec, edge.at)
    is_alike = (then.minimum.number, then.maximum.number) == (decision.minimum, decision.maximum)
    return None if is_alike else edge.at


def next_rise(spec: Spec, states: Sequence[Window], minimum: int) -> tuple[Nanoseconds, int] | None:
    """
    The next start at which a closed schedule with a measured lead raises the minimum, and the pods that it adds; None
    if there is none. states: of the spec's schedules, in order.
    """
    starts = [
        (window.changes, schedule)
        for schedule, window in zip(spec.schedules, states, strict=False)
        if window.state is WindowState.CLOSED
        and window.changes is not None
        and schedule.lead is None
        and schedule.has_floor
    ]
    first: tuple[Nanoseconds, int] | None = None
    for start, schedule in starts:
        if first is None or start <= first[0]:
            pods = (stated_floor(spec, schedule, start) or 0) - minimum
            if pods > 0:
                first = (start, pods) if first is None or start < first[0] else (start, max(pods, first[1]))
    return first


def kept_leads(
    spec: Spec, seen: SeenSchedules, leading: Sequence[Leading], now: Nanoseconds, begun: tuple[Lead, ...]
) -> tuple[Lead, ...]:
    """
    The measured leads that have begun, including those that raise nothing now.

    An override hides a lead: if it is removed before the start, the lead continues with its former length.
    """
    kept = [
        Lead(schedule.schedule.name, schedule.start, schedule.length)
        for schedule in leading
        if schedule.schedule.lead is None
    ]
    if begun:
        measured = {
            (spec.schedules[index].name, start) for index, start in seen.closed if spec.schedules[index].lead is None
        }
        measured -= {(lead.schedule, lead.start) for lead in kept}
        kept += [lead for lead in begun if (lead.schedule, lead.start) in measured and lead.start - lead.length <= now]
    return tuple(kept)


def beginning(spec: Spec, schedule: str, at: Nanoseconds) -> tuple[Lead, ...]:
    """The lead of the schedule of this name that begins at an instant; none if its window never opens after it."""
    named = (one for one in spec.schedules if one.name == schedule and one.problem is None)
    starts = (windows.state(one.window, at).until for one in named)
    return tuple(Lead(schedule, start, start - at) for start in starts if start is not None)


def look_behind(spec: Spec, seen: SeenSchedules, start_up: Nanoseconds | None, crowd: Crowd | None = None) -> None:
    """Sets the next edge to LEADING if a window's next lead begins at or before its end."""
    assert seen.edge is not None
    at = seen.edge.at
    for index, (schedule, window) in enumerate(zip(spec.schedules, seen.states, strict=True)):
        if window.state is not WindowState.OPEN or (window.changes, window.name) != (at, seen.edge.schedule):
            continue
        start = windows.state(schedule.window, at).until
        if start is None or start - _longest(spec, index, start, start_up, crowd) > at:
            return
        leading = _lead(spec, index, start, start_up, settled_at(spec, start - 1), settled_at(spec, start), crowd)
        if leading is not None and start - leading.length <= at:
            seen.edge = Edge(at, schedule.name, WindowState.LEADING)


def _longest(
    spec: Spec, index: int, start: Nanoseconds, start_up: Nanoseconds | None, crowd: Crowd | None
) -> Nanoseconds:
    """The longest possible lead of this schedule: that of a rise from zero."""
    schedule = spec.schedules[index]
    if schedule.lead is not None:
        return schedule.lead
    delay = 0 if crowd is None else crowd.delay(start)
    rise = ramp(spec.behavior, 0, stated_floor(spec, schedule, start) or 0, spec.options.sync_period)
    return lead_time(start_up, spec.options) + rise + delay


def stated_floor(spec: Spec, schedule: Schedule, start: Nanoseconds) -> int | None:
    """The floor that a schedule states at its start; None if it states none."""
    if not schedule.is_relative:
        return schedule.floor
    floors = (
        bound.number
        for bound in stated_at(spec, start)
        if bound.proposal.role is Role.FLOOR and bound.by.name == schedule.name
    )
    return max(floors, default=None)


def _lead(
    spec: Spec,
    index: int,
    start: Nanoseconds,
    start_up: Nanoseconds | None,
    before: Settled,
    then: Settled,
    crowd: Crowd | None,
) -> Leading | None:
    """
    The lead of a schedule that opens at `start`; None if neither minimum nor headroom rises there.

    before, then: the bounds just before the start, and from the start on. An outranked floor raises nothing.
    """
    schedule = spec.schedules[index]
    low = high = before.minimum.number
    stated = stated_floor(spec, schedule, start)
    if stated is not None and then.low.rank <= rank_of(schedule):
        high = min(stated, then.minimum.number)
    floor = high if high > low else None
    if floor is None and not schedule.headroom_percent:
        return None
    if schedule.lead is not None:
        return Leading(schedule, start, schedule.lead, floor, stated)
    length = lead_time(start_up, spec.options) + ramp(spec.behavior, low, high, spec.options.sync_period)
    delay = 0 if crowd is None else crowd.delay(start)
    return Leading(schedule, start, length + delay, floor, stated, crowd if delay else None)


def ahead_of_start(leading: Leading) -> RankedBound:
    assert leading.floor is not None
    stated = None if leading.stated == leading.floor else leading.stated
    basis = Ahead(leading.start, leading.length, stated, leading.crowd)
    proposal = Proposal(Source.SCHEDULE, leading.schedule.name, Role.FLOOR, leading.floor, basis=basis)
    return RankedBound(rank_of(leading.schedule), proposal)


def yielding(cap: RankedBound, leading: Iterable[Leading]) -> RankedBound:
    """Raises a cap that ends by the start of a leading schedule to the schedule's floor, unless its rank is higher."""
    until = cap.proposal.until
    if cap.proposal.role is not Role.CAP or until is None:
        return cap
    yields_to = (lead for lead in leading if until <= lead.start and cap.rank <= rank_of(lead.schedule))
    needed = max((lead.floor for lead in yields_to if lead.floor is not None), default=0)
    if needed <= cap.number:
        return cap
    return RankedBound(cap.rank, replace(cap.proposal, replicas=needed, basis=Yielding(cap.number)))

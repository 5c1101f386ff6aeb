"""
Leads: a schedule is asked for ahead of its start by the time that pods and policies need to get there.

Floors and headroom lead; a cap, and a floor that lowers, hold from the start on and not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.behavior import ramp
from cronhpa.core.decision import Abstention, Ahead, Edge, Lead, Proposal, Role, Source, Window, WindowState, Yielding
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.memory import lead_time
from cronhpa.core.scheduled import windows
from cronhpa.core.scheduled.ranks import RankedBound, Settled, rank_of, settle, settled_at, stated_by
from cronhpa.core.spec import Schedule, Spec


class Leading(Struct, frozen=True, gc=False):
    """A schedule that is asked for ahead of its start. floor: the raised minimum; None if it raises none."""

    schedule: Schedule
    start: Nanoseconds
    length: Nanoseconds
    floor: int | None


class SeenSchedules(Struct):
    """What the schedules and the override are at an instant. closed: index and start of those that may lead."""

    states: list[Window]
    stated: list[RankedBound]
    abstentions: list[Abstention]
    closed: list[tuple[int, Nanoseconds]]
    headroom: int = 0
    edge: Edge | None = None

    def meets(self, at: Nanoseconds | None, name: str, state: WindowState) -> None:
        """Takes an edge for the next one if it is the earliest so far."""
        if at is not None and (self.edge is None or at < self.edge.at):
            self.edge = Edge(at, name, state)


def leading_schedules(
    spec: Spec,
    seen: SeenSchedules,
    settled: Settled,
    now: Nanoseconds,
    start_up: Nanoseconds | None,
    leads: tuple[Lead, ...],
) -> list[Leading]:
    """The closed schedules that are asked for already; `seen` learns of them, and of the lead that begins next."""
    assert seen.edge is not None
    first = seen.edge.at
    then: Settled | None = None
    begun = {(item.schedule, item.start): item.length for item in leads}
    # Schedules that open or meet at one instant share it.
    settled_then: dict[Nanoseconds, Settled] = {}
    out: list[Leading] = []
    for index, start in seen.closed:
        length = begun.get((spec.schedules[index].name, start))
        # Only what has begun, or may begin before the next edge, is worked out.
        if length is None and start - _longest(spec, index, start_up) >= seen.edge.at:
            continue
        if start == first:
            then = then or _then(spec, seen, first)
            found = _lead(spec, index, start, start_up, settled, then)
        else:
            for at in (start - 1, start):
                if at not in settled_then:
                    settled_then[at] = settled_at(spec, at)
            found = _lead(spec, index, start, start_up, settled_then[start - 1], settled_then[start])
        if found is None:
            continue
        if length is not None and found.schedule.lead is None:
            found = replace(found, length=length)  # as long as it was when it began
        name, begin = found.schedule.name, start - found.length
        if now < begin:
            seen.meets(begin, name, WindowState.LEADING)
            continue
        out.append(found)
        seen.states[index] = Window(name, WindowState.LEADING, start, found.length)
        seen.headroom = max(seen.headroom, found.schedule.headroom_percent)
    return out


def kept_leads(
    spec: Spec, seen: SeenSchedules, leading: Sequence[Leading], now: Nanoseconds, begun: tuple[Lead, ...]
) -> tuple[Lead, ...]:
    """
    The measured leads under way, and those that had begun and ask for nothing now.

    An override hides a lead while it lasts: taken back before the start, the lead goes on as long as it was.
    """
    kept = [Lead(item.schedule.name, item.start, item.length) for item in leading if item.schedule.lead is None]
    if begun:
        measured = {
            (spec.schedules[index].name, start) for index, start in seen.closed if spec.schedules[index].lead is None
        }
        measured -= {(item.schedule, item.start) for item in kept}
        kept += [item for item in begun if (item.schedule, item.start) in measured and item.start - item.length <= now]
    return tuple(kept)


def look_behind(spec: Spec, seen: SeenSchedules, start_up: Nanoseconds | None) -> None:
    """Tells of a window that goes straight from its end into its next lead."""
    assert seen.edge is not None
    at = seen.edge.at
    for index, (schedule, window) in enumerate(zip(spec.schedules, seen.states, strict=True)):
        if window.state is not WindowState.OPEN or (window.changes, window.name) != (at, seen.edge.schedule):
            continue
        start = windows.state(schedule.window, at).until
        if start is None or start - _longest(spec, index, start_up) > at:
            return
        found = _lead(spec, index, start, start_up, settled_at(spec, start - 1), settled_at(spec, start))
        if found is not None and start - found.length <= at:
            seen.edge = Edge(at, schedule.name, WindowState.LEADING)


def _then(spec: Spec, seen: SeenSchedules, edge: Nanoseconds) -> Settled:
    """The bounds at the next edge, from the seen schedules: `settled_at` without resolving every window."""
    stated = [item for item in seen.stated if item.proposal.until != edge]
    for schedule, window in zip(spec.schedules, seen.states, strict=True):
        if window.changes == edge and window.state is not WindowState.OPEN:
            stated += stated_by(schedule, None)
    return settle(spec, stated)


def _longest(spec: Spec, index: int, start_up: Nanoseconds | None) -> Nanoseconds:
    """The longest lead that this schedule can have: that of a rise from zero."""
    schedule = spec.schedules[index]
    if schedule.lead is not None:
        return schedule.lead
    return lead_time(start_up, spec.options) + ramp(spec.behavior, 0, schedule.floor or 0, spec.options.sync_period)


def _lead(
    spec: Spec, index: int, start: Nanoseconds, start_up: Nanoseconds | None, before: Settled, then: Settled
) -> Leading | None:
    """
    How a schedule that opens at `start` leads; None where nothing rises there.

    before, then: what holds just before it opens, and from then on. A floor that is outranked raises nothing.
    """
    schedule = spec.schedules[index]
    low = high = before.minimum.number
    if schedule.floor is not None and then.low.rank <= rank_of(schedule):
        high = min(schedule.floor, then.minimum.number)
    floor = high if high > low else None
    if floor is None and not schedule.headroom_percent:
        return None
    length = schedule.lead
    if length is None:
        length = lead_time(start_up, spec.options) + ramp(spec.behavior, low, high, spec.options.sync_period)
    return Leading(schedule, start, length, floor)


def ahead_of_start(item: Leading) -> RankedBound:
    assert item.floor is not None
    stated = item.schedule.floor
    basis = Ahead(item.start, item.length, None if stated == item.floor else stated)
    proposal = Proposal(Source.SCHEDULE, item.schedule.name, Role.FLOOR, item.floor, basis=basis)
    return RankedBound(rank_of(item.schedule), proposal)


def yielding(item: RankedBound, leading: Iterable[Leading]) -> RankedBound:
    """A cap that closes by the start of what leads allows what that needs to be Ready; one of higher rank does not."""
    until = item.proposal.until
    if item.proposal.role is not Role.CAP or until is None:
        return item
    yields_to = (lead for lead in leading if until <= lead.start and item.rank <= rank_of(lead.schedule))
    needed = max((lead.floor for lead in yields_to if lead.floor is not None), default=0)
    if needed <= item.number:
        return item
    return RankedBound(item.rank, replace(item.proposal, replicas=needed, basis=Yielding(item.number)))

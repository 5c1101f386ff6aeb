"""
Planned events become schedules of the objects that they pick: there is no second rule for them.

Leads, ranks, conflicts, records, `explain` and `replay` see ordinary schedules, called `Event/NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.decision import EVENT_PREFIX, Edge, Role, WindowState
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import OnceWindow, Schedule, Spec
from cronhpa.core.schedules import windows
from cronhpa.core.schedules.ranks import settled_at, stated_at

MAX_EVENT_SCHEDULES = 50
"""The most schedules that an object takes over from events; of more, those of `taken_over`."""

# The count that the expected load of a schedule asks for; None where the usual load is not known, Absent while it was
# not read.
ExpectedReplicas = Callable[[PlannedEvent, EventSchedule], int | Absent | None]


def with_events(spec: Spec, events: Iterable[PlannedEvent], expected: ExpectedReplicas = lambda *_: None) -> Spec:
    """
    The spec with the schedules of the events that its object takes over; the spec itself if there is none.

    The object's maximum, the spec's or a higher one of another source, stays a cap, unless the event's schedule states
    a maximum of its own.
    """
    added = tuple(schedule for event in sorted(events, key=_order) for schedule in _written_in(event, expected))
    return replace(spec, schedules=(*spec.schedules, *added)) if added else spec


def with_unknown_events(spec: Spec, problem: str, prefix: str = EVENT_PREFIX) -> Spec:
    """The spec of an object whose events of this prefix cannot be read: only a cap scales it down meanwhile."""
    unknown = Schedule(f"{prefix}*", OnceWindow("1970-01-01T00:00", "1970-01-01T00:01", "UTC"))
    return replace(spec, schedules=(*spec.schedules, replace(unknown, problem=problem)))


def taken_over(events: Iterable[PlannedEvent], now: Nanoseconds) -> Sequence[PlannedEvent]:
    """
    The events whose schedules an object takes over: as many as `MAX_EVENT_SCHEDULES` allows, each as a whole.

    First those of the cluster, and those by name; after all others those of which no window opens any more.
    """
    events = tuple(events)
    if sum(len(event.schedules) for event in events) <= MAX_EVENT_SCHEDULES:
        return events
    room = MAX_EVENT_SCHEDULES
    taken = []
    for event in _over_last(sorted(events, key=_order), now):
        if len(event.schedules) <= room:
            room -= len(event.schedules)
            taken.append(event)
        if not room:
            break
    return taken


def _over_last(events: Iterable[PlannedEvent], now: Nanoseconds) -> Iterator[PlannedEvent]:
    """The events in their order, those that are over behind all others. Each is looked at when it is asked for."""
    over = []
    for event in events:
        if is_over(event, now):
            over.append(event)
        else:
            yield event
    yield from over


def is_over(event: PlannedEvent, now: Nanoseconds) -> bool:
    """Whether no window of an event is open or opens any more."""
    return not any(windows.opens_again(one.schedule.window, now) for one in event.unsuspended)


def _order(event: PlannedEvent) -> tuple[bool, str]:
    """A ClusterPlannedEvent first: a tenant's events must not displace it."""
    return bool(event.namespace), event.name


def _written_in(event: PlannedEvent, expected: ExpectedReplicas) -> Iterator[Schedule]:
    for event_schedule in event.schedules:
        schedule = event_schedule.schedule
        by_load = None if event_schedule.expected_load_percent is None else expected(event, event_schedule)
        yield replace(
            schedule,
            name=schedule_name(event, schedule),
            floor=_floor(event_schedule, by_load),
            within_maximum=not _states_maximum(schedule),
            suspend=schedule.suspend or event.suspend,
            placeholders=event.placeholders,
        )
        if isinstance(by_load, Absent) and not event.suspend:
            # What cannot be read abstains, and only a cap scales down meanwhile.
            # No event has a # in its name, so no schedule of one is called like this.
            name = schedule_name(event, schedule).replace(event.title, f"{event.title}#usual-load", 1)
            yield replace(schedule, name=name, floor=None, cap=None, problem=by_load.message)


def schedule_names(event: PlannedEvent) -> frozenset[str]:
    """The names of an event's schedules in the objects that it picks."""
    return frozenset(schedule_name(event, event_schedule.schedule) for event_schedule in event.schedules)


def schedule_name(event: PlannedEvent, schedule: Schedule) -> str:
    """
    The name of an event's schedule in the objects that it picks: the title of the event.

    Where the event has several it is `Event/black-friday/doors`.
    """
    return event.title if len(event.schedules) == 1 else f"{event.title}/{schedule.name}"


def _floor(event_schedule: EventSchedule, by_load: int | Absent | None) -> int | None:
    """The floor in pods that an event's schedule asks for within its own maximum; None for none."""
    floor, cap = _uncut_floor(event_schedule, by_load), event_schedule.schedule.cap
    return floor if floor is None or cap is None else min(floor, cap)


def _uncut_floor(event_schedule: EventSchedule, by_load: int | Absent | None) -> int | None:
    """The floor in pods by its number and by the expected load; None for neither."""
    number = event_schedule.schedule.floor
    return max(by_load, number or 0) if isinstance(by_load, int) else number


class Phase(Struct, frozen=True):
    """Where an event stands in time."""

    at: Nanoseconds | None
    """The instant that the plan is for: now while a window is open, else the next start; None once none opens again."""
    is_open: bool = False
    edge: Edge | None = None
    """The next change of one of its windows."""


def phase(event: PlannedEvent, now: Nanoseconds) -> Phase:
    """Where an event stands at an instant, without leads: those are of its objects."""
    edges: list[Edge] = []
    is_open = False
    for event_schedule in event.unsuspended:
        schedule = event_schedule.schedule
        state = windows.state(schedule.window, now)
        is_open |= state.is_open
        if state.until is not None:
            edges.append(Edge(state.until, schedule.name, WindowState.CLOSED if state.is_open else WindowState.OPEN))
    edge = min(edges, key=lambda one: one.at, default=None)
    if is_open:
        return Phase(now, is_open=True, edge=edge)
    return Phase(None if edge is None else edge.at, edge=edge)


_UNIONS_MAX = 100


def opened_at(event: PlannedEvent, now: Nanoseconds) -> Nanoseconds:
    """The first start of the windows of an event that are open at an instant; the instant itself if none is."""
    open_now = (one.schedule.window for one in event.unsuspended)
    found = (windows.occurrence(window, now) for window in open_now if windows.state(window, now).is_open)
    return min((start for start, _ in filter(None, found)), default=now)


def closes_at(event: PlannedEvent, opened: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """
    When the windows of an event ended that were open at an earlier instant, one behind the other; at most `now`.

    `now` also for an event that is suspended or was edited, so that it was not open then.
    """
    at = opened
    for _ in range(_UNIONS_MAX):
        states = [windows.state(one.schedule.window, at) for one in event.unsuspended]
        ends = [state.until for state in states if state.is_open]
        if event.suspend or at >= now or None in ends:
            return now
        if not ends:
            return now if at == opened else at
        at = max(end for end in ends if end is not None)
    return now


def starts(event: PlannedEvent, now: Nanoseconds) -> tuple[Nanoseconds, ...]:
    """The instants that a plan is for: that of `phase`, and the next start of each window behind it, in order."""
    first = phase(event, now).at
    if first is None:
        return ()
    states = [windows.state(one.schedule.window, now) for one in event.unsuspended]
    return tuple(sorted({first, *(state.until for state in states if not state.is_open and state.until is not None)}))


class Asked(Struct, frozen=True):
    """What an event asks of one object at an instant."""

    replicas: int
    """The lower bound of all its sources then."""
    short: int = 0
    """How many replicas upper bounds keep from the event: that of the object, of the event, or of a higher rank."""
    percent_of_nothing: bool = False
    """Whether a floor in percent refers to a lower bound of 0."""


def asked_of(event: PlannedEvent, spec: Spec, at: Nanoseconds, expected: ExpectedReplicas) -> Asked:
    """What an event asks of an object. spec: its spec with the schedules of all events."""
    settled = settled_at(spec, at)
    unbounded = {
        schedule_name(event, event_schedule.schedule): _uncut_floor(event_schedule, expected(event, event_schedule))
        for event_schedule in event.unsuspended
        if not event.suspend
    }
    # What it asks for if nothing bounds it: it may refer to what the other sources state.
    uncut = replace(
        spec,
        schedules=tuple(
            replace(one, floor=unbounded[one.name], cap=None, cap_percent=None, within_maximum=False)
            if one.name in unbounded
            else one
            for one in spec.schedules
        ),
    )
    floors = [
        bound.number
        for bound in stated_at(uncut, at)
        if bound.proposal.role is Role.FLOOR and bound.by.name in unbounded
    ]
    wanted = max(floors, default=0)
    percents = [one.floor_percent for one in spec.schedules if one.name in unbounded]
    return Asked(
        settled.minimum.number,
        max(wanted - settled.maximum.number, 0),
        percent_of_nothing=bool(floors) and not wanted and any(percents),
    )


def _states_maximum(schedule: Schedule) -> bool:
    return schedule.cap is not None or schedule.cap_percent is not None

"""
Planned events become schedules of the objects that they pick: there is no second rule for them.

Leads, ranks, conflicts, records, `explain` and `replay` see ordinary schedules, called `Event/NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import Schedule, Spec

MAX_EVENT_SCHEDULES = 50
"""The most schedules that an object takes over from events. Of more, those of the first events by name count."""

# The count that the load of a schedule asks for, in percent of the usual load; None while the usual load is unknown.
ExpectedReplicas = Callable[[PlannedEvent, EventSchedule], int | None]


def with_events(spec: Spec, events: Iterable[PlannedEvent], expected: ExpectedReplicas = lambda *_: None) -> Spec:
    """
    The spec with the schedules of the events that pick its object; the spec itself if there is none.

    The object's maxReplicas stays a cap, unless the event's schedule states a maximum of its own.
    """
    added = tuple(schedule for event in sorted(events, key=_order) for schedule in _written_in(spec, event, expected))
    return replace(spec, schedules=(*spec.schedules, *added[:MAX_EVENT_SCHEDULES])) if added else spec


def _order(event: PlannedEvent) -> tuple[bool, str]:
    """A ClusterPlannedEvent first: a tenant's events must not displace it."""
    return bool(event.namespace), event.name


def _written_in(spec: Spec, event: PlannedEvent, expected: ExpectedReplicas) -> Iterator[Schedule]:
    for stated in event.schedules:
        schedule = stated.schedule
        floor, floor_max = asked_floor(event, stated, expected), schedule.floor_max
        if schedule.cap is None and schedule.cap_percent is None:
            floor_max = spec.max_replicas
            floor = None if floor is None else min(floor, spec.max_replicas)
        yield replace(
            schedule,
            name=schedule_name(event, schedule),
            floor=floor,
            floor_max=None if schedule.floor_percent is None else floor_max,
            suspend=schedule.suspend or event.suspend,
        )


def schedule_name(event: PlannedEvent, schedule: Schedule) -> str:
    """
    The name of an event's schedule in the objects that it picks: `Event/black-friday`.

    Where the event has several it is `Event/black-friday/doors`. A ClusterPlannedEvent may have the name of a
    namespace's event, and is told from it: `Event/cluster:black-friday`.
    """
    title = event.title if event.namespace else f"Event/cluster:{event.name}"
    return title if len(event.schedules) == 1 else f"{title}/{schedule.name}"


def asked_floor(event: PlannedEvent, stated: EventSchedule, expected: ExpectedReplicas) -> int | None:
    """The floor in pods that an event's schedule asks for, by its number and by the expected load; None for neither."""
    number = stated.schedule.floor
    if stated.expected_load_percent is None:
        return number
    by_load = expected(event, stated)
    return number if by_load is None else max(by_load, number or 0)

"""A PlannedEvent or ClusterPlannedEvent becomes a `PlannedEvent` of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from pydantic import ValidationError

from cronhpa.api.crd import CLUSTER_PLANNED_EVENT, PLANNED_EVENT
from cronhpa.api.parse import placeholders_from, schedule_from, selector_from
from cronhpa.api.resource.events import ClusterPlannedEventSpec, EventScheduleModel, PlannedEventSpec
from cronhpa.api.spec_errors import schema_problems
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import LabelSelector
from cronhpa.core.schedules.calendar_days import unread


def parse_event(name: str, namespace: str, spec: Any) -> PlannedEvent:
    """
    The event as the API serves it. namespace: "" for a ClusterPlannedEvent.

    One that cannot be read has `problems` and no schedules: nothing of it is applied by halves.
    """
    model: PlannedEventSpec
    try:
        kind = PlannedEventSpec if namespace else ClusterPlannedEventSpec
        model = kind.model_validate(spec if isinstance(spec, Mapping) else {})
    except ValidationError as error:
        of = PLANNED_EVENT if namespace else CLUSTER_PLANNED_EVENT
        problems = tuple(f"{path}: {problem}" for path, problem in schema_problems(error, of))
        return PlannedEvent(name, namespace, problems=problems)
    schedules = tuple(_schedule(schedule, model) for schedule in model.schedules)
    unreadable = tuple(
        f"spec.schedules[{index}].{entry.schedule.problem}"
        for index, entry in enumerate(schedules)
        # Calendars are known to the operator alone, and are read into the objects' specs.
        if entry.schedule.problem not in {None, unread(entry.schedule.window)}
    )
    within = model.namespace_selector if isinstance(model, ClusterPlannedEventSpec) else None
    return PlannedEvent(
        name=name,
        namespace=namespace,
        selector=selector_from(model.selector) or LabelSelector(),
        namespace_selector=selector_from(within),
        schedules=() if unreadable else schedules,
        reason=model.reason,
        suspend=model.suspend,
        placeholders=placeholders_from(model.placeholders),
        problems=unreadable,
    )


def _schedule(model: EventScheduleModel, spec: PlannedEventSpec) -> EventSchedule:
    schedule = replace(
        schedule_from(model, spec.time_zone),
        priority=spec.priority if model.priority is None else model.priority,
        floor_percent=model.min_replicas_percent,
        cap_percent=model.max_replicas_percent,
    )
    return EventSchedule(schedule, model.expected_load_percent)

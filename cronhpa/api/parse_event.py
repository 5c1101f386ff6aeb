"""A PlannedEvent or ClusterPlannedEvent becomes a `PlannedEvent` of the core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace
from pydantic import ValidationError

from cronhpa.api.crd import CLUSTER_PLANNED_EVENT, PLANNED_EVENT
from cronhpa.api.parse import placeholders_from, schedule_from, selector_from
from cronhpa.api.resource.events import ClusterPlannedEventSpec, EventScheduleModel, PlannedEventSpec
from cronhpa.api.resource.metrics import LabelSelectorModel
from cronhpa.api.spec_errors import schema_problems
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import LabelSelector
from cronhpa.core.schedules.calendar_days import is_wrong

_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")


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
    stated = [("selector", model.selector), ("namespaceSelector", getattr(model, "namespace_selector", None))]
    unreadable = tuple(
        f"spec.{field}.{problem}" for field, selector in stated for problem in _selector_problems(selector)
    ) + tuple(
        f"spec.schedules[{index}].{entry.schedule.problem}"
        for index, entry in enumerate(schedules)
        # Calendars are known to the operator alone, and are read into the objects' specs.
        if is_wrong(entry.schedule)
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


def _selector_problems(selector: LabelSelectorModel | None) -> Iterator[str]:
    """
    What the API server would refuse in a selector of its own kinds.

    A requirement that is passed over would make an event for some objects one for all.
    """
    for index, one in enumerate((selector and selector.match_expressions) or ()):
        at = f"matchExpressions[{index}]"
        if one.operator not in {*_WITH_VALUES, *_WITHOUT_VALUES}:
            yield f'{at}.operator: found "{one.operator}": accepted are In, NotIn, Exists and DoesNotExist'
        elif (one.operator in _WITH_VALUES) is not bool(one.values):
            yield f"{at}.values: In and NotIn need values, Exists and DoesNotExist take none"


def _schedule(model: EventScheduleModel, spec: PlannedEventSpec) -> EventSchedule:
    schedule = replace(
        schedule_from(model, spec.time_zone),
        priority=spec.priority if model.priority is None else model.priority,
        floor_percent=model.min_replicas_percent,
        cap_percent=model.max_replicas_percent,
    )
    return EventSchedule(schedule, model.expected_load_percent)

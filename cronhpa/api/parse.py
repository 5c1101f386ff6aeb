"""
The resource becomes a Spec.

An unreadable schedule abstains, and the rest of its object goes on. An unreadable spec stops its object, and no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from cronhpa.api import schema
from cronhpa.api.resource import behavior, fields, metrics, schedules
from cronhpa.api.spec_errors import schema_problems
from cronhpa.core.model.decision import FOREIGN_PREFIXES
from cronhpa.core.model.instant import MINUTE, SECOND, parse_instant
from cronhpa.core.model.quantity import parse_float, parse_milli
from cronhpa.core.model.spec import (
    Behavior,
    CalendarSchedules,
    ControllerOptions,
    CronWindow,
    DateRange,
    Days,
    ExternalMetric,
    Fallback,
    ForecastSettings,
    Holidays,
    LabelRequirement,
    LabelSelector,
    Metric,
    MetricTarget,
    Mode,
    ObjectMetric,
    OnceWindow,
    Override,
    Placeholders,
    PodSelection,
    PodsMetric,
    Policy,
    ResourceMetric,
    ScalingRules,
    Schedule,
    SelectPolicy,
    Span,
    Spec,
    TargetRef,
    UnknownMetric,
)
from cronhpa.core.schedules import calendars, cron
from cronhpa.core.schedules.calendar_days import unread
from cronhpa.core.schedules.wall_clock import zone_problem
from cronhpa.core.schedules.windows import once

M = TypeVar("M")
T = TypeVar("T")


class SpecProblem(Struct, frozen=True):
    path: str
    """The field."""
    problem: str
    """What was found there, and what to write instead."""

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class SpecError(Exception):
    """The spec cannot be read; with every problem found."""

    def __init__(self, problems: Iterable[SpecProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


def parse_spec(text: Mapping[str, Any], namespace: str, defaults: ControllerOptions) -> Spec:
    """
    The spec of a CronHPA as the API serves it.

    defaults: the operator's settings for fields that the object does not set. Raises SpecError with every problem
    found.
    """
    try:
        model = schema.CronHPASpec.model_validate(text)
    except ValidationError as error:
        raise SpecError(_problems(error)) from error
    return Spec(
        target=TargetRef(
            api_version=model.scale_target_ref.api_version or "",
            kind=model.scale_target_ref.kind,
            name=model.scale_target_ref.name,
        ),
        min_replicas=model.min_replicas,
        max_replicas=model.max_replicas,
        namespace=namespace,
        metrics=tuple(
            _at(f"spec.metrics[{index}]", _metric, metric) for index, metric in enumerate(model.metrics or ())
        ),
        behavior=_at("spec.behavior", _behavior, model.behavior),
        options=_options(model, defaults),
        mode=Mode(model.mode),
        schedules=tuple(_own_schedule(schedule, model.time_zone) for schedule in model.schedules or ()),
        schedules_from=tuple(
            _schedules_from(from_calendar, model.time_zone) for from_calendar in model.schedules_from or ()
        ),
        override=_override(model.override),
        forecast=_forecast(model.forecast),
        fallback=None
        if model.fallback is None
        else Fallback(model.fallback.replicas, model.fallback.after_seconds * SECOND),
        pod_selection=PodSelection(model.pod_selection or PodSelection.ALL),
        placeholders=placeholders_from(model.placeholders),
    )


def check_schema(text: Mapping[str, Any]) -> None:
    """
    Raises SpecError if a spec written by hand has an unknown field or a wrong type.

    Objects from the API have the types of the CRD, and may have more fields: a rolled-back operator must keep working
    under a newer CRD.
    """
    try:
        schema.CronHPASpec.model_validate(text, extra="forbid", strict=True)
    except ValidationError as error:
        raise SpecError(_problems(error)) from error


def _at(path: str, parse: Callable[[M], T], model: M) -> T:
    """
    The result of `parse`. Its ValueError, as the API server accepts more than can be read, becomes a SpecError with
    the path.
    """
    try:
        return parse(model)
    except ValueError as error:
        raise SpecError([SpecProblem(path, str(error))]) from error


def _problems(error: ValidationError) -> Iterable[SpecProblem]:
    return (SpecProblem(path, problem) for path, problem in schema_problems(error))


def _options(model: schema.CronHPASpec, defaults: ControllerOptions) -> ControllerOptions:
    options = {
        "sync_period": model.sync_period_seconds,
        "cpu_initialization_period": model.cpu_initialization_period_seconds,
        "initial_readiness_delay": model.initial_readiness_delay_seconds,
        "metric_max_age": model.metric_max_age_seconds,
    }
    return replace(defaults, **{name: seconds * SECOND for name, seconds in options.items() if seconds is not None})


def _metric(metric: metrics.MetricSpec) -> Metric:
    match metric.type:
        case "Resource" if metric.resource is not None:
            return ResourceMetric(metric.resource.name, _target(metric.resource.target))
        case "ContainerResource" if metric.container_resource is not None:
            source = metric.container_resource
            return ResourceMetric(source.name, _target(source.target), container=source.container)
        case "Pods" if metric.pods is not None:
            return PodsMetric(
                metric.pods.metric.name, _target(metric.pods.target), selector_from(metric.pods.metric.selector)
            )
        case "Object" if metric.object is not None:
            described = metric.object.described_object
            ref = TargetRef(described.api_version or "", described.kind, described.name)
            identifier = metric.object.metric
            return ObjectMetric(identifier.name, _target(metric.object.target), ref, selector_from(identifier.selector))
        case "External" if metric.external is not None:
            identifier = metric.external.metric
            return ExternalMetric(identifier.name, _target(metric.external.target), selector_from(identifier.selector))
        case _:
            return UnknownMetric(metric.type)


def _target(target: metrics.MetricTargetModel) -> MetricTarget:
    return MetricTarget(
        type=target.type,
        value=None if target.value is None else parse_milli(str(target.value).strip()),
        average_value=None if target.average_value is None else parse_milli(str(target.average_value).strip()),
        average_utilization=target.average_utilization,
    )


def placeholders_from(model: schedules.PlaceholdersModel | None) -> Placeholders | None:
    return None if model is None else Placeholders(model.max_replicas, model.node_startup_seconds * SECOND)


def selector_from(selector: metrics.LabelSelectorModel | None) -> LabelSelector | None:
    if selector is None:
        return None
    return LabelSelector(
        match_labels=tuple(sorted((selector.match_labels or {}).items())),
        match_expressions=tuple(
            LabelRequirement(one.key, one.operator, tuple(one.values or ())) for one in selector.match_expressions or ()
        ),
    )


def _behavior(model: behavior.BehaviorModel | None) -> Behavior | None:
    return None if model is None else Behavior(scale_up=_rules(model.scale_up), scale_down=_rules(model.scale_down))


def _rules(rules: behavior.ScaleUpRules | behavior.ScaleDownRules) -> ScalingRules:
    window = rules.stabilization_window_seconds
    return ScalingRules(
        policies=tuple(Policy(one.type, one.value, one.period_seconds * SECOND) for one in rules.policies),
        select_policy=SelectPolicy(rules.select_policy),
        stabilization_window=None if window is None else window * SECOND,
        tolerance=None if rules.tolerance is None else parse_float(str(rules.tolerance).strip()),
    )


def _own_schedule(model: schedules.ScheduleModel, zone: str) -> Schedule:
    """A schedule of an object. One with the name of an event's schedule abstains: names are what leads are known by."""
    schedule = schedule_from(model, zone)
    if model.name.startswith(FOREIGN_PREFIXES):
        prefix = model.name.partition("/")[0]
        problem = f'name: "{model.name}": names that begin with {prefix}/ are those of planned events and calendars'
        return replace(schedule, problem=problem)
    return schedule


def _schedules_from(model: schedules.ScheduleSourceModel, zone: str) -> CalendarSchedules:
    exact = model.replicas
    problem = zone_problem(zone)
    bounds = Schedule(
        name=model.calendar,
        # Of no event: each has its own.
        window=OnceWindow("0002-01-01T00:00", "0002-01-01T00:01", "UTC"),
        floor=model.min_replicas if exact is None else exact,
        cap=model.max_replicas if exact is None else exact,
        headroom_percent=model.headroom_percent or 0,
        priority=model.priority,
        lead=None if model.lead_time_seconds is None else model.lead_time_seconds * SECOND,
        suspend=model.suspend,
        problem=None if problem is None else f"timeZone: {problem}",
    )
    return CalendarSchedules(model.calendar, model.matching, zone, bounds, model.bounds_from_event)


def schedule_from(model: schedules.ScheduleModel, zone: str) -> Schedule:
    """The schedule of a model; one that cannot be read has a `problem`. zone: where the model names none."""
    own = model.time_zone or zone
    window: CronWindow | OnceWindow
    if model.from_ is not None and model.to is not None:
        window = OnceWindow(opens=model.from_, closes=model.to, zone=own)
        problem = _problem_of_event(window)
    else:
        duration = None if model.duration_minutes is None else model.duration_minutes * MINUTE
        window = CronWindow(start=model.start or "", zone=own, end=model.end, duration=duration)
        problem = _problem_of_window(window)
        if problem is None:
            try:
                window = replace(window, exclude=_days("exclude", model.exclude), only=_days("only", model.only))
                problem = unread(window)
            except ValueError as error:
                problem = str(error)
    exact = model.replicas
    return Schedule(
        name=model.name,
        window=_shared(window),
        floor=model.min_replicas if exact is None else exact,
        cap=model.max_replicas if exact is None else exact,
        headroom_percent=model.headroom_percent or 0,
        priority=model.priority or 0,
        lead=None if model.lead_time_seconds is None else model.lead_time_seconds * SECOND,
        ends_at_once=model.ends_at_once,
        suspend=model.suspend,
        problem=problem,
    )


# 20 kB each, with a hundred dates to leave out.
@lru_cache(maxsize=1024)
def _shared(window: CronWindow | OnceWindow) -> CronWindow | OnceWindow:
    """The first of equal windows: objects of one template share it."""
    return window


def _problem_of_window(window: CronWindow) -> str | None:
    if window.end is None and window.duration is None:
        return "end: neither end nor durationMinutes is stated: a window needs one of them"
    for key, text in (("start", window.start), ("end", window.end)):
        problem = None if text is None else cron.problem(text)
        if problem:
            return f"{key}: {problem}"
    problem = zone_problem(window.zone)
    return f"timeZone: {problem}" if problem else None


def _days(key: str, days: schedules.DaysModel | None) -> Days | None:
    """The days of `exclude` or `only`. Raises ValueError with the first part that cannot be read."""
    if days is None:
        return None
    named = tuple(Holidays(one.country, one.subdivision) for one in days.holidays or ())
    ranges: list[DateRange] = []
    for index, day_range in enumerate(days.dates or ()):
        range_, problem = _range(day_range.from_, day_range.to)
        if range_ is None:
            raise ValueError(f"{key}.dates[{index}].{problem}")
        ranges.append(range_)
    for index, one in enumerate(named):
        unreadable = calendars.problem(one)
        if unreadable is not None:
            field, problem = unreadable
            raise ValueError(f"{key}.holidays[{index}].{field}: {problem}")
    return Days(tuple(ranges), named, tuple(days.calendars or ()))


# Half a kilobyte each: the texts have 64 characters at most.
@lru_cache(maxsize=2048)
def _range(begin: str, end: str) -> tuple[DateRange | None, str]:
    """The range between two dates; or None, and the problem."""
    first, last = _date(begin), _date(end)
    if first is None or last is None:
        key, text = ("from", begin) if first is None else ("to", end)
        return None, f'{key}: "{text}" is no date: write a date that exists, such as "2026-12-27"'
    if first > last:
        return None, f'to: "{end}" is before from, "{begin}": of one day both are the same'
    return DateRange(first, last), ""


def _date(text: str) -> date | None:
    # The pattern first: Python also reads 20261227 and 2026-W52-7 as dates.
    if not re.fullmatch(fields.DATE, text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _problem_of_event(window: OnceWindow) -> str | None:
    problem = zone_problem(window.zone)
    if problem:
        return f"timeZone: {problem}"
    for key, text in (("from", window.opens), ("to", window.closes)):
        # The pattern first: Python also reads weeks and offsets, and an offset would be lost here.
        if not re.fullmatch(fields.LOCAL_TIME, text):
            return (
                f'{key}: "{text}" is no local time to the minute: write for example "2026-11-27T00:00", and no offset'
            )
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return f'{key}: "{text}": write a date and time that exist, such as "2026-11-27T00:00"'
        # Clock changes are read some days before and after a time, so the first and last year are left out.
        if not "0002" <= text[:4] <= "9998":
            return f'{key}: "{text}": the years 2 to 9998 are read'
    opens, closes = once(window)
    if opens < closes:
        return None
    if window.opens < window.closes:
        return f'from, to: the clocks of {window.zone} skip all from "{window.opens}" to "{window.closes}"'
    return f'to: "{window.closes}" is not after from, "{window.opens}"'


def _override(override: schema.OverrideModel | None) -> Override | None:
    if override is None:
        return None
    exact = override.replicas
    return Override(
        until=parse_instant(override.until),
        reason=override.reason,
        floor=override.min_replicas if exact is None else exact,
        cap=override.max_replicas if exact is None else exact,
    )


def _forecast(settings: schema.ForecastSettingsModel | None) -> ForecastSettings | None:
    if settings is None:
        return None
    return ForecastSettings(
        mode=Mode(settings.mode),
        pod_capacity_percent=settings.pod_capacity_percent,
        max_floor=settings.max_floor_replicas,
        budget_percent=settings.budget_percent,
        ignored=tuple(
            Span(parse_instant(span.from_), parse_instant(span.to)) for span in settings.ignore_history or ()
        ),
        methods=tuple(settings.methods or ()),
    )

"""
The spec of an object, parsed and defaulted.

Quantities are integer milli-units, durations and instants integer nanoseconds, percentages integers. Values that are
keys of a cache remember their hash (`cache_hash`).
"""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds


class Mode(StrEnum):
    ACTIVE = "Active"
    PREVIEW = "Preview"


class PodSelection(StrEnum):
    """Which pods count."""

    ALL = "All"  # those that the target's selector matches, as upstream
    OWNED = "Owned"  # those of them that the target owns


class TargetRef(Struct, frozen=True):
    """The object whose scale subresource is read and written."""

    api_version: str
    kind: str
    name: str


class MetricTarget(Struct, frozen=True):
    """A valid spec sets one of the three values."""

    type: str
    value: int | None = None
    """Milli-units."""
    average_value: int | None = None
    """Milli-units."""
    average_utilization: int | None = None
    """Percent."""


class LabelRequirement(Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    """Labels sorted by key, as the upstream prints them."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[LabelRequirement, ...] = ()


class ResourceMetric(Struct, frozen=True, tag=True):
    """Usage of a resource by the target's pods; of one container when `container` is named (ContainerResource)."""

    name: str
    target: MetricTarget
    container: str | None = None


class PodsMetric(Struct, frozen=True, tag=True):
    name: str
    target: MetricTarget
    selector: LabelSelector | None = None


class ObjectMetric(Struct, frozen=True, tag=True):
    name: str
    target: MetricTarget
    described: TargetRef
    selector: LabelSelector | None = None


class ExternalMetric(Struct, frozen=True, tag=True):
    name: str
    target: MetricTarget
    selector: LabelSelector | None = None


class UnknownMetric(Struct, frozen=True, tag=True):
    """A metric of an unknown type: it abstains, as upstream."""

    given: str


Metric = ResourceMetric | PodsMetric | ObjectMetric | ExternalMetric | UnknownMetric


class SelectPolicy(StrEnum):
    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


class Policy(Struct, frozen=True, cache_hash=True):
    """The largest change within `period`: a number of pods, or percent of the pods."""

    type: str
    value: int
    period: Nanoseconds


class ScalingRules(Struct, frozen=True, cache_hash=True):
    """One direction of `spec.behavior`."""

    policies: tuple[Policy, ...]
    select_policy: SelectPolicy = field(default=SelectPolicy.MAX, name="select")
    stabilization_window: Nanoseconds | None = field(default=None, name="window")
    """None: the operator's default (scale-down only)."""
    tolerance: float | None = None

    @property
    def longest_period(self) -> Nanoseconds:
        return max((policy.period for policy in self.policies), default=0)


class Behavior(Struct, frozen=True, cache_hash=True):
    scale_up: ScalingRules
    scale_down: ScalingRules


class ControllerOptions(Struct, frozen=True, cache_hash=True):
    """The upstream controller's flags, with its defaults; an object may override some of them."""

    sync_period: Nanoseconds = 15 * SECOND
    tolerance: float = 0.1
    downscale_stabilization: Nanoseconds = 5 * MINUTE
    cpu_initialization_period: Nanoseconds = 5 * MINUTE
    initial_readiness_delay: Nanoseconds = 30 * SECOND
    metric_max_age: Nanoseconds | None = None


class DateRange(Struct, frozen=True, cache_hash=True):
    """Local dates, both inclusive."""

    first: date
    last: date
    title: str = ""
    """What they are called in texts."""


class Holidays(Struct, frozen=True, cache_hash=True):
    """The public holidays of a country, or of a part of it, by their ISO codes."""

    country: str
    subdivision: str | None = None


class Days(Struct, frozen=True, cache_hash=True):
    """A set of local dates: the union of ranges and holidays."""

    ranges: tuple[DateRange, ...] = ()
    holidays: tuple[Holidays, ...] = ()
    calendars: tuple[str, ...] = ()
    """Names of calendars whose days are not among the ranges yet (see `core/schedules/calendar_days`)."""


class CronWindow(Struct, frozen=True, tag=True, cache_hash=True):
    """Opens at each `start`; closes at the first `end` after it, or after `duration`."""

    start: str
    """A cron text."""
    zone: str
    """The IANA time zone in which the cron texts are read."""
    end: str | None = None
    duration: Nanoseconds | None = None
    exclude: Days | None = None
    """Starts on these dates are dropped."""
    only: Days | None = None
    """Starts on all other dates are dropped."""


class OnceWindow(Struct, frozen=True, tag=True, cache_hash=True):
    """One planned event."""

    opens: str
    """Local wall time `YYYY-MM-DDTHH:MM`."""
    closes: str
    """Local wall time, too."""
    zone: str
    """The IANA time zone of both."""


class Placeholders(Struct, frozen=True, cache_hash=True):
    """`placeholders` of an object or an event: room on nodes for the pods of the next rise."""

    max_replicas: int
    """The most placeholders at once."""
    node_start_up: Nanoseconds
    """How long a new node takes until pods can start on it."""


class Schedule(Struct, frozen=True, cache_hash=True):
    """Bounds that hold while a window is open."""

    name: str
    window: CronWindow | OnceWindow
    floor: int | None = None
    cap: int | None = None
    headroom_percent: int = 0
    priority: int = 0
    lead: Nanoseconds | None = None
    """How long before the start the floor and the headroom count; None: measured."""
    ends_at_once: bool = False
    """Whether stabilization keeps none of the pods of its floor after its window."""
    suspend: bool = False
    problem: str | None = None
    """Why the schedule cannot be read. Unless it is suspended, it abstains and blocks scale-down."""
    floor_percent: int | None = None
    """A floor in percent of the minimum that all other sources state at the same instant; None: none."""
    within_maximum: bool = False
    """Whether its floors are cut to the maximum: that of the spec, or a higher one that other sources state."""
    cap_percent: int | None = None
    """A cap in percent of the maximum that all other sources state at the same instant; None: none."""
    placeholders: Placeholders | None = None
    """Room ahead of this schedule alone, which a planned event asks for."""

    @property
    def is_relative(self) -> bool:
        """Whether a bound depends on those of other sources."""
        return self.floor_percent is not None or self.cap_percent is not None or self.within_maximum

    @property
    def has_floor(self) -> bool:
        return self.floor is not None or self.floor_percent is not None


class CalendarSchedules(Struct, frozen=True, cache_hash=True):
    """A schedule for each event of a named calendar."""

    calendar: str
    matching: str
    """The titles of events, with * and ?; small and capital letters are the same."""
    zone: str
    """Of events without a zone."""
    bounds: Schedule
    """What each of them asks for; its window is that of the event."""
    takes_bounds: bool = False
    """Whether an event may state a higher floor and more headroom."""


class Override(Struct, frozen=True, cache_hash=True):
    """Bounds that a person sets: they have the highest rank until they expire."""

    until: Nanoseconds
    reason: str
    floor: int | None = None
    cap: int | None = None


class Span(Struct, frozen=True):
    """The time from `begin` up to, but not including, `end`."""

    begin: Nanoseconds
    end: Nanoseconds


class ForecastSettings(Struct, frozen=True):
    """`spec.forecast`."""

    mode: Mode = Mode.ACTIVE
    pod_capacity_percent: int | None = None
    """The load that a pod can carry, in percent of its target; None: by the kind of target."""
    max_floor: int | None = None
    """The largest floor; None: no such limit."""
    budget_percent: int = 5
    """Pod-hours that the forecast may add to those of metrics and schedules alone, averaged over a week."""
    ignored: tuple[Span, ...] = ()
    """Spans of history that no method is fitted on."""
    methods: tuple[str, ...] = ()
    """Names of the methods to choose from; none: the default ones."""


class Fallback(Struct, frozen=True):
    """`spec.fallback`: the least count while a metric is unknown."""

    replicas: int
    after: Nanoseconds
    """How long not all metrics must have been known."""


class Spec(Struct, frozen=True, cache_hash=True, dict=True):
    """The spec of an object."""

    target: TargetRef
    min_replicas: int
    max_replicas: int
    namespace: str = ""
    """Namespace of the object and its target."""
    metrics: tuple[Metric, ...] = ()
    behavior: Behavior | None = None
    options: ControllerOptions = field(default=ControllerOptions(), name="tuning")
    mode: Mode = Mode.ACTIVE
    schedules: tuple[Schedule, ...] = ()
    override: Override | None = None
    forecast: ForecastSettings | None = None
    fallback: Fallback | None = None
    pod_selection: PodSelection = PodSelection.ALL
    schedules_from: tuple[CalendarSchedules, ...] = ()
    """What `core/schedules/calendar_days` makes schedules of."""
    calendar_spans: tuple[Span, ...] = ()
    """Events of those calendars that are over."""
    calendar_problems: tuple[str, ...] = ()
    """Why calendars that the schedules name are not the present ones."""
    placeholders: Placeholders | None = None
    """Room ahead of every rise, as the object states it; none with a maximum of 0."""
    usual_placeholders: Placeholders | None = None
    """What the operator's settings ask for where the object states nothing."""

    @property
    def room_of_rises(self) -> Placeholders | None:
        """Room ahead of every rise; None for none."""
        placeholders = self.usual_placeholders if self.placeholders is None else self.placeholders
        return placeholders if placeholders is not None and placeholders.max_replicas else None

    @property
    def room(self) -> Placeholders | None:
        """Of the object, else the largest that its planned events and the settings ask for; None for none."""
        if self.placeholders is not None:
            return self.room_of_rises
        stated = (self.usual_placeholders, *(one.placeholders for one in self.schedules if not one.suspend))
        asked = [one for one in stated if one is not None]
        if not asked:
            return None
        return Placeholders(max(one.max_replicas for one in asked), max(one.node_start_up for one in asked))

    @cached_property
    def computed(self) -> dict[str, Any]:
        """
        Results of pure functions of this spec, by their name, for as long as the spec lives.

        They save time and are no part of its value: no copy, comparison or record of the spec has them.
        """
        return {}

    @property
    def is_timed(self) -> bool:
        """Whether schedules or an override may move the bounds."""
        return bool(self.schedules) or bool(self.schedules_from) or self.override is not None

    @property
    def is_upstream(self) -> bool:
        """Whether metrics alone decide, as upstream."""
        return not self.is_timed and self.forecast is None and self.fallback is None

    @property
    def looks_ahead(self) -> bool:
        """Whether a source asks for capacity ahead of time, so that the pods' start-up time matters."""
        return bool(self.schedules) or bool(self.schedules_from) or self.forecast is not None

    def container_of(self, metric: str) -> str | None:
        """The container whose usage a metric of this name is; None if it is that of whole pods, or of no resource."""
        of_resources = (one for one in self.metrics if isinstance(one, ResourceMetric) and one.name == metric)
        return next((one.container for one in of_resources), None)

    @property
    def scales_to_zero(self) -> bool:
        """Whether a metric can wake the target from zero: only Object and External metrics need no pods."""
        return any(isinstance(metric, ObjectMetric | ExternalMetric) for metric in self.metrics)

"""
The CronHPA resource as pydantic models: the single source of the CRD, and of what the operator reads.

The API server and these models both check types, bounds and defaults. Rules that compare fields are CEL
(`x-kubernetes-validations`) and run in the API server only. Servers before 1.34 assume an unbounded text in an
int-or-string and refuse rules on it for their estimated cost: `BEFORE_1_34` marks what differs in their CRD.

`scaleTargetRef`, `minReplicas`, `maxReplicas`, `metrics` and `behavior` have the names, defaults and validation of
autoscaling/v2. The upstream reports every wrong field at once, but an API server runs no rules after a failed
`required`, `enum`, `maxLength` or `maxItems`. So the upstream's checks of these five are rules (`BY_RULE` keeps the
bound out of the schema), and bounds of our own, such as the length of a name, are schema.

Unknown fields are ignored: a rolled-back operator must keep scaling under a newer CRD. Files written by hand are read
with `CronHPASpec.model_validate(..., extra="forbid")`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from cronhpa.api.resource.behavior import BehaviorModel
from cronhpa.api.resource.cel import FORBIDDEN, REQUIRED, SEGMENT, quoted, rule, rules
from cronhpa.api.resource.fields import INT32_MAX, RFC3339, Instant, Model, Replicas, TimeZone
from cronhpa.api.resource.metrics import MAX_METRICS, SOURCES, MetricSpec
from cronhpa.api.resource.schedules import (
    BOUND_RULES,
    MAX_SCHEDULES,
    MAX_SOURCES,
    PlaceholdersModel,
    ScheduleModel,
    ScheduleSourceModel,
)
from cronhpa.api.resource.status import CronHPAStatus


class ScaleTargetRef(Model):
    """The object whose replicas are set, through its scale subresource: a Deployment, a StatefulSet, and others."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                # "v1" alone is the core group, where only a ReplicationController scales.
                "has(self.apiVersion) ? (self.apiVersion.matches('^[^/]+/[^/]*$') || self.kind == "
                "'ReplicationController' && self.apiVersion.matches('^[^/]*/?$')) : self.kind == "
                "'ReplicationController'",
                "write group/version, such as apps/v1",
                finding=('found "%s"', "has(self.apiVersion) ? self.apiVersion : ''"),
                at=".apiVersion",
            )
        )
    )

    api_version: str | None = Field(
        default=None, max_length=253, description="Group and version of the target, such as apps/v1."
    )
    kind: str = Field(
        max_length=253,
        description="Kind of the target, such as Deployment.",
        json_schema_extra=rules(rule(SEGMENT, "name the kind of the target, such as Deployment")),
    )
    name: str = Field(
        max_length=253,
        description="Name of the target, in the namespace of this object.",
        json_schema_extra=rules(rule(SEGMENT, "name the target: a name has no / and no %")),
    )


# --- forecast and override ---------------------------------------------------------------------------------------


class SpanModel(Model):
    """A span of time."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!self.from.matches({quoted(RFC3339)}) || !self.to.matches({quoted(RFC3339)}) "
                "|| timestamp(self.from) < timestamp(self.to)",
                "to must be after from",
                finding=("found from %s and to %s", "self.from", "self.to"),
                at=".to",
            )
        )
    )

    from_: Instant = Field(alias="from", description='Its beginning, such as "2026-10-03T06:00:00Z".')
    to: Instant = Field(description='Its end, such as "2026-10-03T12:00:00Z".')


Mode = Literal["Active", "Preview"]

METHODS_MAX = 8
MethodName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=63,
        json_schema_extra=rules(
            rule(
                "self.matches('^[A-Za-z0-9.-]*$')",
                'the name of a method, such as "ExponentialSmoothing", has letters, digits, dots and hyphens alone',
                finding=('found "%s"', "self"),
            )
        ),
    ),
]


class ForecastSettingsModel(Model):
    """Raises the replicas ahead of a load that is forecast. It never lowers them."""

    mode: Mode = Field(default="Active", description="Active, or Preview: learn and report, never act.")
    budget_percent: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Pod-hours that the forecast may add over metrics and schedules alone, in percent, averaged over "
        "a week. The forecast asks for less near this budget, and pauses at 1.2 times the budget.",
    )
    pod_capacity_percent: int | None = Field(
        default=None,
        ge=100,
        le=10_000,
        description="The load that a pod can carry, in percent of its target. Absent: for a Utilization target the "
        "pod's whole request (100 % divided by the target), else 100.",
    )
    max_floor_replicas: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = Field(
        default=None, description="The most replicas that the forecast may ask for. Absent, maxReplicas."
    )
    ignore_history: list[SpanModel] | None = Field(
        default=None,
        max_length=100,
        description="Spans of history that must not be learned from, such as an incident.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    methods: Annotated[list[MethodName], Field(min_length=1, max_length=METHODS_MAX)] | None = Field(
        default=None,
        description="Names of the methods to choose from, such as Clock: the one that does best on past days is used. "
        "One that fails, or is not installed, is named in the condition ForecastActive. Absent, those that did best on "
        "recorded loads.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class FallbackModel(Model):
    """
    Keeps at least so many replicas while a metric cannot be read. It never lowers them, nor do metrics that are
    unknown; metrics that are known, schedules and an override may ask for more.
    """

    replicas: int = Field(
        ge=1, le=INT32_MAX, description="The least replicas meanwhile, also of a target that cronhpa scaled to zero."
    )
    after_seconds: int = Field(
        default=300,
        ge=0,
        le=86_400,
        description="How long at least one metric must have been unknown, without a break. A restart of the operator "
        "does not begin this anew.",
    )


class OverrideModel(Model):
    """Bounds set by hand that outrank every schedule until they expire."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.minReplicas) || has(self.maxReplicas) || has(self.replicas)",
                "say what it asks for: minReplicas, maxReplicas, both of them, or replicas",
                at=".replicas",
                reason=REQUIRED,
            ),
            *BOUND_RULES,
        )
    )

    min_replicas: Replicas | None = Field(default=None, description="Lower bound until the override ends.")
    max_replicas: Replicas | None = Field(default=None, description="Upper bound until the override ends.")
    replicas: Replicas | None = Field(default=None, description="Exactly this many replicas until the override ends.")
    until: Instant = Field(description='When the override ends, such as "2026-11-23T18:00:00Z".')
    reason: str = Field(min_length=1, max_length=256, description="Why, such as the number of an incident.")


# --- the spec ----------------------------------------------------------------------------------------------------

_HAS_METRICS = "(has(self.metrics) && size(self.metrics) > 0)"
_HAS_SCHEDULES = (
    "((has(self.schedules) && size(self.schedules) > 0) || (has(self.schedulesFrom) && size(self.schedulesFrom) > 0))"
)
_SOURCE_TARGETS = " || ".join(
    f"(has(metric.{source}) && (has(metric.{source}.target.averageValue) "
    f"|| has(metric.{source}.target.averageUtilization)))"
    for source in SOURCES
)
_UPSTREAM_DEFAULT = (
    "metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]"
)


class CronHPASpec(Model):
    """The target, and the metrics, schedules and forecast that set its replicas."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"{_HAS_METRICS} || {_HAS_SCHEDULES}",
                "found neither metrics nor schedules: add one of them. A HorizontalPodAutoscaler would take its "
                f"default, a CPU utilization of 80 %; to have that, write {_UPSTREAM_DEFAULT}",
                at=".metrics",
                reason=REQUIRED,
            ),
            rule(
                "self.maxReplicas >= self.minReplicas",
                "maxReplicas must not be below minReplicas",
                finding=("found maxReplicas %s and minReplicas %s", "self.maxReplicas", "self.minReplicas"),
                at=".maxReplicas",
            ),
            rule(
                f"self.minReplicas != 0 || !{_HAS_METRICS} || {_HAS_SCHEDULES} || self.metrics.exists(metric, "
                "metric.type == 'Object' || metric.type == 'External')",
                "minReplicas 0 needs something that works without pods: add an Object or External metric or a "
                "schedule, or raise minReplicas to 1",
                at=".metrics",
                reason=FORBIDDEN,
            ),
            rule(
                f"!has(self.forecast) || (has(self.metrics) && self.metrics.exists(metric, {_SOURCE_TARGETS}))",
                "a forecast needs a load to learn: add a metric with a target of type Utilization or AverageValue, "
                "or remove forecast",
                at=".forecast",
            ),
            rule(
                f"!has(self.fallback) || {_HAS_METRICS}",
                "a fallback is for metrics that cannot be read: add a metric, or remove fallback",
                at=".fallback",
                reason=FORBIDDEN,
            ),
            rule(
                "!has(self.fallback) || self.fallback.replicas <= self.maxReplicas",
                "replicas of fallback must not be above maxReplicas",
                finding=("found %s and maxReplicas %s", "self.fallback.replicas", "self.maxReplicas"),
                at=".fallback.replicas",
            ),
        )
    )

    # The most used first: kubectl cronhpa, the page and the reference keep this order.
    scale_target_ref: ScaleTargetRef
    min_replicas: int = Field(
        default=1,
        ge=0,
        le=INT32_MAX,
        description="Lower bound of the replicas. 0 needs an Object or External metric, or a schedule.",
    )
    max_replicas: int = Field(ge=1, le=INT32_MAX, description="Upper bound of the replicas.")
    metrics: list[MetricSpec] | None = Field(
        default=None,
        max_length=MAX_METRICS,
        description="Metrics, as in autoscaling/v2. The one that asks for the most replicas wins. Absent, the "
        "schedules alone set the replicas.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    time_zone: TimeZone = Field(default="UTC", description="IANA time zone of the schedules without a timeZone.")
    schedules: list[ScheduleModel] | None = Field(
        default=None,
        max_length=MAX_SCHEDULES,
        description="Windows of time with bounds of their own.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    override: OverrideModel | None = None
    schedules_from: list[ScheduleSourceModel] | None = Field(
        default=None,
        max_length=MAX_SOURCES,
        description="Calendars whose events are schedules of this object, called Calendar/NAME/TITLE/START. Those of "
        "the next 30 events count.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    forecast: ForecastSettingsModel | None = Field(
        default=None, description="Whether to raise the replicas ahead of a load that is forecast. Absent, no."
    )
    mode: Mode = Field(default="Active", description="Active, or Preview: decide and report, never scale.")
    behavior: BehaviorModel | None = Field(
        default=None, description="How fast the replicas may grow and shrink, as in autoscaling/v2."
    )
    fallback: FallbackModel | None = Field(
        default=None, description="The least replicas while a metric cannot be read. Absent, the replicas stay."
    )
    placeholders: PlaceholdersModel | None = Field(
        default=None,
        description="Room on nodes for the pods of the next rise. Absent, pods wait for new nodes.",
    )
    sync_period_seconds: int | None = Field(
        default=None,
        ge=1,
        le=3600,
        description="How often to decide. Absent, the operator's setting (15 unless changed).",
    )
    cpu_initialization_period_seconds: int | None = Field(
        default=None,
        ge=0,
        le=86_400,
        description="How long after a pod's start its CPU counts only while it is ready. Absent, the operator's "
        "setting (300 unless changed).",
    )
    initial_readiness_delay_seconds: int | None = Field(
        default=None,
        ge=0,
        le=86_400,
        description="How long after a pod's start a change of its readiness counts as its first. Absent, the "
        "operator's setting (30 unless changed).",
    )
    metric_max_age_seconds: int | None = Field(
        default=None,
        ge=1,
        le=86_400,
        description="Samples of pods (Resource, ContainerResource and Pods metrics) older than this count as absent, "
        "and samples as far in the future. Absent, any age is accepted, as by the HorizontalPodAutoscaler.",
    )
    pod_selection: Literal["All", "Owned"] | None = Field(
        default=None,
        description="Which pods the metrics count: All that the target's selector matches (the default, as the "
        "HorizontalPodAutoscaler), or those of them that the target Owns, by ownerReferences.",
    )


class CronHPA(Model):
    """
    A HorizontalPodAutoscaler with schedules and forecasts: it sets the replicas of its target by metrics, as
    autoscaling/v2 does, within bounds that follow the clock, and ahead of loads that are forecast.
    """

    spec: CronHPASpec
    status: CronHPAStatus | None = None

"""
PlannedEvent and ClusterPlannedEvent: schedules that hold for many CronHPA objects at once.

A schedule is that of a CronHPA, with further bounds: in percent of what the object's other sources state, and by the
load to be ready for.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from cronhpa.api.resource.cel import FORBIDDEN, REQUIRED, rule, rules
from cronhpa.api.resource.fields import Model, Timestamp, TimeZone
from cronhpa.api.resource.metrics import LabelSelectorModel
from cronhpa.api.resource.schedules import RULES, PlaceholdersModel, ScheduleModel, states
from cronhpa.api.resource.status import Condition, NextEdge, Text

MAX_SCHEDULES_OF_EVENT = 10
MAX_NAMESPACES_TOLD = 100
MAX_PAST_REPORTS = 60
MAX_SHARDS_TOLD = 256
_PERCENT_MAX = 10_000

Percent = Annotated[int, Field(ge=1, le=_PERCENT_MAX)]


class EventScheduleModel(ScheduleModel):
    """A window of an event and the bounds that hold in each picked object while it is open."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *RULES,
            states(
                "minReplicas", "maxReplicas", "replicas", "headroomPercent", "minReplicasPercent",
                "maxReplicasPercent", "expectedLoadPercent",
            ),
            rule(
                "!has(self.replicas) || !(has(self.minReplicasPercent) || has(self.maxReplicasPercent) || "
                "has(self.expectedLoadPercent))",
                "replicas is both bounds at once: leave out the bounds in percent, or replicas",
                at=".replicas",
                reason=FORBIDDEN,
            ),
            rule(
                "!has(self.expectedLoadPercent) || has(self.minReplicas) || has(self.minReplicasPercent)",
                "say what holds for an object whose usual load is not known yet: minReplicas or minReplicasPercent",
                at=".minReplicas",
                reason=REQUIRED,
            ),
        )
    )  # fmt: skip

    min_replicas_percent: Percent | None = Field(
        default=None,
        description="Lower bound in percent of that of the object's other sources then, rounded up; with "
        "minReplicas, the larger. The schedules of one event are no other sources to each other.",
    )
    max_replicas_percent: Percent | None = Field(
        default=None,
        description="Upper bound in percent of that of the object's other sources then, rounded up; with "
        "maxReplicas, the smaller.",
    )
    expected_load_percent: Percent | None = Field(
        default=None,
        description="Lower bound by a load in percent of the object's usual one: the 90th percentile of that hour on "
        "that weekday without the event, over four weeks; on the other weekdays if it holds each week. The metric "
        "target makes replicas of it. minReplicas and minReplicasPercent are the least, alone while fewer than two "
        "such days are known.",
    )
    priority: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(  # type: ignore[assignment]
        default=None, description="Priority of this schedule among those of an object. Absent, that of the event."
    )


_OPERATORS = "['In', 'NotIn', 'Exists', 'DoesNotExist']"
# Not of the selectors of metrics, which the upstream does not check. What is passed over here would pick every object.
_SELECTOR_RULES = rules(
    rule(
        f"!has(self.matchExpressions) || self.matchExpressions.all(each, each.operator in {_OPERATORS})",
        "operator of a requirement: accepted are In, NotIn, Exists and DoesNotExist",
        at=".matchExpressions",
    ),
    rule(
        f"!has(self.matchExpressions) || self.matchExpressions.all(each, !(each.operator in {_OPERATORS}) || "
        "(each.operator in ['In', 'NotIn']) == (has(each.values) && size(each.values) > 0))",
        "values of a requirement: In and NotIn need some, Exists and DoesNotExist take none",
        at=".matchExpressions",
    ),
)


class PlannedEventSpec(Model):
    """Which objects the event concerns, and the windows and bounds that hold in each of them."""

    selector: LabelSelectorModel = Field(
        description="Labels of the CronHPA objects that the event concerns; empty: all.",
        json_schema_extra=_SELECTOR_RULES,
    )
    reason: str = Field(min_length=1, max_length=256, description="What it is, such as Black Friday.")
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="Priority of its schedules among those of an object.",
    )
    suspend: bool = Field(default=False, description="Whether the event is ignored for now.")
    placeholders: PlaceholdersModel | None = Field(
        default=None, description="Room on nodes ahead of its schedules, in objects that state no placeholders."
    )
    time_zone: TimeZone = Field(default="UTC", description="IANA time zone of the schedules without a timeZone.")
    schedules: list[EventScheduleModel] = Field(
        min_length=1,
        max_length=MAX_SCHEDULES_OF_EVENT,
        description="Windows with bounds that act as if written in each object, whose maxReplicas stays a cap unless "
        "the schedule states a maximum.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )


class ClusterPlannedEventSpec(PlannedEventSpec):
    """Which objects of which namespaces the event concerns, and the windows and bounds that hold in each of them."""

    namespace_selector: LabelSelectorModel | None = Field(
        default=None,
        description="Labels of the namespaces whose objects the event concerns. kubernetes.io/metadata.name is the "
        "name of a namespace. Absent, all namespaces.",
        json_schema_extra=_SELECTOR_RULES,
    )


class EventNamespaceStatus(Model):
    """What the event means for the objects of one namespace."""

    namespace: Text
    objects: int = Field(description="Objects that it concerns.")
    pods: int = Field(description="Replicas that it asks for in all, at its current or next start.")
    pods_now: int = Field(description="Replicas of these objects now.")
    short: int = Field(description="Replicas that upper bounds of objects keep from it.")
    ready: int = Field(description="Objects whose pods are Ready at the count that it asks for.")


class EventNote(Model):
    """What the author of the event is to know of objects."""

    about: Text
    objects: int
    text: Text


class EventShard(Model):
    """What the objects of one shard add: the totals are sums of these."""

    shard: int
    of: int = Field(description="Number of shards; 0 for an operator of some namespaces.")
    observed_generation: int = Field(default=0, description="Generation of the event that it read.")
    objects: int
    pods: int
    pods_now: int
    short: int
    ready: int
    leading: int = Field(default=0, description="Objects in which the event leads.")
    added_milli: dict[str, Text] | None = Field(default=None, description="Thousandths of addedRequests, by resource.")
    notes: list[EventNote] | None = Field(default=None, max_length=16)


class EventReport(Model):
    """What came of the event, measured while a window is open. Kept until its next window opens."""

    opened: Timestamp = Field(description="When the window opened.")
    closed: Timestamp | None = Field(default=None, description="When the window closed.")
    ready_at_start: int | None = Field(
        default=None,
        description="Objects whose pods were Ready at their count when the window opened; absent if nobody saw it.",
    )
    peak_pods: int = Field(default=0, description="The most replicas of all objects together.")
    minutes_at_max: int = Field(default=0, description="Minutes of objects at their upper bound, added up.")
    minutes_short: int = Field(
        default=0, description="Minutes of objects whose metrics asked for more than their Ready pods, added up."
    )
    unneeded_pod_minutes: int = Field(
        default=0, description="Pod-minutes above what metrics asked for: what the event's bounds added, added up."
    )


class AddedRequests(Model):
    """Amounts of resources that added replicas request."""

    cpu: Text | None = Field(default=None, description="Cores.")
    memory: Text | None = Field(default=None, description="Bytes.")


class EventColumns(Model):
    """Texts of `kubectl get`, which can only print fields."""

    next: Text | None = Field(default=None, description="The time of nextEdge, in the time zone of the event.")


class PlannedEventStatus(Model):
    """The plan, and then the report."""

    observed_generation: int | None = None
    state: Text | None = Field(
        default=None,
        description="Upcoming, Leading (pods are asked for ahead of the start), Active, Ended (no window opens any "
        "more), Suspended, Empty (it concerns no object) or Refused (it cannot be read).",
    )
    objects: int | None = Field(default=None, description="Objects that it concerns.")
    pods: int | None = Field(
        default=None, description="Replicas that it asks for in all, at its current or next start."
    )
    pods_now: int | None = Field(default=None, description="Replicas of these objects now.")
    short: int | None = Field(default=None, description="Replicas that upper bounds of objects keep from it.")
    ready: int | None = Field(
        default=None, description="Objects whose pods are Ready at the count that it asks for, while it is active."
    )
    added_requests: AddedRequests | None = Field(
        default=None, description="What the replicas request that are to be added; of objects with known requests."
    )
    next_edge: NextEdge | None = None
    namespaces: list[EventNamespaceStatus] | None = Field(
        default=None,
        max_length=MAX_NAMESPACES_TOLD,
        description="By namespace, those with the most replicas first.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["namespace"]},
    )
    shards: list[EventShard] | None = Field(
        default=None,
        max_length=MAX_SHARDS_TOLD,
        description="By shard, if replicas share the cluster.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["shard"]},
    )
    report: EventReport | None = None
    past_reports: list[EventReport] | None = Field(
        default=None, max_length=MAX_PAST_REPORTS, description="The reports of former windows, the newest first."
    )
    columns: EventColumns | None = None
    conditions: list[Condition] | None = Field(
        default=None,
        max_length=16,
        description="Accepted (it can be read), Scheduled (a window is open or opens later), Matched (it concerns "
        "objects), Fits (no upper bound keeps replicas from it), LoadKnown (the usual loads that it refers to are "
        "known), Consistent (no bounds contradict each other).",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )


class PlannedEventResource(Model):
    """A planned event, such as a sale: its schedules hold in all CronHPA objects of its namespace that it selects."""

    spec: PlannedEventSpec
    status: PlannedEventStatus | None = None


class ClusterPlannedEventResource(Model):
    """A planned event for objects of many namespaces."""

    spec: ClusterPlannedEventSpec
    status: PlannedEventStatus | None = None

"""
`status`, which the operator alone writes.

Its bounds are far above what a spec can produce: if the API server refused a status, the memory in it would be lost.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from cronhpa.api.resource.fields import Model, Quantity, Timestamp
from cronhpa.api.resource.metrics import MAX_METRICS, DescribedObject, MetricIdentifier

Text = Annotated[str, Field(max_length=1024)]
Sentences = Annotated[str, Field(max_length=32_768)]
_STATUS_ROWS = 512


class MetricValueStatus(Model):
    """The values of a metric when it was last read."""

    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: int | None = None


class ResourceMetricStatus(Model):
    """A Resource metric as last read."""

    name: Text
    current: MetricValueStatus


class ContainerResourceMetricStatus(Model):
    """A ContainerResource metric as last read."""

    name: Text
    container: Text
    current: MetricValueStatus


class PodsMetricStatus(Model):
    """A Pods metric as last read."""

    metric: MetricIdentifier
    current: MetricValueStatus


class ObjectMetricStatus(Model):
    """An Object metric as last read."""

    metric: MetricIdentifier
    current: MetricValueStatus
    described_object: DescribedObject


class ExternalMetricStatus(Model):
    """An External metric as last read."""

    metric: MetricIdentifier
    current: MetricValueStatus


class MetricStatus(Model):
    """A metric as last read. Its type is empty if the metric could not be read, as in autoscaling/v2."""

    type: Text
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    object: ObjectMetricStatus | None = None
    external: ExternalMetricStatus | None = None


class ExpectedLoadStatus(Model):
    """The load that a forecast expects, and the numbers behind its floor."""

    load: Text = Field(description="The load for which the floor is computed, in the metric's unit.")
    time: Timestamp = Field(description="When the load is expected.")
    probability_percent: int | None = Field(
        default=None, description="Probability that the load reaches this value, in percent."
    )
    pod_load: Text = Field(description="The load that one pod is planned to carry.")
    headroom_percent: int | None = Field(default=None, description="Headroom that open schedules add to the load.")
    limit: Text = Field(description="Why the floor is no higher: Cost, Budget, Ceiling or MaxFloorReplicas.")


class ProposalStatus(Model):
    """What one source asked for."""

    source: Text = Field(description="Metric, Forecast, Schedule, Override or Fallback.")
    name: Text | None = Field(default=None, description="Name of the metric or schedule.")
    role: Text = Field(description="Target (a count to go to), Floor (not fewer) or Cap (not more).")
    replicas: int
    reason: Sentences | None = Field(default=None, description="Why the source asks for it, in words.")
    expected_load: ExpectedLoadStatus | None = Field(default=None, description="The load behind a forecast's floor.")
    until: Timestamp | None = Field(
        default=None, description="When this source will ask for something else, if that is known."
    )


class AbstentionStatus(Model):
    """A source that made no proposal, and why."""

    source: Text = Field(description="Metric, Forecast, Schedule or Fallback.")
    name: Text | None = Field(default=None, description="Name of the metric or schedule.")
    reason: Text = Field(description="One word for machines.")
    message: Sentences | None = Field(default=None, description="A sentence for people.")


class MeasuredMetricStatus(Model):
    """A metric of the spec: what was measured, over which pods, and how many replicas it asks for alone."""

    name: Text
    container: Text | None = None
    type: Text | None = Field(default=None, description="Utilization, AverageValue or Value, as in the spec.")
    current: Text | None = Field(default=None, description="The measured value. Absent if there is none.")
    target: Text | None = Field(default=None, description="The target value.")
    replicas: int | None = Field(default=None, description="The count that this metric asks for.")
    pods: int | None = Field(default=None, description="How many pods were considered.")
    not_ready: int | None = Field(default=None, description="How many of them are not ready, and count less.")
    without_sample: int | None = Field(default=None, description="How many of them have no sample.")
    reason: Text | None = Field(default=None, description="Why the value is absent, in one word for machines.")
    message: Sentences | None = Field(default=None, description="Why the value is absent, in a sentence for people.")


class StepPolicyStatus(Model):
    """The policy of `behavior` that allowed no more."""

    type: Text
    value: int
    period_seconds: int


class StepStatus(Model):
    """A limit that changed the number, and why it did."""

    rule: Text = Field(description="Name of the limit.")
    from_: int = Field(alias="from", description="The replicas before it.")
    to: int = Field(description="The replicas after it.")
    by: Text | None = Field(default=None, description="The source of the bound, or of the count that is held.")
    asked: int | None = Field(default=None, description="For a stabilization: the replicas that were asked for.")
    time: Timestamp | None = Field(
        default=None, description="For a stabilization: when the held count was last asked for."
    )
    until: Timestamp | None = Field(
        default=None, description="For a stabilization: when the held count leaves the window."
    )
    start: int | None = Field(default=None, description="For a rate: the replicas at the start of the policy's period.")
    policy: StepPolicyStatus | None = Field(
        default=None,
        description="For a rate: the policy. Absent for the default rate and for selectPolicy Disabled.",
    )
    message: Sentences | None = Field(default=None, description="The step in a sentence for people.")


class DecisionStatus(Model):
    """Why the replicas are what they are: what each source asked for, and which limits changed the count."""

    decided_by: Text | None = Field(
        default=None,
        description="The source of the count, such as Metric/cpu, Schedule/night, Override or Spec; CurrentReplicas if "
        "the current count stays and no source asks for it.",
    )
    reason: Sentences | None = Field(
        default=None, description="Why: the source of the count, and each limit that changed it."
    )
    withheld: Sentences | None = Field(default=None, description="Why nothing is scaled, if nothing is.")
    proposals: list[ProposalStatus] | None = Field(
        default=None, max_length=_STATUS_ROWS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    abstentions: list[AbstentionStatus] | None = Field(
        default=None, max_length=_STATUS_ROWS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    metrics: list[MeasuredMetricStatus] | None = Field(
        default=None,
        max_length=MAX_METRICS,
        description="The metrics in the order of the spec: value, target and the replicas that each asks for.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    steps: list[StepStatus] | None = Field(
        default=None,
        max_length=_STATUS_ROWS,
        description="The limits that changed the number, in order.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class ScheduleStatus(Model):
    """A schedule now."""

    name: Text
    state: Text = Field(description="Open, Leading (applied ahead of its start), Closed, Suspended or Unreadable.")
    opens: Timestamp | None = Field(default=None, description="When it opens next.")
    closes: Timestamp | None = Field(default=None, description="When it closes, if it is open.")
    lead_seconds: int | None = Field(
        default=None, description="How long before its start the schedule leads, if it leads."
    )
    message: Sentences | None = Field(default=None, description="Why the schedule cannot be read, if it cannot.")


class NextEdge(Model):
    """The next time at which a schedule or the override asks for something else."""

    time: Timestamp
    schedule: Text
    state: Text = Field(description="What the schedule will be then: Open, Leading or Closed.")


class ForecastStatus(Model):
    """The forecast in use, and how good it has been."""

    model: Text | None = None
    quantile_percent: int | None = Field(default=None, description="Quantile of the load that is forecast, in percent.")
    coverage_percent: int | None = Field(
        default=None, description="Share of recent loads below that quantile, in percent."
    )
    budget_used_permille: int | None = Field(
        default=None, description="Pod-hours that the forecast added over the last seven days, in permille."
    )
    issued_at: Timestamp | None = None
    trained_until: Timestamp | None = Field(
        default=None, description="The end of the history that the model was fitted to."
    )


class ColumnsStatus(Model):
    """Texts of `kubectl get`, which can only print fields. Read the other fields instead: these may lag behind."""

    targets: Sentences | None = Field(
        default=None, description="Measured value / target of each metric, as for an HPA."
    )
    status: Text | None = Field(
        default=None,
        description="SpecUnreadable, NoTarget, NoMetrics, OtherOwner, Holding, Maxed, Learning, Preview or Deciding.",
    )
    next: Text | None = Field(default=None, description="The time of nextEdge, in the time zone of the object.")


class Condition(Model):
    """One condition, as in autoscaling/v2."""

    type: Annotated[str, Field(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Text | None = None
    message: Sentences | None = None
    last_transition_time: Timestamp | None = None
    observed_generation: int | None = None


class CronHPAStatus(Model):
    """What the operator last saw and decided."""

    observed_generation: int | None = Field(default=None, description="Generation of the spec that was decided upon.")
    target: Text | None = Field(default=None, description="The target, such as Deployment/shop.")
    operator: Text | None = Field(
        default=None,
        description=(
            "The installation that serves this object, as namespace/name of its Lease. Other installations hold while "
            "that Lease is renewed."
        ),
    )
    current_replicas: int | None = Field(default=None, description="Replicas of the target when last seen.")
    desired_replicas: int | None = Field(default=None, description="Replicas decided upon.")
    effective_min_replicas: int | None = Field(
        default=None, description="Lower bound now: of the spec, a schedule or override."
    )
    effective_max_replicas: int | None = Field(
        default=None, description="Upper bound now: of the spec, a schedule or override."
    )
    last_scale_time: Timestamp | None = Field(default=None, description="When the replicas were last changed.")
    pod_startup_seconds: int | None = Field(
        default=None,
        description="How long 90 % of the target's pods took from creation to Ready, where nodes had room.",
    )
    pod_startup_with_node_seconds: int | None = Field(
        default=None, description="That of pods which had to wait for a node, within the last eight days."
    )
    current_metrics: list[MetricStatus] | None = Field(
        default=None,
        max_length=MAX_METRICS,
        description="The metrics in the order of the spec, as autoscaling/v2 shows them: their values.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    decision: DecisionStatus | None = None
    schedules: list[ScheduleStatus] | None = Field(
        default=None,
        description="Each schedule now, those of planned events and calendars included.",
        max_length=_STATUS_ROWS,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    next_edge: NextEdge | None = None
    forecast: ForecastStatus | None = None
    columns: ColumnsStatus | None = None
    conditions: list[Condition] | None = Field(
        default=None,
        max_length=32,
        description="Ready is the one to watch: whether replicas are decided and scaled. The others say what it lacks.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    memory: dict[str, Any] | None = Field(
        default=None,
        description="What the operator remembers over a restart. Versioned; do not edit it by hand.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )

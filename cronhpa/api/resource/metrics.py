"""
`spec.metrics`, as in autoscaling/v2: names, defaults and validation.

The upstream names every wrong field at once, so what it checks of a metric is a rule.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from cronhpa.api.resource.cel import (
    BEFORE_1_34,
    BY_RULE,
    FORBIDDEN,
    POSITIVE,
    REQUIRED,
    Json,
    is_quantity,
    is_segment,
    quoted,
    rule,
    rules,
    sign,
)
from cronhpa.api.resource.fields import INT32_MAX, Model, Quantity

MAX_METRICS = 30


class DescribedObject(Model):
    """The object that an Object metric describes."""

    api_version: str | None = Field(
        default=None, max_length=253, description="Group and version of the object, such as networking.k8s.io/v1."
    )
    kind: str = Field(max_length=253, description="Kind of the object, such as Ingress.")
    name: str = Field(max_length=253, description="Name of the object, in the namespace of this one.")


class LabelRequirementModel(Model):
    """One requirement on labels."""

    key: str = Field(max_length=317, description="The label.")
    operator: str = Field(max_length=63, description="In, NotIn, Exists or DoesNotExist.")
    values: list[Annotated[str, Field(max_length=253)]] | None = Field(
        default=None,
        max_length=100,
        description="Values for In and NotIn.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class LabelSelectorModel(Model):
    """Which labels a metric's series must carry."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    match_labels: dict[str, Annotated[str, Field(max_length=253)]] | None = Field(
        default=None, max_length=100, description="Labels and the value that each must have."
    )
    match_expressions: list[LabelRequirementModel] | None = Field(
        default=None,
        max_length=100,
        description="Requirements on labels. All of them must hold.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class MetricIdentifier(Model):
    """The name of a metric, and a selector of its series."""

    name: str = Field(max_length=253, description="Name of the metric.")
    selector: LabelSelectorModel | None = Field(
        default=None, description="Labels that a series of the metric must have. Absent, all series count."
    )


_ABOVE_ZERO: Json = {"pattern": POSITIVE, "minimum": 1}


class MetricTargetModel(Model):
    """The target value."""

    type: Literal["Utilization", "Value", "AverageValue"] = Field(
        description="Utilization (percent of the request), Value (of the metric as a whole) or AverageValue (per pod).",
        json_schema_extra={BY_RULE: True},
    )
    value: Quantity | None = Field(
        default=None,
        description="The value of the metric as a whole, as a quantity.",
        json_schema_extra={BEFORE_1_34: _ABOVE_ZERO},
    )
    average_value: Quantity | None = Field(
        default=None,
        description="The average of the metric over the pods, as a quantity.",
        json_schema_extra={BEFORE_1_34: _ABOVE_ZERO},
    )
    average_utilization: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = Field(
        default=None,
        description="The average usage over the pods, in percent of their requests.",
        json_schema_extra={BY_RULE: True},
    )


class ResourceMetricSource(Model):
    """Usage of a resource by the target's pods, all containers together."""

    name: str = Field(max_length=317, description="Name of the resource, such as cpu or memory.")
    target: MetricTargetModel


class ContainerResourceMetricSource(Model):
    """Usage of a resource by one container of the target's pods."""

    name: str = Field(max_length=317, description="Name of the resource, such as cpu or memory.")
    container: str = Field(max_length=63, description="Name of the container.")
    target: MetricTargetModel


class PodsMetricSource(Model):
    """A metric of each of the target's pods, averaged."""

    metric: MetricIdentifier
    target: MetricTargetModel


class ObjectMetricSource(Model):
    """A metric of one Kubernetes object, such as the requests per second of an Ingress."""

    described_object: DescribedObject
    metric: MetricIdentifier
    target: MetricTargetModel


class ExternalMetricSource(Model):
    """A metric of something outside the cluster, such as the length of a queue at a cloud provider."""

    metric: MetricIdentifier
    target: MetricTargetModel


SOURCES = ("object", "external", "pods", "resource", "containerResource")
"""The order in which the upstream reads a metric's sources: of several it validates only the first."""
_KINDS = {source: source[0].upper() + source[1:] for source in SOURCES}

_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_CONTAINER_RESOURCE = (
    "^(cpu|memory|ephemeral-storage|hugepages-[A-Za-z0-9]([-A-Za-z0-9_.]{0,51}[A-Za-z0-9])?"
    "|[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    "/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$"
)


def _first(
    source: str, check: str, message: str, *, finding: tuple[str, ...] = (), at: str = "", reason: str = ""
) -> Json:
    """
    A rule on a metric that applies only if `source` is the first source present.

    `source.` in its CEL stands for the path of that source; `at` starts below it.
    """
    path = f"self.{source}"

    def spelled(text: str) -> str:
        return re.sub(r"\bsource\.", f"{path}.", text)

    guards = [f"!has({path})", *(f"has(self.{earlier})" for earlier in SOURCES[: SOURCES.index(source)])]
    return rule(
        " || ".join([*guards, f"({spelled(check)})"]),
        message,
        finding=(*finding[:1], *map(spelled, finding[1:])),
        at=f".{source}{at}",
        reason=reason,
    )


def _target_rules(source: str) -> list[Json]:
    """The upstream's rules for every target."""
    out = [
        _first(
            source,
            "source.target.type in ['Utilization', 'Value', 'AverageValue']",
            "accepted are Utilization, Value and AverageValue",
            finding=('found "%s"', "source.target.type"),
            at=".target.type",
        )
    ]
    for name in ("value", "averageValue"):
        field = f"source.target.{name}"
        above_zero = _first(
            source,
            f"!has({field}) || {is_quantity(field)} && {sign(field)} == 1",
            "write a quantity above 0, such as 250m, 1.5, 2k or 512Mi",
            finding=('found "%s"', field),
            at=f".target.{name}",
        )
        out.append({**above_zero, BEFORE_1_34: None})
    out.append(
        _first(
            source,
            f"!has(source.target.averageUtilization) || source.target.averageUtilization >= 1 "
            f"&& source.target.averageUtilization <= {INT32_MAX}",
            "write percent of the request, 1 or more",
            finding=("found %s", "source.target.averageUtilization"),
            at=".target.averageUtilization",
        )
    )
    return out


def _name_rule(source: str, field: str, what: str) -> Json:
    return _first(
        source, is_segment(f"source{field}"), f"{what}; a name is not empty, . or .., and has no / and no %", at=field
    )


def _one_of(source: str, first: str, second: str, message: str, forbidden: str) -> list[Json]:
    """Exactly one of the targets `first` and `second` must be set: the upstream reports `first` if none is."""
    return [
        _first(
            source,
            f"has(source.target.{first}) || has(source.target.{second})",
            message,
            at=f".target.{first}",
            reason=REQUIRED,
        ),
        _first(
            source,
            f"!has(source.target.{first}) || !has(source.target.{second})",
            f"{message}: found both",
            at=f".target.{forbidden}",
            reason=FORBIDDEN,
        ),
    ]


def _resource_name(source: str) -> Json:
    return _first(source, "source.name != ''", "name the resource, such as cpu", at=".name", reason=REQUIRED)


def _present(sources: tuple[str, ...]) -> str:
    return " || ".join(f"has(self.{source})" for source in sources)


def metric_rules() -> list[Json]:
    """The upstream's validation of one metric, field by field (pkg/apis/autoscaling/validation, v1.36.3)."""
    resource = "set averageUtilization (percent of the request) or averageValue (a quantity), one of them"
    out = [
        rule(
            f"self.type in {sorted(_KINDS.values())}",
            "accepted are Resource, ContainerResource, Pods, Object and External",
            finding=('found "%s"', "self.type"),
            at=".type",
        )
    ]
    for source in SOURCES:
        others = tuple(other for other in SOURCES if other != source)
        out += [
            rule(
                f"self.type != '{_KINDS[source]}' || has(self.{source})",
                f"a metric of type {_KINDS[source]} says what it measures in {source}",
                at=f".{source}",
                reason=REQUIRED,
            ),
            rule(
                f"!has(self.{source}) || self.type == '{_KINDS[source]}' || !({_present(others)})",
                "a metric has one source, the one that its type names; make another metric of the other",
                at=f".{source}",
                reason=FORBIDDEN,
            ),
            *_target_rules(source),
        ]
    out += [
        _name_rule("object", ".describedObject.kind", "name the kind of the object described"),
        _name_rule("object", ".describedObject.name", "name the object described"),
        _first(
            "object",
            "!has(source.describedObject.apiVersion) || source.describedObject.apiVersion.matches('^[^/]*(/[^/]*)?$')",
            "write group/version, such as networking.k8s.io/v1, or v1",
            finding=('found "%s"', "source.describedObject.apiVersion"),
            at=".describedObject.apiVersion",
        ),
        _name_rule("object", ".metric.name", "name the metric"),
        _first(
            "object",
            "has(source.target.value) || has(source.target.averageValue)",
            "set value (of the metric as a whole) or averageValue (per pod)",
            at=".target.averageValue",
            reason=REQUIRED,
        ),
        _name_rule("external", ".metric.name", "name the metric"),
        *_one_of(
            "external",
            "averageValue",
            "value",
            "set value (of the metric as a whole) or averageValue (per pod), one of them",
            "value",
        ),
        _name_rule("pods", ".metric.name", "name the metric"),
        _first(
            "pods",
            "has(source.target.averageValue)",
            "a Pods metric is aimed at averageValue, a quantity above 0",
            at=".target.averageValue",
            reason=REQUIRED,
        ),
        _resource_name("resource"),
        *_one_of("resource", "averageUtilization", "averageValue", resource, "averageValue"),
        _first(
            "containerResource",
            f"source.name.matches({quoted(_CONTAINER_RESOURCE)}) && !source.name.startsWith('requests.')",
            "name the resource: cpu, memory, ephemeral-storage, hugepages-... or a full name such as example.com/gpu",
            finding=('found "%s"', "source.name"),
            at=".name",
        ),
        _first(
            "containerResource",
            f"source.container.matches({quoted(_LABEL)})",
            "name the container: lower-case letters, digits and -",
            finding=('found "%s"', "source.container"),
            at=".container",
        ),
        *_one_of("containerResource", "averageUtilization", "averageValue", resource, "averageValue"),
    ]
    return out


class MetricSpec(Model):
    """One metric. The metric that asks for the most replicas wins."""

    model_config = ConfigDict(json_schema_extra=rules(*metric_rules()))

    type: Literal["Resource", "ContainerResource", "Pods", "Object", "External"] = Field(
        description="Resource, ContainerResource, Pods, Object or External: the field of that name holds the rest.",
        json_schema_extra={BY_RULE: True},
    )
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    pods: PodsMetricSource | None = None
    object: ObjectMetricSource | None = None
    external: ExternalMetricSource | None = None

"""
The CronHPA resource as pydantic models: the single source of the CRD and of what the operator reads and writes.

Types, bounds and defaults are checked twice, by the API server and by these models. Rules that compare fields are
CEL, under `x-kubernetes-validations`, and run in the API server only (API server 1.34 or newer: older ones take the
text of an int-or-string for endless and refuse the CRD for its estimated cost).

`scaleTargetRef`, `minReplicas`, `maxReplicas`, `metrics` and `behavior` are autoscaling/v2's: names, defaults and
validation. The upstream names every wrong field at once, while an API server runs no rules after a failed `required`,
`enum`, `maxLength` or `maxItems`. So what the upstream checks of these five is a rule (`BY_RULE` keeps the bound out of
the CRD); what only we bound, such as a name's length, is schema.

Unknown fields are ignored, because a rolled-back operator must go on scaling under a newer CRD. Files written by hand
are read with `CronHPASpec.model_validate(..., extra="forbid")`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from cronhpa.core.instant import parse_instant
from cronhpa.core.scheduled import cron

Json = dict[str, Any]

MAX_METRICS = 30
MAX_SCHEDULES = 50
MAX_POLICIES = 30
MAX_DATE_RANGES = 40
MAX_HOLIDAY_CALENDARS = 10
INT32_MAX = 2**31 - 1

BY_RULE = "x-checked-by-rule"
"""Marks a field whose bounds, values and pattern stay out of the CRD: a rule of the enclosing object checks them."""

REQUIRED, FORBIDDEN = "FieldValueRequired", "FieldValueForbidden"


def rule(check: str, message: str, *, found: tuple[str, ...] = (), at: str = "", reason: str = "") -> Json:
    """
    One CEL rule: `check` must hold, else `message` is what the user reads, on field `at` (a path below this one).

    found: a text with %s put before the message to say what was found, and the CEL expressions that fill it.
    """
    out = {"rule": check, "message": message}
    if found:
        text, *values = found
        # `format`, because `+` is charged for the largest size its parts could have: string(int) has no bound.
        template = _quoted(f"{text}: {message.replace('%', '%%')}")
        out["messageExpression"] = f"{template}.format([{', '.join(values)}])"
    if at:
        out["fieldPath"] = at
    if reason:
        out["reason"] = reason
    return out


def rules(*checks: Json) -> Json:
    """What `json_schema_extra` takes to carry these rules into the CRD."""
    return {"x-kubernetes-validations": list(checks)}


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Model(BaseModel):
    """Settings that every model of the resource shares: camelCase in the resource, snake_case in Python."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, frozen=True)


# --- words -------------------------------------------------------------------------------------------------------

Replicas = Annotated[int, Field(ge=0, le=INT32_MAX)]
Name = Annotated[str, Field(min_length=1, max_length=63)]

QUANTITY = r"^\s*[+-]?[0-9.]*([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?\s*$"
"""
Every quantity of the upstream but exponents of three digits and more: `1e999999` is nine bytes that cost an API server
(and us) seconds to turn into digits.
"""


def _as_quantity(value: int | str) -> int | str:
    if isinstance(value, str) and (not re.search(QUANTITY, value) or not value.strip()):
        raise ValueError(f"{value!r} is no quantity: write for example 250m, 1.5, 2k or 512Mi")
    return value


# Strict, or a text too long for the one branch would be read as a number by the other.
Quantity = Annotated[
    Annotated[int, Field(strict=True)] | Annotated[str, StringConstraints(max_length=40)], AfterValidator(_as_quantity)
]


def is_quantity(text: str) -> str:
    """CEL: whether the int-or-string `text` is a quantity. The pattern stands first, so that nothing huge is parsed."""
    return f"string({text}).matches({_quoted(QUANTITY)}) && isQuantity(string({text}).trim())"


def sign(text: str) -> str:
    """CEL: -1, 0 or 1 of an int-or-string that is a quantity."""
    return f"sign(quantity(string({text}).trim()))"


def _as_instant(value: str) -> str:
    parse_instant(value)
    return value


RFC3339 = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
_INSTANT = 'write a date and time that exist, with the offset, such as "2026-11-23T18:00:00Z"'
# Not `format: date-time`: a text that fails it is reported without a word on what to write.
Instant = Annotated[
    str,
    AfterValidator(_as_instant),
    Field(
        max_length=64,
        json_schema_extra=rules(
            rule(f"self.matches({_quoted(RFC3339)})", _INSTANT, found=('found "%s"', "self")),
            rule(f"!self.matches({_quoted(RFC3339)}) || timestamp(self).getFullYear() > 0", _INSTANT),
        ),
    ),
]
Timestamp = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]

LOCAL_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$"
LocalTime = Annotated[
    str,
    Field(
        max_length=64,
        json_schema_extra=rules(
            rule(
                f"self.matches({_quoted(LOCAL_TIME)})",
                'write a local date and time to the minute, such as "2026-11-27T00:00", without an offset: '
                "the offset follows from timeZone",
                found=('found "%s"', "self"),
            ),
            rule(
                # A date that does not exist ends the rule in an error, which the API server reports with this message.
                f"!self.matches({_quoted(LOCAL_TIME)}) || timestamp(self + ':00Z').getFullYear() > 0",
                'write a date and time that exist, such as "2026-11-27T00:00"',
            ),
        ),
    ),
]

DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DATE = 'write a date that exists, such as "2026-12-27"'
Date = Annotated[
    str,
    Field(
        max_length=64,
        json_schema_extra=rules(
            rule(f"self.matches({_quoted(DATE)})", _DATE, found=('found "%s"', "self")),
            rule(f"!self.matches({_quoted(DATE)}) || timestamp(self + 'T00:00:00Z').getFullYear() > 0", _DATE),
        ),
    ),
]

ZONE = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$"
TimeZone = Annotated[
    str,
    Field(
        max_length=64,
        json_schema_extra=rules(
            rule(
                f"self.matches({_quoted(ZONE)}) && self != 'Local'",
                'a time zone is an IANA name such as "Europe/Berlin" or "UTC"',
                found=('found "%s"', "self"),
            ),
            rule(
                # An unknown zone ends the rule in an error, which the API server reports with this message.
                f"!self.matches({_quoted(ZONE)}) || timestamp('2000-01-01T00:00:00Z').getFullYear(self) > 0",
                'a time zone is an IANA name such as "Europe/Berlin" or "UTC"',
            ),
        ),
    ),
]

# --- cron texts --------------------------------------------------------------------------------------------------

_FIELDS = r"self.lowerAscii().findAll('[^ \t]+')".replace("\t", "\\t")
_MACROS = f"{', '.join(list(cron.SHORTHANDS)[:-1])} and {list(cron.SHORTHANDS)[-1]}"

Cron = Annotated[
    str,
    Field(
        max_length=cron.LENGTH_MAX,
        json_schema_extra=rules(
            rule("!self.contains('TZ=')", "name the zone in timeZone, not in the cron text", found=("found TZ=",)),
            rule(
                f"!self.startsWith('@') || self in {list(cron.SHORTHANDS)}",
                f"the names accepted are {_MACROS}; @every and @reboot have no place in a calendar",
                found=('found "%s"', "self"),
            ),
            rule(
                f"self.startsWith('@') || self.contains('TZ=') || size({_FIELDS}) == 5",
                "five are accepted: minute, hour, day of the month, month, day of the week; seconds and years are not",
                found=('found %s fields in "%s"', f"size({_FIELDS})", "self"),
            ),
            *(
                rule(
                    f"self.startsWith('@') || size({_FIELDS}) != 5 || {_FIELDS}[{index}].matches("
                    f"{_quoted(field.pattern)})",
                    f"{field.meaning}; {cron.ACCEPTED}",
                    found=('found "%s"', f"{_FIELDS}[{index}]"),
                )
                for index, field in enumerate(cron.FIELDS)
            ),
        ),
    ),
]

# --- autoscaling/v2 ----------------------------------------------------------------------------------------------

_SEGMENT = "self != '' && self != '.' && self != '..' && !self.contains('/') && !self.contains('%')"


def is_segment(path: str) -> str:
    """CEL: whether the text at `path` can stand in a URL path, which is all that the upstream asks of its names."""
    return _SEGMENT.replace("self", path)


class ScaleTargetRef(Model):
    """The object whose replicas are set, through its scale subresource: a Deployment, a StatefulSet, and others."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                # A "v1" alone is the core group, and a ReplicationController is all that scales there.
                "has(self.apiVersion) ? (self.apiVersion.matches('^[^/]+/[^/]*$') || self.kind == "
                "'ReplicationController' && self.apiVersion.matches('^[^/]*/?$')) : self.kind == "
                "'ReplicationController'",
                "write group/version, such as apps/v1",
                found=('found "%s"', "has(self.apiVersion) ? self.apiVersion : ''"),
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
        json_schema_extra=rules(rule(_SEGMENT, "name the kind of the target, such as Deployment")),
    )
    name: str = Field(
        max_length=253,
        description="Name of the target, in the namespace of this object.",
        json_schema_extra=rules(rule(_SEGMENT, "name the target: a name has no / and no %")),
    )


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
    """Names a metric, and which of its series count."""

    name: str = Field(max_length=253, description="Name of the metric.")
    selector: LabelSelectorModel | None = Field(
        default=None, description="Which of the metric's series count; absent, all of them."
    )


class MetricTargetModel(Model):
    """The value that is aimed at."""

    type: Literal["Utilization", "Value", "AverageValue"] = Field(
        description="Utilization (percent of the request), Value (of the metric as a whole) or AverageValue (per pod).",
        json_schema_extra={BY_RULE: True},
    )
    value: Quantity | None = Field(default=None, description="The value of the metric as a whole, as a quantity.")
    average_value: Quantity | None = Field(
        default=None, description="The average of the metric over the pods, as a quantity."
    )
    average_utilization: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = Field(
        default=None,
        description="The average usage over the pods, in percent of what they request.",
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
    """A metric of nothing in the cluster, such as the length of a queue at a cloud provider."""

    metric: MetricIdentifier
    target: MetricTargetModel


SOURCES = ("object", "external", "pods", "resource", "containerResource")
"""The order in which the upstream looks at a metric's sources: of several it examines only the first."""
_KINDS = {source: source[0].upper() + source[1:] for source in SOURCES}

_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_CONTAINER_RESOURCE = (
    "^(cpu|memory|ephemeral-storage|hugepages-[A-Za-z0-9]([-A-Za-z0-9_.]{0,51}[A-Za-z0-9])?"
    "|[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    "/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$"
)


def _first(
    source: str, check: str, message: str, *, found: tuple[str, ...] = (), at: str = "", reason: str = ""
) -> Json:
    """
    A rule on a metric that speaks only if `source` is the first source present.

    `source.` in its CEL stands for the path of that source; `at` starts below it.
    """
    path = f"self.{source}"

    def spelled(text: str) -> str:
        return re.sub(r"\bsource\.", f"{path}.", text)

    guards = [f"!has({path})", *(f"has(self.{earlier})" for earlier in SOURCES[: SOURCES.index(source)])]
    return rule(
        " || ".join([*guards, f"({spelled(check)})"]),
        message,
        found=(*found[:1], *map(spelled, found[1:])),
        at=f".{source}{at}",
        reason=reason,
    )


def _target_rules(source: str) -> list[Json]:
    """What the upstream asks of every target."""
    out = [
        _first(
            source,
            "source.target.type in ['Utilization', 'Value', 'AverageValue']",
            "accepted are Utilization, Value and AverageValue",
            found=('found "%s"', "source.target.type"),
            at=".target.type",
        )
    ]
    for name in ("value", "averageValue"):
        field = f"source.target.{name}"
        out.append(
            _first(
                source,
                f"!has({field}) || {is_quantity(field)} && {sign(field)} == 1",
                "write a quantity above 0, such as 250m, 1.5, 2k or 512Mi",
                found=('found "%s"', field),
                at=f".target.{name}",
            )
        )
    out.append(
        _first(
            source,
            f"!has(source.target.averageUtilization) || source.target.averageUtilization >= 1 "
            f"&& source.target.averageUtilization <= {INT32_MAX}",
            "write percent of the request, 1 or more",
            found=("found %s", "source.target.averageUtilization"),
            at=".target.averageUtilization",
        )
    )
    return out


def _name_rule(source: str, field: str, what: str) -> Json:
    return _first(
        source, is_segment(f"source{field}"), f"{what}; a name is not empty, . or .., and has no / and no %", at=field
    )


def _one_of(source: str, first: str, second: str, message: str, forbidden: str) -> list[Json]:
    """One of the targets `first` and `second` must be set: the upstream names `first` where none is."""
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
            found=('found "%s"', "self.type"),
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
            found=('found "%s"', "source.describedObject.apiVersion"),
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
            f"source.name.matches({_quoted(_CONTAINER_RESOURCE)}) && !source.name.startsWith('requests.')",
            "name the resource: cpu, memory, ephemeral-storage, hugepages-... or a full name such as example.com/gpu",
            found=('found "%s"', "source.name"),
            at=".name",
        ),
        _first(
            "containerResource",
            f"source.container.matches({_quoted(_LABEL)})",
            "name the container: lower-case letters, digits and -",
            found=('found "%s"', "source.container"),
            at=".container",
        ),
        *_one_of("containerResource", "averageUtilization", "averageValue", resource, "averageValue"),
    ]
    return out


class MetricSpec(Model):
    """One metric. The metric that asks for the most replicas wins."""

    model_config = ConfigDict(json_schema_extra=rules(*metric_rules()))

    type: Literal["Resource", "ContainerResource", "Pods", "Object", "External"] = Field(
        description="Resource, ContainerResource, Pods, Object or External: which of the fields beside says the rest.",
        json_schema_extra={BY_RULE: True},
    )
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    pods: PodsMetricSource | None = None
    object: ObjectMetricSource | None = None
    external: ExternalMetricSource | None = None


class ScalingPolicy(Model):
    """How much the replicas may change within a period."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.type in ['Pods', 'Percent']",
                "accepted are Pods and Percent",
                found=('found "%s"', "self.type"),
                at=".type",
            )
        )
    )

    type: Literal["Pods", "Percent"] = Field(
        description="Pods (value is a number of pods) or Percent (value is percent of the current replicas).",
        json_schema_extra={BY_RULE: True},
    )
    value: int = Field(ge=1, le=INT32_MAX, description="How many pods, or percent, may come or go within the period.")
    period_seconds: int = Field(ge=1, le=1800, description="Length of the period, in seconds.")


Policies = Annotated[
    list[ScalingPolicy],
    Field(
        min_length=1,
        max_length=MAX_POLICIES,
        description="The policies of this direction; selectPolicy says which of them counts.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    ),
]
SelectPolicy = Annotated[
    Literal["Max", "Min", "Disabled"],
    Field(
        description="Max: the policy that allows the most counts; Min: the least; Disabled: no change this way.",
        json_schema_extra={
            BY_RULE: True,
            **rules(
                rule(
                    "self in ['Max', 'Min', 'Disabled']",
                    "accepted are Max, Min and Disabled",
                    found=('found "%s"', "self"),
                )
            ),
        },
    ),
]
Tolerance = Annotated[
    Quantity,
    Field(
        description="How far the ratio of a metric to its target may be from 1 before this direction scales: 50m is "
        "5 %. Absent, the operator's setting (10 % unless changed).",
        json_schema_extra=rules(
            rule(
                f"{is_quantity('self')} && {sign('self')} >= 0",
                'write a quantity of 0 or more in quotes, such as "50m" or "0.05" for 5 %',
                found=('found "%s"', "self"),
            )
        ),
    ),
]
_WINDOW = "For how long, in seconds, {} recommendation holds before the replicas follow {} one. {}"


class ScaleUpRules(Model):
    """How the replicas may grow."""

    stabilization_window_seconds: int | None = Field(
        default=0, ge=0, le=3600, description=_WINDOW.format("the lowest", "a higher", "0: at once.")
    )
    select_policy: SelectPolicy = "Max"
    policies: Policies = [
        ScalingPolicy(type="Pods", value=4, period_seconds=15),
        ScalingPolicy(type="Percent", value=100, period_seconds=15),
    ]
    tolerance: Tolerance | None = None


class ScaleDownRules(Model):
    """How the replicas may shrink."""

    stabilization_window_seconds: int | None = Field(
        default=None,
        ge=0,
        le=3600,
        description=_WINDOW.format("the highest", "a lower", "Absent, the operator's setting (300 unless changed)."),
    )
    select_policy: SelectPolicy = "Max"
    policies: Policies = [ScalingPolicy(type="Percent", value=100, period_seconds=15)]
    tolerance: Tolerance | None = None


class BehaviorModel(Model):
    """How fast the replicas may follow. Present, both directions are filled in, field by field."""

    scale_up: ScaleUpRules = Field(default_factory=ScaleUpRules, json_schema_extra={"default": {}})
    scale_down: ScaleDownRules = Field(default_factory=ScaleDownRules, json_schema_extra={"default": {}})


# --- schedules ---------------------------------------------------------------------------------------------------


class DateRangeModel(Model):
    """Local dates, both inclusive."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.from <= self.to",
                "from must not be after to; of one day both are the same",
                found=("found from %s and to %s", "self.from", "self.to"),
                at=".to",
            )
        )
    )

    from_: Date = Field(alias="from", description='The first date, such as "2026-12-27".')
    to: Date = Field(description='The last date, such as "2026-12-31".')


class HolidayCalendar(Model):
    """The public holidays of a country, or of a part of it."""

    country: str = Field(
        max_length=64,
        description="ISO 3166 code of the country, such as DE.",
        json_schema_extra=rules(
            rule(
                "self.matches('^[A-Z]{2}$')",
                "write the two capital letters of ISO 3166, such as DE",
                found=('found "%s"', "self"),
            )
        ),
    )
    subdivision: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Code of the part of the country, such as BY. Absent, the holidays of the whole country.",
    )


class DaysModel(Model):
    """A set of local dates."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(has(self.dates) && size(self.dates) > 0) || (has(self.holidays) && size(self.holidays) > 0)",
                "name dates or holidays, at least one",
                reason=REQUIRED,
            )
        )
    )

    dates: list[DateRangeModel] | None = Field(
        default=None,
        max_length=MAX_DATE_RANGES,
        description="Dates, as ranges.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    holidays: list[HolidayCalendar] | None = Field(
        default=None,
        max_length=MAX_HOLIDAY_CALENDARS,
        description="Public holidays, the days on which they are observed among them.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


_STATES_BOUND = "has(self.minReplicas) || has(self.maxReplicas) || has(self.replicas)"


class ScheduleModel(Model):
    """
    A window of time and the bounds that hold while it is open. It recurs (start with end or durationMinutes) or
    happens once (from and to).
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.start) || has(self.from) || has(self.to)",
                "say when it opens: start with end or durationMinutes to recur, from and to for one event",
                at=".start",
                reason=REQUIRED,
            ),
            rule(
                "!has(self.start) || !(has(self.from) || has(self.to))",
                "found start beside from or to: start recurs, from and to are one event; make two schedules of it",
                at=".start",
                reason=FORBIDDEN,
            ),
            rule(
                "!has(self.start) || has(self.from) || has(self.to) || has(self.end) || has(self.durationMinutes)",
                "say when it closes: end (a cron text) or durationMinutes",
                at=".end",
                reason=REQUIRED,
            ),
            rule(
                "!has(self.end) || !has(self.durationMinutes)",
                "found end and durationMinutes: keep one of them",
                at=".end",
                reason=FORBIDDEN,
            ),
            rule(
                "has(self.start) || !(has(self.from) || has(self.to)) || !(has(self.end) || has(self.durationMinutes))",
                "end and durationMinutes close what a start opens: an event ends at to",
                at=".end",
                reason=FORBIDDEN,
            ),
            rule("!has(self.to) || has(self.from)", "to needs from, its beginning", at=".from", reason=REQUIRED),
            rule("!has(self.from) || has(self.to)", "from needs to, its end", at=".to", reason=REQUIRED),
            rule(
                "!has(self.from) || !has(self.to) || self.from < self.to",
                "to must be after from",
                found=("found from %s and to %s", "self.from", "self.to"),
                at=".to",
            ),
            *(
                rule(
                    f"has(self.start) || !has(self.{days})",
                    f"{days} chooses among the days of a start: an event from one time to another has none",
                    at=f".{days}",
                    reason=FORBIDDEN,
                )
                for days in ("exclude", "only")
            ),
            rule(
                f"{_STATES_BOUND} || has(self.headroomPercent)",
                "say what it asks for: minReplicas, maxReplicas, replicas or headroomPercent",
                at=".minReplicas",
                reason=REQUIRED,
            ),
            rule(
                "!has(self.replicas) || !(has(self.minReplicas) || has(self.maxReplicas))",
                "replicas is both bounds at once: leave out minReplicas and maxReplicas, or replicas",
                at=".replicas",
                reason=FORBIDDEN,
            ),
            rule(
                "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                "maxReplicas must not be below minReplicas",
                found=("found minReplicas %s and maxReplicas %s", "self.minReplicas", "self.maxReplicas"),
                at=".maxReplicas",
            ),
        )
    )

    name: Name = Field(
        description="Name of the schedule, unique in this object: status and events speak of it by name."
    )
    start: Cron | None = Field(
        default=None, description='Cron text of the times at which the window opens, such as "0 8 * * mon-fri".'
    )
    end: Cron | None = Field(
        default=None, description='Cron text of the times at which the window closes, such as "0 18 * * *".'
    )
    duration_minutes: int | None = Field(
        default=None,
        ge=1,
        le=527_040,
        description="Instead of end: how long the window stays open, in elapsed minutes.",
    )
    from_: LocalTime | None = Field(
        default=None,
        alias="from",
        description='For one event: local time of its beginning, such as "2026-11-27T00:00".',
    )
    to: LocalTime | None = Field(
        default=None, description='For one event: local time of its end, such as "2026-11-28T02:00".'
    )
    time_zone: TimeZone | None = Field(
        default=None, description="IANA time zone that the times above are meant in. Absent, the timeZone of the spec."
    )
    min_replicas: Replicas | None = Field(default=None, description="Lower bound while the window is open.")
    max_replicas: Replicas | None = Field(default=None, description="Upper bound while the window is open.")
    replicas: Replicas | None = Field(
        default=None,
        description="Both bounds at once: exactly this many replicas while the window is open. 0 is allowed.",
    )
    headroom_percent: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="While the window is open, measured and forecast load count this much more: 50 is half as much "
        "again.",
    )
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="Of open schedules that state the same bound, the one with the highest priority is obeyed; among "
        "equals the largest minReplicas and the smallest maxReplicas.",
    )
    lead_time_seconds: int | None = Field(
        default=None,
        ge=0,
        le=86_400,
        description="How long before its start the window is asked for, so that its pods are Ready when it opens: "
        "minReplicas (or replicas) where they raise the lower bound, and headroomPercent. What lowers a bound, and "
        "maxReplicas, hold from the start on; maxReplicas of other schedules of no higher priority that close by then "
        "are raised to what it needs. Absent, measured: podStartupSeconds (60 until known), one syncPeriodSeconds, and "
        "the time that behavior takes from the lower bound before. 0: not ahead.",
    )
    exclude: DaysModel | None = Field(
        default=None,
        description="Days on which the window does not open: their starts are dropped. A window that is still open "
        "from an earlier day goes on to its end, or to the first start that is dropped, which closes it.",
    )
    only: DaysModel | None = Field(
        default=None,
        description="The only days on which the window opens: starts on other days are dropped, as if they were "
        "excluded. With exclude beside it, the days that are named here and not there.",
    )
    suspend: bool = Field(default=False, description="Whether the schedule is set aside for now.")


# --- forecast and override ---------------------------------------------------------------------------------------


class SpanModel(Model):
    """A span of time."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!self.from.matches({_quoted(RFC3339)}) || !self.to.matches({_quoted(RFC3339)}) "
                "|| timestamp(self.from) < timestamp(self.to)",
                "to must be after from",
                found=("found from %s and to %s", "self.from", "self.to"),
                at=".to",
            )
        )
    )

    from_: Instant = Field(alias="from", description='Its beginning, such as "2026-10-03T06:00:00Z".')
    to: Instant = Field(description='Its end, such as "2026-10-03T12:00:00Z".')


Mode = Literal["Active", "Preview"]


class ForecastSettingsModel(Model):
    """Raises the replicas ahead of a load that is forecast. It never lowers them."""

    mode: Mode = Field(default="Active", description="Active, or Preview: learn and report, never act.")
    budget_percent: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Pod-hours that the forecast may add over metrics and schedules alone, in percent, averaged over "
        "a week.",
    )
    pod_capacity_percent: int | None = Field(
        default=None,
        ge=100,
        le=10_000,
        description="What a pod can carry, in percent of its target. Absent, all of its request for a Utilization "
        "target (100 % divided by the target), else 100.",
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


_STATED = "[has(self.minReplicas), has(self.maxReplicas), has(self.replicas)].filter(stated, stated)"


class OverrideModel(Model):
    """Bounds set by hand that outrank every schedule until they expire."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"{_STATED}.size() == 1",
                "an override states one of minReplicas, maxReplicas and replicas (both bounds at once)",
                found=("found %s of them", f"{_STATED}.size()"),
                at=".replicas",
            )
        )
    )

    min_replicas: Replicas | None = Field(default=None, description="Lower bound until then.")
    max_replicas: Replicas | None = Field(default=None, description="Upper bound until then.")
    replicas: Replicas | None = Field(default=None, description="Exactly this many replicas until then.")
    until: Instant = Field(description='When the override ends, such as "2026-11-23T18:00:00Z".')
    reason: str = Field(min_length=1, max_length=256, description="Why, such as the number of an incident.")


# --- the spec ----------------------------------------------------------------------------------------------------

_HAS_METRICS = "(has(self.metrics) && size(self.metrics) > 0)"
_HAS_SCHEDULES = "(has(self.schedules) && size(self.schedules) > 0)"
_SOURCE_TARGETS = " || ".join(
    f"(has(metric.{source}) && (has(metric.{source}.target.averageValue) "
    f"|| has(metric.{source}.target.averageUtilization)))"
    for source in SOURCES
)
_UPSTREAM_DEFAULT = (
    "metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]"
)


class CronHPASpec(Model):
    """What the replicas of the target should follow."""

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
                found=("found maxReplicas %s and minReplicas %s", "self.maxReplicas", "self.minReplicas"),
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
        )
    )

    mode: Mode = Field(default="Active", description="Active, or Preview: decide and report, never scale.")
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
    behavior: BehaviorModel | None = Field(
        default=None, description="How fast the replicas may grow and shrink, as in autoscaling/v2."
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
        description="Samples older than this count as absent. Absent, any age is accepted, as by the "
        "HorizontalPodAutoscaler.",
    )
    time_zone: TimeZone = Field(default="UTC", description="IANA time zone of the schedules that name none themselves.")
    schedules: list[ScheduleModel] | None = Field(
        default=None,
        max_length=MAX_SCHEDULES,
        description="Windows of time with bounds of their own.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    forecast: ForecastSettingsModel | None = Field(
        default=None, description="Whether to raise the replicas ahead of a load that is forecast. Absent, no."
    )
    override: OverrideModel | None = None


# --- the status --------------------------------------------------------------------------------------------------
# Written by the operator alone. Its bounds stand far above what a spec can produce: a status that the API server
# refused would cost the memory that it carries.

Text = Annotated[str, Field(max_length=1024)]
Sentences = Annotated[str, Field(max_length=32_768)]
_STATUS_ROWS = 512


class MetricValueStatus(Model):
    """What a metric was when it was last read."""

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
    """A metric as last read. Its type is empty where it could not be read, as in autoscaling/v2."""

    type: Text
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    object: ObjectMetricStatus | None = None
    external: ExternalMetricStatus | None = None


class ProposalStatus(Model):
    """What one source asked for."""

    source: Text = Field(description="Metric, Forecast, Schedule, Override or Spec.")
    name: Text | None = Field(default=None, description="Which metric or schedule.")
    role: Text = Field(description="Target (a count to go to), Floor (not fewer) or Cap (not more).")
    replicas: int
    reason: Sentences | None = Field(default=None, description="The arithmetic behind it.")
    until: Timestamp | None = Field(
        default=None, description="When this source will ask for something else, if that is known."
    )


class AbstentionStatus(Model):
    """A source that had nothing to say, and why."""

    source: Text = Field(description="Metric, Forecast or Schedule.")
    name: Text | None = Field(default=None, description="Which metric or schedule.")
    reason: Text = Field(description="One word for machines.")
    message: Sentences | None = Field(default=None, description="A sentence for people.")


class StepStatus(Model):
    """A limit that changed the number."""

    rule: Text = Field(description="Which limit.")
    from_: int = Field(alias="from", description="The replicas before it.")
    to: int = Field(description="The replicas after it.")


class DecisionStatus(Model):
    """Why the replicas are what they are: who asked for what, and which limits changed it."""

    decided_by: Text | None = Field(
        default=None, description="Whose number it is, such as Metric/cpu, Schedule/night, Override or Spec."
    )
    reason: Sentences | None = Field(default=None, description="Why, in the words of the event that a scaling writes.")
    withheld: Sentences | None = Field(default=None, description="Why nothing is scaled, if nothing is.")
    proposals: list[ProposalStatus] | None = Field(
        default=None, max_length=_STATUS_ROWS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    abstentions: list[AbstentionStatus] | None = Field(
        default=None, max_length=_STATUS_ROWS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
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
    state: Text = Field(description="Open, Leading (asked for ahead of its start), Closed, Suspended or Unreadable.")
    opens: Timestamp | None = Field(default=None, description="When it opens next.")
    closes: Timestamp | None = Field(default=None, description="When it closes, if it is open.")
    lead_seconds: int | None = Field(
        default=None, description="How long before its start it is asked for, if it leads."
    )
    message: Sentences | None = Field(default=None, description="Why it cannot be read, if it cannot.")


class NextEdge(Model):
    """The next time at which what a schedule asks for changes."""

    time: Timestamp
    schedule: Text
    state: Text = Field(description="What the schedule will be then: Open, Leading or Closed.")


class ForecastStatus(Model):
    """Which forecast is in use, and how good it has been."""

    model: Text | None = None
    quantile_percent: int | None = Field(default=None, description="Which quantile of the load is forecast.")
    coverage_percent: int | None = Field(default=None, description="How many percent of recent loads were below it.")
    budget_used_permille: int | None = Field(
        default=None, description="Pod-hours that it added over the last seven days, in permille."
    )
    issued_at: Timestamp | None = None
    trained_until: Timestamp | None = Field(default=None, description="The end of the history that was learned from.")


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
        default=None, description="How long 90 % of the target's pods took from creation to Ready."
    )
    current_metrics: list[MetricStatus] | None = Field(
        default=None, max_length=MAX_METRICS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    decision: DecisionStatus | None = None
    schedules: list[ScheduleStatus] | None = Field(
        default=None,
        max_length=MAX_SCHEDULES,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    next_edge: NextEdge | None = None
    forecast: ForecastStatus | None = None
    conditions: list[Condition] | None = Field(
        default=None,
        max_length=32,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    memory: dict[str, Any] | None = Field(
        default=None,
        description="What the operator must remember over a restart. Its own, versioned; not for people to edit.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )


class CronHPA(Model):
    """
    A HorizontalPodAutoscaler with schedules and forecasts: it sets the replicas of its target by metrics, as
    autoscaling/v2 does, within bounds that follow the clock, and ahead of loads that are forecast.
    """

    spec: CronHPASpec
    status: CronHPAStatus | None = None

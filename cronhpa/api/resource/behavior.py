"""`spec.behavior`, as in autoscaling/v2."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from cronhpa.api.resource.cel import BY_RULE, is_quantity, rule, rules, sign
from cronhpa.api.resource.fields import INT32_MAX, Model, Quantity

MAX_POLICIES = 30


class ScalingPolicy(Model):
    """How much the replicas may change within a period."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.type in ['Pods', 'Percent']",
                "accepted are Pods and Percent",
                finding=('found "%s"', "self.type"),
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
        description="The policies of this direction; selectPolicy chooses among them.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    ),
]
SelectPolicy = Annotated[
    Literal["Max", "Min", "Disabled"],
    Field(
        description="Max: the policy that allows the largest change wins; Min: the smallest; Disabled: no change in "
        "this direction.",
        json_schema_extra={
            BY_RULE: True,
            **rules(
                rule(
                    "self in ['Max', 'Min', 'Disabled']",
                    "accepted are Max, Min and Disabled",
                    finding=('found "%s"', "self"),
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
                finding=('found "%s"', "self"),
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
    policies: Policies = Field(
        default=[
            ScalingPolicy(type="Pods", value=4, period_seconds=15),
            ScalingPolicy(type="Percent", value=100, period_seconds=15),
        ]
    )
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
    policies: Policies = Field(default=[ScalingPolicy(type="Percent", value=100, period_seconds=15)])
    tolerance: Tolerance | None = None


class BehaviorModel(Model):
    """How fast the replicas may follow. Present, both directions are filled in, field by field."""

    scale_up: ScaleUpRules = Field(default_factory=ScaleUpRules, json_schema_extra={"default": {}})
    scale_down: ScaleDownRules = Field(default_factory=ScaleDownRules, json_schema_extra={"default": {}})

"""Variants of an object for one load: metrics alone, with schedules, with a forecast."""

from __future__ import annotations

from enum import StrEnum

from msgspec.structs import replace

from cronhpa.core.model.spec import Mode, Spec


class Variant(StrEnum):
    """How much of an object acts."""

    REACTIVE = "reactive"
    SCHEDULED = "scheduled"
    FORECAST = "forecast"


def variants(spec: Spec) -> dict[Variant, Spec]:
    """
    The object with metrics alone, with schedules, and with a forecast, as far as it has them.

    A preview acts here: a comparison asks what it would do. The override is left out: it was for an incident.
    """
    full = replace(spec, mode=Mode.ACTIVE, override=None)
    specs: dict[Variant, Spec] = {}
    if spec.metrics:
        specs[Variant.REACTIVE] = replace(full, schedules=(), forecast=None)
    if spec.schedules:
        specs[Variant.SCHEDULED] = replace(full, forecast=None)
    if spec.metrics and spec.forecast is not None:
        specs[Variant.FORECAST] = replace(full, forecast=replace(spec.forecast, mode=Mode.ACTIVE))
    return specs

"""One load, run several times: what schedules and a forecast are worth, against metrics alone."""

from __future__ import annotations

from enum import StrEnum

from msgspec.structs import replace

from cronhpa.core.spec import Mode, Spec


class Variant(StrEnum):
    """How much of an object acts."""

    REACTIVE = "reactive"
    SCHEDULED = "scheduled"
    FORECAST = "forecast"


def variants(spec: Spec) -> dict[Variant, Spec]:
    """
    The object with its metrics alone, with its schedules, and with its forecast: those of them that it has.

    A preview acts here, as what it would do is the question. An override is left out: it was for an incident.
    """
    full = replace(spec, mode=Mode.ACTIVE, override=None)
    found: dict[Variant, Spec] = {}
    if spec.metrics:
        found[Variant.REACTIVE] = replace(full, schedules=(), forecast=None)
    if spec.schedules:
        found[Variant.SCHEDULED] = replace(full, forecast=None)
    if spec.metrics and spec.forecast is not None:
        found[Variant.FORECAST] = replace(full, forecast=replace(spec.forecast, mode=Mode.ACTIVE))
    return found

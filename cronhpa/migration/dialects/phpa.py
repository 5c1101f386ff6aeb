"""
PredictiveHorizontalPodAutoscaler (jamiethompson.me/v1alpha1), as of its last release, 0.13.2.

It runs the HPA's algorithm, then models of the past replica counts; the largest result decides unless decisionType says
otherwise.
"""

from __future__ import annotations

from cronhpa.migration.dialects import hpa
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.manifest import cron_hpa, has_load, metadata_of

_MS = 1000
_SECONDS = ("cpuInitializationPeriod", "initialReadinessDelay")


def to_cron_hpa(document: FieldReader, _: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    spec = document.mapping("spec")
    out = hpa.spec_of(document)
    for key in _SECONDS:
        seconds = spec.integer(key)
        if seconds is not None:
            out[f"{key}Seconds"] = seconds
    period = spec.integer("syncPeriod")
    if period is not None:
        out["syncPeriodSeconds"] = max(period // _MS, 1)
        if period % _MS:
            spec.remark(
                "syncPeriod", f"found {period} ms", f"took {out['syncPeriodSeconds']} s: whole seconds are read"
            )
    if "tolerance" in spec:
        tolerance = spec.raw("tolerance")
        behavior = spec.mapping("behavior")
        out["behavior"] = dict(behavior.body) | {
            key: dict(behavior.mapping(key).body) | {"tolerance": str(tolerance)} for key in ("scaleUp", "scaleDown")
        }
    decision = spec.text("decisionType", "maximum")
    if decision != "maximum":
        spec.remark(
            "decisionType",
            f"found {decision}",
            "a forecast only ever raises the count: the largest decides, as by maximum",
        )
    models = spec.mappings("models")
    for model in models:
        model.ignore(*model)
        model.remark(
            "",
            f"found {model.text('type')}, a model of replica counts",
            "forecast is of the load, has methods of its own, and begins after two days of load",
        )
    if models and has_load(out["metrics"]):
        out["forecast"] = {}
    return cron_hpa(metadata_of(document), out)

"""
Crane EffectiveHorizontalPodAutoscaler (autoscaling.crane.io/v1alpha1), as of its last commit in 2024.

Crane makes a HorizontalPodAutoscaler of it, with all crons as one external metric: the largest targetReplicas of those
that are active, so a floor; and with the largest value of a prediction window as another.
"""

from __future__ import annotations

from cronhpa.migration import edges
from cronhpa.migration.context import ConversionContext
from cronhpa.migration.document import FieldReader, Json, Unconvertible
from cronhpa.migration.manifest import DEFAULT_METRICS, cron_hpa, has_load, metadata_of, unique_names

_QUERY = "metric-query.autoscaling.crane.io/"


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    metadata = metadata_of(document)
    spec = document.mapping("spec")
    lowest, highest = spec.integer("minReplicas"), spec.integer("maxReplicas")
    lowest = 1 if lowest is None else lowest
    if highest is None:
        raise spec.unconvertible("maxReplicas", "there is no maxReplicas", "Crane refuses it too")
    metrics = [dict(metric.body) for metric in spec.mappings("metrics")]
    spec.ignore("metrics")
    crons = [item for item in (_cron(cron, lowest, highest, context) for cron in spec.mappings("crons")) if item]
    if not metrics and not crons:
        metrics = DEFAULT_METRICS
    elif not metrics:
        spec.remark(
            "crons",
            "found crons and no metrics",
            f"between windows minReplicas ({lowest}) holds; some versions of Crane keep the replicas they find",
        )
    out: Json = {
        "mode": _mode(spec),
        "scaleTargetRef": spec.raw("scaleTargetRef"),
        "minReplicas": lowest,
        "maxReplicas": highest,
        "metrics": metrics or None,
        "behavior": spec.raw("behavior"),
        "schedules": unique_names(crons) or None,
        "forecast": _forecast(document, spec, metrics),
    }
    return cron_hpa(metadata, out)


def _mode(spec: FieldReader) -> str | None:
    held = spec.integer("specificReplicas")
    if spec.text("scaleStrategy", "Auto") != "Preview":
        return None
    if held is not None:
        spec.remark(
            "specificReplicas",
            f"found {held}",
            "mode Preview leaves the replicas at what they are: scale the target by hand if it is not there",
        )
    return "Preview"


def _cron(cron: FieldReader, lowest: int, highest: int, context: ConversionContext) -> Json | None:
    cron.ignore("description")
    try:
        zone = cron.text("timezone")
        if not zone:
            zone = context.zone or "UTC"
            if context.zone is None:
                cron.remark(
                    "timezone", "there is none", "took UTC; Crane takes the zone of its process: see --time-zone"
                )
        fields = edges.window(cron, (cron.text("start"), cron.text("end")), zone, "Crane", context)
        replicas = cron.integer("targetReplicas")
        if replicas is None:
            raise cron.unconvertible(
                "targetReplicas", "there is no targetReplicas", "say how many replicas the window needs"
            )
    except Unconvertible as refusal:
        cron.ignore("start", "end", "targetReplicas", "timezone")
        cron.remark("", refusal.found, refusal.meaning)
        return None
    return {"name": cron.text("name") or "cron"} | fields | {"minReplicas": min(max(replicas, lowest), highest)}


def _forecast(document: FieldReader, spec: FieldReader, metrics: list[Json]) -> Json | None:
    """A forecast for a prediction. Its settings have no counterpart: the operator chooses method, quantile and lead."""
    for key in document.mapping("metadata").texts("annotations"):
        if key.startswith(_QUERY):
            document.remark(
                f"metadata.annotations[{key}]",
                "found the query of a history",
                "history is the operator's: import it with `cronhpa history import`, or wait two days",
            )
    if "prediction" not in spec:
        return None
    prediction = spec.mapping("prediction")
    if "predictionWindowSeconds" in prediction:
        prediction.remark(
            "predictionWindowSeconds",
            f"found {prediction.integer('predictionWindowSeconds')}",
            "how far a forecast looks ahead follows from how long pods take to start",
        )
    algorithm = prediction.mapping("predictionAlgorithm")
    kind = algorithm.text("algorithmType")
    for key in ("dsp", "percentile"):
        if key in algorithm:
            algorithm.raw(key)
            algorithm.remark(
                key,
                f"found settings of {kind or key}",
                "the forecast has a method of its own: watch it with mode Preview",
            )
    if not has_load(metrics):
        spec.remark(
            "prediction", "no metric has a target per pod", "a forecast needs one: add a Utilization or AverageValue"
        )
        return None
    return {"mode": "Active"}

"""
Crane EffectiveHorizontalPodAutoscaler (autoscaling.crane.io/v1alpha1), as of its last commit in 2024.

Crane makes a HorizontalPodAutoscaler of it. All crons are one external metric, the largest targetReplicas of the active
ones, which acts as a floor. The largest value of a prediction window is another external metric.
"""

from __future__ import annotations

from cronhpa.migration.documents import edges
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json, Unconvertible
from cronhpa.migration.documents.manifest import DEFAULT_METRICS, cron_hpa, has_load, metadata_of, unique_names

# The second one in its first releases.
_QUERIES = ("metric-query.autoscaling.crane.io/", "metric-name.autoscaling.crane.io/")
_OF_PROCESS = {"", "Local"}


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
    nowhere = [cron.text("name") for cron in spec.mappings("crons") if cron.text("timezone") in _OF_PROCESS]
    if nowhere and context.zone is None:
        spec.remark(
            "crons",
            f"{', '.join(nowhere)}: no zone of its own",
            "took UTC; Crane takes the zone of its process: see --time-zone",
        )
    crons = [
        schedule for schedule in (_cron(cron, lowest, highest, context) for cron in spec.mappings("crons")) if schedule
    ]
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
    replicas = spec.integer("specificReplicas")
    if spec.text("scaleStrategy", "Auto") != "Preview":
        return None
    if replicas is not None:
        spec.remark(
            "specificReplicas",
            f"found {replicas}",
            "mode Preview leaves the replicas at what they are: scale the target by hand if it is not there",
        )
    return "Preview"


def _cron(cron: FieldReader, lowest: int, highest: int, context: ConversionContext) -> Json | None:
    cron.ignore("description")
    try:
        zone = cron.text("timezone")
        if zone in _OF_PROCESS:
            zone = context.zone or "UTC"
        fields = edges.window(cron, (cron.text("start"), cron.text("end")), zone, "Crane", context)
        replicas = cron.integer("targetReplicas")
        if replicas is None:
            raise cron.unconvertible(
                "targetReplicas", "there is no targetReplicas", "say how many replicas the window needs"
            )
    except Unconvertible as refusal:
        cron.ignore("start", "end", "targetReplicas", "timezone")
        cron.remark("", refusal.finding, refusal.meaning)
        return None
    return {"name": cron.text("name") or "cron"} | fields | {"minReplicas": min(max(replicas, lowest), highest)}


def _forecast(document: FieldReader, spec: FieldReader, metrics: list[Json]) -> Json | None:
    """A forecast for a prediction. Its settings have no counterpart: the operator chooses method, quantile and lead."""
    for key in document.mapping("metadata").texts("annotations"):
        if key.startswith(_QUERIES):
            document.remark(
                f"metadata.annotations[{key}]",
                "found the query of a history",
                "history is the operator's: import it with `cronhpa history import`, or wait two days",
            )
    if "prediction" not in spec:
        return None
    settings = spec.mapping("prediction").body
    spec.ignore("prediction")
    if settings:
        spec.remark(
            "prediction",
            f"found settings of its own: {', '.join(map(str, settings))}",
            "the forecast chooses its method, and looks ahead as far as pods take to start: watch it with mode Preview",
        )
    if not has_load(metrics):
        spec.remark(
            "prediction", "no metric has a target per pod", "a forecast needs one: add a Utilization or AverageValue"
        )
        return None
    return {"mode": "Active"}

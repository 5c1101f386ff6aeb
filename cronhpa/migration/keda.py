"""
KEDA ScaledObject (keda.sh/v1alpha1), as of KEDA 2.20.

KEDA turns triggers into the metrics of a HorizontalPodAutoscaler, owns the step between 0 and 1 itself, and serves all
but cpu and memory as external metrics named s<index>-... A cron trigger is such a metric: its desiredReplicas while
active, so a floor below which the other metrics cannot go, and never more than maxReplicaCount.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.migration import edges
from cronhpa.migration.context import ConversionContext
from cronhpa.migration.document import FieldReader, Json, Unconvertible
from cronhpa.migration.manifest import cron_hpa, metadata_of, unique_names

_MIN, _MAX, _COOLDOWN = 0, 100, 300
_LABEL = "scaledobject.keda.sh/name"
_NAME_MAX = 63
# The field that says how much one pod carries, and KEDA's default where it has one: pkg/scalers of KEDA 2.20.
_THRESHOLDS: Mapping[str, tuple[str, str | None]] = {
    "prometheus": ("threshold", None),
    "kafka": ("lagThreshold", "10"),
    "apache-kafka": ("lagThreshold", "10"),
    "rabbitmq": ("value", None),
    "aws-sqs-queue": ("queueLength", "5"),
    "aws-cloudwatch": ("targetMetricValue", None),
    "azure-queue": ("queueLength", "5"),
    "azure-servicebus": ("messageCount", "5"),
    "gcp-pubsub": ("value", "10"),
    "redis": ("listLength", "5"),
    "nats-jetstream": ("lagThreshold", "10"),
    "metrics-api": ("targetValue", None),
    "postgresql": ("targetQueryValue", None),
    "mysql": ("queryValue", None),
    "mongodb": ("queryValue", None),
    "loki": ("threshold", None),
    "graphite": ("threshold", "100"),
    "new-relic": ("threshold", None),
    "kubernetes-workload": ("value", None),
}


class _Triggers(Struct, frozen=True):
    """The converted triggers. lost: whether one could not be converted. has_external: whether one wakes from 0."""

    crons: tuple[Json, ...]
    resources: tuple[Json, ...]
    external: tuple[Json, ...]
    lost: bool
    has_external: bool


class _Counts(Struct, frozen=True):
    """lowest: the lower bound while active, at least 1. sleeps: whether KEDA goes to 0 while nothing is active."""

    lowest: int
    highest: int
    sleeps: bool
    idles: bool


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    metadata = metadata_of(document)
    spec = document.mapping("spec")
    marks = document.mapping("metadata").texts("annotations")
    advanced = spec.mapping("advanced")
    config = advanced.mapping("horizontalPodAutoscalerConfig")
    config.ignore("name")
    if _is_true(advanced.raw("restoreToOriginalReplicaCount")):
        advanced.remark(
            "restoreToOriginalReplicaCount", "found true", "deleting a CronHPA leaves the replicas: scale them by hand"
        )
    triggers = _read(document, spec, advanced, context)
    counts = _counts(spec, marks, triggers)
    out = _bounds(spec, counts, triggers) | {
        "scaleTargetRef": _target(spec),
        "metrics": [*triggers.resources, *triggers.external] or None,
        "behavior": config.raw("behavior"),
    }
    _say_of_times(spec, counts)
    _pauses(document, marks, out, triggers)
    return cron_hpa(metadata, out)


# --- bounds ------------------------------------------------------------------------------------------------------


def _counts(spec: FieldReader, marks: Mapping[str, str], triggers: _Triggers) -> _Counts:
    lowest, highest, idle = (spec.integer(key) for key in ("minReplicaCount", "maxReplicaCount", "idleReplicaCount"))
    lowest = _MIN if lowest is None else lowest
    # KEDA does not take cpu and memory for activity, and refuses 0 where there is nothing else.
    can_wake = bool(triggers.crons) or triggers.has_external
    if idle is not None and (idle != 0 or not can_wake):
        spec.remark(
            "idleReplicaCount", f"found {idle}", "there is no count for while nothing is active: minReplicas holds"
        )
    sleeps = can_wake and (lowest == 0 or idle == 0) and not _is_true(marks.get("autoscaling.keda.sh/force-activation"))
    return _Counts(
        lowest=max(lowest, 1),
        highest=_MAX if highest is None else highest,
        sleeps=sleeps,
        idles=idle is not None and lowest > 0,
    )


def _bounds(spec: FieldReader, counts: _Counts, triggers: _Triggers) -> Json:
    """The bounds of the spec and of the windows, with 0 replicas wherever KEDA has 0, if that is possible."""
    out: Json = {"minReplicas": counts.lowest, "maxReplicas": counts.highest}
    schedules = [_window(fields, counts) for fields in triggers.crons]
    if counts.sleeps and triggers.lost:
        spec.remark(
            "minReplicaCount",
            "KEDA goes to 0 while no trigger is active",
            f"a trigger that could wake it is missing here, so minReplicas is {counts.lowest}",
        )
    elif counts.sleeps and triggers.external and counts.idles:
        spec.remark(
            "idleReplicaCount",
            "found 0",
            f"a metric cannot choose between 0 and at least {counts.lowest}: minReplicas is {counts.lowest}, never 0",
        )
    elif counts.sleeps and triggers.external:
        out["minReplicas"] = 0
        if triggers.resources:
            spec.remark(
                "minReplicaCount",
                "cpu and memory do not keep it from 0 at KEDA",
                "here each metric counts: a pod that uses anything keeps one replica; remove the metric to reach 0",
            )
    elif counts.sleeps and triggers.resources:
        # The windows outrank this schedule; outside of them no pod may run, however busy the pods are.
        always = {"name": "idle", "start": "@daily", "durationMinutes": 2 * 24 * 60, "replicas": 0, "priority": -1}
        schedules = [always, *(item | {"maxReplicas": counts.highest} for item in schedules)]
    elif counts.sleeps:
        out["minReplicas"] = 0
    if schedules:
        out["schedules"] = unique_names(schedules)
    return out


def _window(fields: Json, counts: _Counts) -> Json:
    """
    A window with KEDA's bounds: a window's minReplicas replaces the spec's, KEDA's desiredReplicas lie within them.
    """
    return fields | {"minReplicas": min(max(fields["minReplicas"], counts.lowest), counts.highest)}


def _target(spec: FieldReader) -> Json:
    ref = spec.mapping("scaleTargetRef")
    ref.ignore("envSourceContainerName")
    return {
        "apiVersion": ref.text("apiVersion", "apps/v1"),
        "kind": ref.text("kind", "Deployment"),
        "name": ref.text("name"),
    }


def _say_of_times(spec: FieldReader, counts: _Counts) -> None:
    if "pollingInterval" in spec:
        spec.remark(
            "pollingInterval",
            f"found {spec.integer('pollingInterval')}",
            "metrics are read each turn: syncPeriodSeconds, 15 unless set",
        )
    for key in ("cooldownPeriod", "initialCooldownPeriod"):
        seconds = spec.integer(key)
        if seconds is not None and counts.sleeps and (key, seconds) != ("cooldownPeriod", _COOLDOWN):
            spec.remark(
                key,
                f"found {seconds}",
                "the step to 0 waits as every step down: behavior.scaleDown.stabilizationWindowSeconds, 300 unless set",
            )
    if "fallback" in spec:
        spec.raw("fallback")
        spec.remark(
            "fallback",
            "found a count for when a trigger fails",
            "a metric that fails never shrinks anything here, and raises nothing: add a schedule with minReplicas",
        )


# --- pauses ------------------------------------------------------------------------------------------------------


def _pauses(document: FieldReader, marks: Mapping[str, str], out: Json, triggers: _Triggers) -> None:
    prefix = "autoscaling.keda.sh/"
    for key, direction in (
        ("paused-scale-in", "scaleDown"),
        ("paused-scale-down", "scaleDown"),
        ("paused-scale-out", "scaleUp"),
    ):
        if _is_true(marks.get(prefix + key)):
            behavior = out.get("behavior") or {}
            out["behavior"] = behavior | {direction: (behavior.get(direction) or {}) | {"selectPolicy": "Disabled"}}
            if direction == "scaleUp" and triggers.crons:
                document.remark(
                    f"metadata.annotations[{prefix}{key}]",
                    "found true",
                    "selectPolicy Disabled stops the metrics; a window still raises the replicas: suspend it",
                )
    held = marks.get(prefix + "paused-replicas")
    if held is not None or _is_true(marks.get(prefix + "paused")):
        out["mode"] = "Preview"
    if held is not None:
        document.remark(
            f"metadata.annotations[{prefix}paused-replicas]",
            f"found {held}",
            "mode Preview leaves the replicas at what they are: scale the target by hand if it is not there",
        )
    if _is_true(marks.get(prefix + "force-activation")):
        document.remark(
            f"metadata.annotations[{prefix}force-activation]",
            "found true",
            "minReplicas is at least 1: set it to 0 to let it sleep again",
        )


def _is_true(value: object) -> bool:
    """KEDA's reading of an annotation: any text but false, 0 and f means true."""
    return value is not None and str(value).lower() not in {"false", "0", "f"}


# --- triggers ----------------------------------------------------------------------------------------------------


def _read(document: FieldReader, spec: FieldReader, advanced: FieldReader, context: ConversionContext) -> _Triggers:
    crons: list[Json] = []
    resources: list[Json] = []
    external: list[Json] = []
    lost = has_external = False
    hpa = _own_hpa(document, context)
    formula = "formula" in advanced.mapping("scalingModifiers")
    triggers = spec.mappings("triggers")
    for index, trigger in enumerate(triggers):
        kind = trigger.text("type")
        trigger.ignore("name", "authenticationRef", "useCachedMetrics")
        try:
            if kind in {"cpu", "memory"}:
                resources.append(_resource(kind, trigger))
            elif formula:
                trigger.ignore("metadata", "metricType")
            elif kind == "cron":
                crons.append(_cron(trigger, index, context))
            else:
                has_external = True
                external.append(_external(document, trigger, index, kind, hpa))
        except Unconvertible as refusal:
            lost = True
            trigger.ignore("metadata", "metricType")
            trigger.remark("", f"{kind}: {refusal.found}", refusal.meaning)
    if formula:
        has_external = True
        external.append(_composite(advanced, hpa))
    advanced.ignore("scalingModifiers")
    if external:
        spec.remark(
            "triggers",
            f"{', '.join(item['external']['metric']['name'] for item in external)}: KEDA serves this",
            f"and only while a ScaledObject {document.mapping('metadata').text('name')} with these triggers exists: "
            "keep one on a target of no other use, or name the metric of another adapter here",
        )
    return _Triggers(tuple(crons), tuple(resources), tuple(external), lost, has_external)


def _cron(trigger: FieldReader, index: int, context: ConversionContext) -> Json:
    metadata = trigger.mapping("metadata")
    target_type = trigger.text("metricType") or "AverageValue"
    if target_type != "AverageValue":
        raise trigger.unconvertible(
            "metricType", f'found "{target_type}"', "desiredReplicas is a count of pods with AverageValue only"
        )
    replicas = metadata.integer("desiredReplicas")
    if replicas is None:
        raise metadata.unconvertible(
            "desiredReplicas", "there is no desiredReplicas", "say how many replicas the window needs"
        )
    zone = metadata.text("timezone")
    if not zone:
        raise metadata.unconvertible(
            "timezone", "there is no timezone", "KEDA refuses it too: name one, such as Europe/Berlin"
        )
    start, end = metadata.text("start"), metadata.text("end")
    fields = edges.window(metadata, (start, end), zone, "KEDA", context)
    name = trigger.text("name") or f"cron-{index}"
    return {"name": name} | fields | {"minReplicas": replicas}


def _resource(kind: str, trigger: FieldReader) -> Json:
    metadata = trigger.mapping("metadata")
    target_type = trigger.text("metricType") or metadata.text("type")
    value = metadata.text("value")
    if target_type == "Utilization":
        target: Json = {"type": target_type, "averageUtilization": metadata.integer("value")}
    elif target_type == "AverageValue":
        target = {"type": target_type, "averageValue": value}
    else:
        raise trigger.unconvertible("metricType", f'found "{target_type}"', "KEDA takes Utilization and AverageValue")
    if "containerName" in metadata:
        source: Json = {"name": kind, "container": metadata.text("containerName"), "target": target}
        return {"type": "ContainerResource", "containerResource": source}
    return {"type": "Resource", "resource": {"name": kind, "target": target}}


def _external(document: FieldReader, trigger: FieldReader, index: int, kind: str, hpa: FieldReader | None) -> Json:
    metadata = trigger.mapping("metadata")
    for key in metadata:
        if key.startswith("activation") and metadata.text(key) not in {"", "0"}:
            metadata.remark(key, f"found {metadata.text(key)}", "here any value above 0 wakes the target")
    metadata.ignore(*metadata)
    stated = _from_hpa(hpa, f"s{index}-")
    if stated is not None:
        trigger.ignore("metricType")
        return stated
    key, default = _THRESHOLDS.get(kind, ("", None))
    value = (metadata.text(key) if key else "") or default
    name = _served_name(document, metadata, index, kind)
    if value is None or name is None:
        raise trigger.unconvertible(
            "type",
            "how KEDA names this metric, or what it aims at, is not stated here",
            "convert it together with KEDA's own HPA: kubectl get scaledobject,hpa -o yaml",
        )
    target_type = trigger.text("metricType") or "AverageValue"
    if target_type not in {"AverageValue", "Value"}:
        raise trigger.unconvertible("metricType", f'found "{target_type}"', "KEDA takes AverageValue and Value")
    target = {"type": target_type, "value" if target_type == "Value" else "averageValue": value}
    selector = {"matchLabels": {_LABEL: document.mapping("metadata").text("name")[:_NAME_MAX]}}
    return {"type": "External", "external": {"metric": {"name": name, "selector": selector}, "target": target}}


def _served_name(document: FieldReader, metadata: FieldReader, index: int, kind: str) -> str | None:
    """The metric's name: from the status, else the fixed name that KEDA gives to a trigger of this kind."""
    names = [str(name) for name in document.mapping("status").items("externalMetricNames")]
    found = next((name for name in names if name.startswith(f"s{index}-")), None)
    # Older versions of KEDA derived the name from metricName, or from other fields for other triggers.
    is_plain = kind == "prometheus" and "metricName" not in metadata
    return found or (f"s{index}-prometheus" if is_plain else None)


def _own_hpa(document: FieldReader, context: ConversionContext) -> FieldReader | None:
    """The HPA that KEDA made of this object, if it is in the input."""
    metadata = document.mapping("metadata")
    advanced = document.mapping("spec").mapping("advanced").mapping("horizontalPodAutoscalerConfig")
    default = f"keda-hpa-{metadata.text('name')}"[:_NAME_MAX]
    name = document.mapping("status").text("hpaName") or advanced.text("name") or default
    return context.hpas.get((metadata.text("namespace"), name))


def _from_hpa(hpa: FieldReader | None, prefix: str) -> Json | None:
    """The external metric of KEDA's HPA whose name has this prefix."""
    for metric in [] if hpa is None else hpa.mapping("spec").mappings("metrics"):
        if metric.mapping("external").mapping("metric").text("name").startswith(prefix):
            return dict(metric.body)
    return None


def _composite(advanced: FieldReader, hpa: FieldReader | None) -> Json:
    found = _from_hpa(hpa, "composite-metric")
    if found is None:
        raise advanced.unconvertible(
            "scalingModifiers.formula",
            "the formula makes one metric of the triggers",
            "only KEDA computes it: convert it together with KEDA's own HPA: kubectl get scaledobject,hpa -o yaml",
        )
    return found

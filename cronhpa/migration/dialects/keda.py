"""
KEDA ScaledObject (keda.sh/v1alpha1), as of KEDA 2.20.

KEDA turns triggers into the metrics of a HorizontalPodAutoscaler, owns the step between 0 and 1 itself, and serves all
triggers but cpu and memory as external metrics named s<index>-... A cron trigger is such a metric: it asks for its
desiredReplicas while it is active, and so is a floor, limited by maxReplicaCount. This file has the counts, the times
and the pauses; keda_triggers has the triggers.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.migration.dialects.keda_triggers import Triggers, read_triggers
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.manifest import ALWAYS, cron_hpa, has_load, metadata_of, unique_names

_MIN, _MAX, _COOLDOWN = 0, 100, 300
_POLLING = 30
_WAIT_MAX = 86_400


class _Counts(Struct, frozen=True):
    lowest: int
    """The lower bound while a trigger is active, at least 1."""
    highest: int
    sleeps: bool
    """Whether KEDA goes to 0 while none is."""
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
    may_sleep = (spec.integer("minReplicaCount") or _MIN) == 0 or spec.integer("idleReplicaCount") == 0
    triggers = read_triggers(document, spec, advanced, context, may_sleep=may_sleep)
    counts = _counts(spec, marks, triggers)
    metrics = [*triggers.resources, *triggers.external]
    if not metrics and any(trigger.text("type") != "cron" for trigger in spec.mappings("triggers")):
        raise spec.unconvertible(
            "triggers", "no trigger of a load can be converted", "windows alone would follow no load"
        )
    out = _bounds(spec, counts, triggers) | {
        "scaleTargetRef": _target(spec),
        "metrics": metrics or None,
        "behavior": config.raw("behavior") and dict(config.mapping("behavior").body),
        "forecast": {} if triggers.predicts and has_load(metrics) else None,
        "fallback": _fallback(spec, counts, triggers),
    }
    _say_of_times(spec, counts)
    _pauses(document, marks, out, triggers)
    return cron_hpa(metadata, out)


# --- bounds ------------------------------------------------------------------------------------------------------


def _counts(spec: FieldReader, marks: Mapping[str, str], triggers: Triggers) -> _Counts:
    lowest, highest, idle = (spec.integer(key) for key in ("minReplicaCount", "maxReplicaCount", "idleReplicaCount"))
    lowest = _MIN if lowest is None else lowest
    # For KEDA cpu and memory are no activity, and it refuses 0 if there is no other trigger.
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


def _bounds(spec: FieldReader, counts: _Counts, triggers: Triggers) -> Json:
    """The bounds of the spec and of the windows, with 0 replicas wherever KEDA would have 0, as far as possible."""
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
        always = {"name": "idle"} | ALWAYS | {"replicas": 0, "priority": -1}
        schedules = [always, *(schedule | {"maxReplicas": counts.highest} for schedule in schedules)]
    elif counts.sleeps:
        out["minReplicas"] = 0
    if schedules:
        out["schedules"] = unique_names(schedules)
    return out


def _window(fields: Json, counts: _Counts) -> Json:
    """
    A window within KEDA's bounds: the minReplicas of a window replaces the spec's, but KEDA limits desiredReplicas.
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
            "metrics are read each reconciliation: syncPeriodSeconds, 15 unless set",
        )
    for key in ("cooldownPeriod", "initialCooldownPeriod"):
        seconds = spec.integer(key)
        if seconds is not None and counts.sleeps and (key, seconds) != ("cooldownPeriod", _COOLDOWN):
            spec.remark(
                key,
                f"found {seconds}",
                "the step to 0 waits as every step down: behavior.scaleDown.stabilizationWindowSeconds, 300 unless set",
            )


def _fallback(spec: FieldReader, counts: _Counts, triggers: Triggers) -> Json | None:
    """
    KEDA's fallback as a floor: after failureThreshold polls of a trigger KEDA sets the count, also to a lower one.

    Of its behaviors currentReplicas is what happens here without a fallback, and currentReplicasIfHigher is the floor.
    """
    if "fallback" not in spec:
        return None
    fallback = spec.mapping("fallback")
    replicas, threshold = fallback.integer("replicas") or 0, fallback.integer("failureThreshold") or 0
    behavior = fallback.text("behavior", "static")
    if not triggers.external:
        spec.remark("fallback", "found a count for when a trigger fails", "left out: no converted trigger has one")
        return None
    if behavior == "currentReplicas":
        return None
    if behavior not in {"static", "currentReplicasIfHigher"} or replicas < 1:
        found = f"found {behavior} of {replicas}"
        spec.remark("fallback", found, "left out: here a metric that is unknown never lowers the replicas")
        return None
    if behavior == "static":
        spec.remark(
            "fallback",
            f"found {replicas}: KEDA also scales down to it",
            "here it is a floor: more replicas stay while a metric is unknown",
        )
    wait = threshold * (spec.integer("pollingInterval") or _POLLING)
    return {"replicas": min(replicas, counts.highest), "afterSeconds": min(max(wait, 0), _WAIT_MAX)}


# --- pauses ------------------------------------------------------------------------------------------------------


def _pauses(document: FieldReader, marks: Mapping[str, str], out: Json, triggers: Triggers) -> None:
    prefix = "autoscaling.keda.sh/"
    for key, direction in (
        ("paused-scale-in", "scaleDown"),
        ("paused-scale-down", "scaleDown"),
        ("paused-scale-out", "scaleUp"),
    ):
        if _is_true(marks.get(prefix + key)):
            behavior = FieldReader(out.get("behavior") or {}, document.path, [])
            changed = dict(behavior.mapping(direction).body) | {"selectPolicy": "Disabled"}
            out["behavior"] = dict(behavior.body) | {direction: changed}
            if direction == "scaleUp" and triggers.crons:
                document.remark(
                    f"metadata.annotations[{prefix}{key}]",
                    "found true",
                    "selectPolicy Disabled stops the metrics; a window still raises the replicas: suspend it",
                )
    paused_replicas = marks.get(prefix + "paused-replicas")
    if paused_replicas is not None or _is_true(marks.get(prefix + "paused")):
        out["mode"] = "Preview"
    if paused_replicas is not None:
        document.remark(
            f"metadata.annotations[{prefix}paused-replicas]",
            f"found {paused_replicas}",
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

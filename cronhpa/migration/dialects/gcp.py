"""
Scaling schedules of Google Cloud's managed instance groups, from the JSON of `gcloud compute instance-groups managed
describe` and of autoscalers: a minimum from each time of a cron text, for a duration. The largest one counts, within
the bounds of the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cronhpa.core.schedules import cron
from cronhpa.migration.documents import cloud
from cronhpa.migration.documents.clock_changes import remark_clock_changes
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.manifest import cron_hpa, unique_names, zone_problem

GROUP, KIND = "gcp", "Autoscaler"
_WITH_YEAR = 6
# The second one is the former name.
_ONLY_UP = ("ONLY_SCALE_OUT", "ONLY_UP")
_OTHER_LOADS = ("customMetricUtilizations", "loadBalancingUtilization")
_PREDICTIVE = "OPTIMIZE_AVAILABILITY"


def objects_of(body: Mapping[str, Any]) -> Iterator[Json] | None:
    """The object of an autoscaler or of a group with one; None for another document."""
    inner = body.get("autoscaler")
    autoscaler = inner if isinstance(inner, Mapping) else body
    policy = autoscaler.get("autoscalingPolicy")
    if not isinstance(policy, Mapping):
        return None
    name = str(body.get("name") or autoscaler.get("name"))
    metadata = {"name": cloud.object_name(name)}
    return iter([{"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": metadata, "policy": policy}])


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind")
    policy = document.mapping("policy")
    target = cloud.target(document, "a group of machines")
    lowest, highest = policy.integer("minNumReplicas"), policy.integer("maxNumReplicas")
    if highest is None:
        raise policy.unconvertible("maxNumReplicas", "there is none", "Google Cloud refuses it too")
    cpu = policy.mapping("cpuUtilization")
    metrics = _metrics(cpu)
    mode = _mode(policy)
    for key in ("coolDownPeriodSec", "scaleInControl", *_OTHER_LOADS):
        if policy.raw(key):
            if metrics is None and key in _OTHER_LOADS:
                raise policy.unconvertible(key, "there is no counterpart", "windows alone would follow no load")
            policy.remark(key, "found a setting", "there is no counterpart: see behavior and metrics")
    schedules = policy.mapping("scalingSchedules")
    bounds = 1 if lowest is None else lowest, highest
    if bounds[0] == 0 and metrics and not schedules.body:
        policy.remark("minNumReplicas", "found 0", "took 1: by CPU alone nothing would wake the target from 0")
        bounds = 1, highest
    windows = [_window(name, schedules.mapping(str(name)), bounds, context) for name in schedules]
    readable = [window for window in windows if window is not None]
    return cron_hpa(
        {"name": document.mapping("metadata").text("name")},
        {
            "mode": "Preview" if mode == "OFF" else None,
            "scaleTargetRef": target,
            "minReplicas": bounds[0],
            "maxReplicas": highest,
            "metrics": metrics,
            "behavior": {"scaleDown": {"selectPolicy": "Disabled"}} if mode in _ONLY_UP else None,
            "schedules": unique_names(readable) or None,
            "forecast": _forecast(cpu, metrics),
        },
    )


def _mode(policy: FieldReader) -> str:
    mode = policy.raw("mode")
    if isinstance(mode, bool):  # YAML's reading of ON and OFF without quotes
        mode = "ON" if mode else "OFF"
    mode = "ON" if mode is None else str(mode)
    if mode == "OFF":
        policy.remark("mode", "found OFF", "took Preview, which scales nothing either")
    elif mode != "ON" and mode not in _ONLY_UP:
        policy.remark("mode", f"found {mode}", "left out: mode of a CronHPA is Active or Preview")
    return mode


def _metrics(cpu: FieldReader) -> list[Json] | None:
    share = cpu.raw("utilizationTarget")
    if not isinstance(share, int | float):
        return None
    if not 0 < share <= 1:
        cpu.remark("utilizationTarget", f"found {share}", "left out: Google Cloud takes more than 0, up to 1")
        return None
    percent = round(share * 100)
    cpu.remark("utilizationTarget", f"found {share}, of a machine", f"took {percent} %, of what the pods request")
    target = {"type": "Utilization", "averageUtilization": percent}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _forecast(cpu: FieldReader, metrics: list[Json] | None) -> Json | None:
    if cpu.text("predictiveMethod") != _PREDICTIVE or metrics is None:
        return None
    cpu.remark("predictiveMethod", f"found {_PREDICTIVE}", "forecast has methods of its own: after two days of load")
    return {}


def _window(name: str, schedule: FieldReader, bounds: tuple[int, int], context: ConversionContext) -> Json | None:
    schedule.ignore("description")
    zone = schedule.text("timeZone") or "UTC"
    problem = zone_problem(zone)
    fields = schedule.text("schedule").split()
    if not problem and len(fields) == _WITH_YEAR and fields[5] != "*":
        problem = f"found the year {fields[5]}"
    text = " ".join(fields[:5])
    problem = problem or cron.problem(text)
    seconds, replicas = schedule.integer("durationSec"), schedule.integer("minRequiredReplicas")
    if problem or not seconds or replicas is None:
        schedule.remark(
            "schedule", problem or "durationSec or minRequiredReplicas is missing", "left out: write it by hand"
        )
        return None
    if seconds % 60:
        schedule.remark("durationSec", f"found {seconds}", "a window is whole minutes: rounded up")
    remark_clock_changes(schedule, "schedule", [text], zone, context.wall(zone))
    suspended = {"suspend": True} if schedule.raw("disabled") else {}
    times = {"start": text, "durationMinutes": -(-seconds // 60), "timeZone": zone}
    floor = min(max(replicas, bounds[0]), bounds[1])
    return {"name": cloud.object_name(str(name))} | times | {"minReplicas": floor} | suspended

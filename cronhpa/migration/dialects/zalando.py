"""
ScalingSchedule and ClusterScalingSchedule of zalando-incubator/kube-metrics-adapter (zalando.org/v1).

A schedule is a metric: its value while an entry is active, else 0. Each HPA names it as an Object metric with an
averageValue, so value / averageValue is a count of pods. The adapter reads only the entries of today's weekday, so an
entry ends at midnight (pkg/collector/scaling_schedule_collector.go). Before and after each entry the value ramps for
scalingWindowDurationMinutes, 10 by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cronhpa.core.model.instant import to_datetime
from cronhpa.core.model.quantity import parse_milli
from cronhpa.migration.documents.clock_changes import remark_clock_changes
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.day_windows import DAY_MINUTES, on_weekdays
from cronhpa.migration.documents.document import FieldReader, Json, Unconvertible
from cronhpa.migration.documents.manifest import largest_first, unique_names, zone_problem

GROUP = "zalando.org"
KINDS = ("ScalingSchedule", "ClusterScalingSchedule")
_DEFAULT_ZONE = "Europe/Berlin"
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def with_schedules(manifest: Json, document: FieldReader, context: ConversionContext) -> Json:
    """The CronHPA of an HPA, with windows instead of the metrics that are ScalingSchedules."""
    spec = manifest["spec"]
    remaining: list[Json] = []
    schedules: list[Json] = []
    for index, metric in enumerate(spec["metrics"]):
        named = _named(metric)
        if named is None:
            remaining.append(metric)
            continue
        schedule = _find(named, document, context)
        if schedule is None:
            raise document.unconvertible(
                f"spec.metrics[{index}]",
                f"found {named[0]} {named[1]}, which is not in the input",
                "convert both together",
            )
        schedules += _windows(schedule, metric["object"].get("target") or {}, spec, context)
    if len(remaining) == len(spec["metrics"]):
        return manifest
    changed = spec | {"metrics": remaining, "schedules": unique_names(largest_first(schedules))}
    if not remaining:
        del changed["metrics"]
    return manifest | {"spec": {key: value for key, value in changed.items() if value != []}}


def schedule_alone(document: FieldReader, context: ConversionContext) -> list[Json]:
    """No manifest if an HPA of the input names the schedule: its conversion has the schedule."""
    kind = document.text("kind")
    metadata = document.mapping("metadata")
    name = metadata.text("name")
    for key, hpa in context.hpas.items():
        metrics = hpa.mapping("spec").raw("metrics")
        named = {_named(metric) for metric in metrics} if isinstance(metrics, list) else set()
        if (kind, name) in named and (kind != KINDS[0] or key[0] == metadata.text("namespace")):
            document.ignore("apiVersion", "metadata", "status")
            return []
    raise document.unconvertible(
        "metadata.name", f"no HorizontalPodAutoscaler of the input names {name}", "convert it with the HPAs that do"
    )


def _named(metric: Any) -> tuple[str, str] | None:
    """Kind and name of the schedule that a metric of autoscaling/v2 describes; None for any other metric."""
    described = metric
    for key in ("object", "describedObject"):
        described = described.get(key) if isinstance(described, Mapping) else None
    if not isinstance(described, Mapping) or described.get("kind") not in KINDS:
        return None
    return described["kind"], str(described.get("name"))


def _find(named: tuple[str, str], document: FieldReader, context: ConversionContext) -> FieldReader | None:
    namespace = document.mapping("metadata").text("namespace")
    for candidate in context.objects.get((GROUP, named[0]), ()):
        metadata = candidate.mapping("metadata")
        if metadata.text("name") == named[1] and (named[0] != KINDS[0] or metadata.text("namespace") == namespace):
            return candidate
    return None


def _windows(scaling_schedule: FieldReader, target: Json, bounds: Json, context: ConversionContext) -> list[Json]:
    spec = scaling_schedule.mapping("spec")
    ramp = spec.integer("scalingWindowDurationMinutes")
    if ramp != 0:
        spec.remark(
            "scalingWindowDurationMinutes",
            f"found {10 if ramp is None else ramp}: a ramp before each start and after each end",
            "the operator asks ahead of a start, for as long as pods take; no ramp follows the end",
        )
    try:
        value_per_pod = parse_milli(str(target["averageValue"]))
    except (KeyError, TypeError, ValueError):
        value_per_pod = 0
    if value_per_pod <= 0:
        raise scaling_schedule.unconvertible(
            "spec", "the HPA's target is no averageValue", "value / averageValue is a count of pods"
        )
    out = []
    for index, entry in enumerate(spec.mappings("schedules")):
        times = _times(entry, context)
        pods = -(-(entry.integer("value") or 0) * 1000 // value_per_pod)
        if times is not None:
            name = f"{scaling_schedule.mapping('metadata').text('name')}-{index}"
            # The HPA keeps its bounds, and the minReplicas of a window replaces the spec's.
            floor = min(max(pods, bounds["minReplicas"]), bounds["maxReplicas"])
            out.append({"name": name} | times | {"minReplicas": floor})
    return out


def _times(entry: FieldReader, context: ConversionContext) -> Json | None:
    kind, minutes = entry.text("type"), entry.integer("durationMinutes") or 0
    if kind == "OneTime":
        start = _instant(entry, "date")
        end = max(start + timedelta(minutes=minutes), _instant(entry, "endDate") if "endDate" in entry else start)
        entry.ignore("period")
        if end <= to_datetime(context.now):
            entry.remark("date", f"found {start:%Y-%m-%dT%H:%MZ}", "left out: it is past")
            return None
        if end <= start:
            entry.remark("endDate", "it is not after date", "left out: the source is never active")
            return None
        end = (end + timedelta(seconds=59)).replace(second=0)
        return {"from": f"{start:%Y-%m-%dT%H:%M}", "to": f"{end:%Y-%m-%dT%H:%M}", "timeZone": "UTC"}
    if kind != "Repeating":
        raise entry.unconvertible("type", f'found "{kind}"', "Repeating and OneTime are read")
    return _repeating(entry, minutes, context)


def _repeating(entry: FieldReader, minutes: int, context: ConversionContext) -> Json | None:
    period = entry.mapping("period")
    zone = period.text("timezone")
    if not zone or zone_problem(zone):
        period.remark(
            "timezone", f'found "{zone}"', f"took {_DEFAULT_ZONE}, as the source does unless it is told otherwise"
        )
        zone = _DEFAULT_ZONE
    days = [_DAYS.index(day) for day in map(str, period.items("days")) if day in _DAYS]
    start = _clock(period, "startTime")
    end = max(start + minutes, _clock(period, "endTime") if "endTime" in period else start)
    if end <= start or not days:
        period.remark("endTime", "it is not after startTime", "left out: the source is never active")
        return None
    if end > DAY_MINUTES:
        period.remark(
            "startTime",
            "the entry goes past midnight",
            "the source ends it at midnight, as it looks at today's entries alone, and so does this window",
        )
    texts = on_weekdays(start, min(end, DAY_MINUTES), days)
    remark_clock_changes(period, "startTime", texts.values(), zone, context.wall(zone))
    return texts | {"timeZone": zone}


def _clock(period: FieldReader, key: str) -> int:
    """Minutes after midnight."""
    hour, _, minute = period.text(key).partition(":")
    try:
        return int(hour) * 60 + int(minute)
    except ValueError:
        raise period.unconvertible(key, f'found "{period.text(key)}"', "a time such as 19:15 belongs here") from None


def _instant(entry: FieldReader, key: str) -> datetime:
    value = entry.raw(key)
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise entry.unconvertible(key, f"found {value!r}", "a date such as 2026-11-27T00:00:00Z belongs here") from None
    if at.tzinfo is None:
        raise Unconvertible(entry.path, f"found {key} without an offset", "write it as 2026-11-27T00:00:00Z")
    return at.astimezone(UTC)

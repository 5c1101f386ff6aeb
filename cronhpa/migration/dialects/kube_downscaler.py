"""
Annotations of kube-downscaler, py-kube-downscaler and GoKubeDownscaler on Deployments, StatefulSets and their
namespaces.

A workload is up within downscaler/uptime (default: always) and outside of downscaler/downtime (default: never). While
it is down it has downscaler/downtime-replicas, downscale-replicas in Go (default: 0). A recurring time lies within one
day, its end excluded. One that ends before it begins is never in Python; in Go it is the begin and the end of each of
its days (isTimeOfDayInRange in internal/pkg/values/timespan.go of caas-team/GoKubeDownscaler, of August 2026).

From caas-team/py-kube-downscaler, kube_downscaler/scaler.py, autoscale_resource and ignore_resource, of April 2026:
- downscaler/exclude of a workload or its namespace excludes the workload with any value but false;
- force-uptime and force-downtime count on namespaces alone;
- with an upscale-period or a downscale-period, uptime and downtime are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from cronhpa.core.model.instant import to_datetime
from cronhpa.migration.documents.clock_changes import remark_clock_changes
from cronhpa.migration.documents.context import ConversionContext, ObjectKey
from cronhpa.migration.documents.day_windows import DAY_MINUTES, on_weekdays
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.manifest import ALWAYS, zone_problem
from cronhpa.migration.documents.workload import cron_hpa_of, hpas_of

PREFIX = "downscaler/"
_RECURRING = re.compile(r"([a-zA-Z]{3})-([a-zA-Z]{3}) (\d\d):(\d\d)-(\d\d):(\d\d)(?: ([a-zA-Z0-9/_+-]+))?")
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[-+]\d\d:\d\d|Z)"
_ABSOLUTE = re.compile(rf"({_ISO})\s*-\s*({_ISO})")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_UP, _DOWN, _ALWAYS_DOWN = 1, 2, 0
_REPLICAS = ("downtime-replicas", "downscale-replicas")
_READ = {"uptime", "downtime", *_REPLICAS, "exclude", "exclude-until", "original-replicas", "force-uptime"}

_OTHER_TIMES = {"upscale-period", "downscale-period", "force-downtime", "force-uptime"}
_NO_TIMES = {"never", "false"}
_FORCED = {f"{PREFIX}force-uptime", f"{PREFIX}force-downtime"}
_EXCLUDE = f"{PREFIX}exclude"
_NO_COUNTERPART = "there is no counterpart: left out"


def to_cron_hpas(workload: FieldReader, context: ConversionContext) -> list[Json]:
    """The CronHPA of a workload with times in its annotations; no manifest for any other workload."""
    marks = _marks(workload, context)
    for name in sorted(_FORCED & set(workload.mapping("metadata").texts("annotations"))):
        workload.remark(
            f"metadata.annotations[{name}]", "found on a workload", "kube-downscaler reads it of namespaces: left out"
        )
    if _is_left_alone(marks):
        workload.ignore(*workload)
        return []
    if not _is_scheduled(marks):
        for key in _other_times(marks):
            workload.remark(
                f"metadata.annotations[{PREFIX}{key}]",
                f"found {marks[key]}",
                "no CronHPA is made of it: only uptime and downtime are read; write it as one of these",
            )
        workload.ignore(*workload)
        return []
    at = f"metadata.annotations[{PREFIX}{{}}]"
    for key in sorted(set(marks) - _READ):
        workload.remark(at.format(key), f"found {marks[key]}", _NO_COUNTERPART)
    if "exclude-until" in marks:
        workload.remark(
            at.format("exclude-until"), f"found {marks['exclude-until']}", "left out: suspend the schedules until then"
        )
    key = next((key for key in _REPLICAS if key in marks), _REPLICAS[0])
    asleep = _count(workload, marks.get(key, "0"), at.format(key))
    schedules: list[Json] = []
    if "uptime" in marks and marks["uptime"].lower() != "always":
        schedules.append({"name": "asleep"} | ALWAYS | {"replicas": asleep, "priority": _ALWAYS_DOWN})
        schedules += [
            {"name": "uptime"} | times | {"priority": _UP}
            for times in _times(workload, marks["uptime"], at.format("uptime"), context)
        ]
    schedules += [
        {"name": "downtime"} | times | {"replicas": asleep, "priority": _DOWN}
        for times in _times(workload, marks.get("downtime", "never"), at.format("downtime"), context)
    ]
    original = marks.get("original-replicas")
    count = workload.mapping("spec").integer("replicas")
    awake = (
        (1 if count is None else count)
        if original is None
        else _count(workload, original, at.format("original-replicas"))
    )
    manifest = cron_hpa_of(workload, schedules, awake, context)
    workload.ignore(*workload)
    return [manifest]


def absorbs(workload: FieldReader, context: ConversionContext) -> Iterable[ObjectKey]:
    return [key for key, _ in hpas_of(workload, context)] if _is_scheduled(_marks(workload, context)) else []


def _is_left_alone(marks: Mapping[str, str]) -> bool:
    return marks.get("exclude", "false").lower() != "false" or marks.get("force-uptime", "").lower() == "true"


def _other_times(marks: Mapping[str, str]) -> list[str]:
    """The annotations with times that replace uptime and downtime."""
    return sorted(key for key in _OTHER_TIMES & set(marks) if marks[key].lower() not in _NO_TIMES)


def _is_scheduled(marks: Mapping[str, str]) -> bool:
    return bool({"uptime", "downtime"} & set(marks)) and not _is_left_alone(marks) and not _other_times(marks)


def _marks(workload: FieldReader, context: ConversionContext) -> dict[str, str]:
    """
    The annotations of the workload over those of its namespace, without their prefix.

    Either of them can exclude, and only a namespace can force; no annotation of a workload revokes these.
    """
    metadata = workload.mapping("metadata")
    of_namespace: dict[str, str] = {}
    for namespace in context.objects.get(("", "Namespace"), ()):
        if namespace.mapping("metadata").text("name") == metadata.text("namespace"):
            of_namespace = namespace.mapping("metadata").texts("annotations")
    own = {name: text for name, text in metadata.texts("annotations").items() if name not in _FORCED}
    if own.get(_EXCLUDE, "false").lower() == "false":
        own.pop(_EXCLUDE, None)
    return {name.removeprefix(PREFIX): text for name, text in (of_namespace | own).items() if name.startswith(PREFIX)}


def _count(workload: FieldReader, text: str, key: str) -> int:
    if not text.isdecimal():
        raise workload.unconvertible(key, f'found "{text}"', "a whole number is read")
    return int(text)


def _times(workload: FieldReader, spec: str, key: str, context: ConversionContext) -> list[Json]:
    """The windows of a comma-separated list of times."""
    if spec.lower() == "never":
        return []
    if spec.lower() == "always":
        return [ALWAYS]
    return [window for text in spec.split(",") for window in _time(workload, text.strip(), key, context)]


def _time(workload: FieldReader, text: str, key: str, context: ConversionContext) -> list[Json]:
    absolute = _ABSOLUTE.fullmatch(text)
    if absolute:
        begin, end = (datetime.fromisoformat(part).astimezone(UTC) for part in absolute.groups())
        if end <= to_datetime(context.now):
            workload.remark(key, f"found {text}", "left out: it is past")
            return []
        # A window is whole minutes, and one within a minute would have none.
        end = (end + timedelta(seconds=59)).replace(second=0)
        return [{"from": f"{begin:%Y-%m-%dT%H:%M}", "to": f"{end:%Y-%m-%dT%H:%M}", "timeZone": "UTC"}]
    match = _RECURRING.fullmatch(text)
    days = [match[1].lower(), match[2].lower()] if match else []
    if match is None or any(day not in _DAYS for day in days):
        raise workload.unconvertible(
            key, f'found "{text}"', 'times such as "Mon-Fri 07:30-20:30 Europe/Berlin" are read'
        )
    zone = match[7] or context.zone or "UTC"
    if not match[7] and context.zone is None:
        workload.remark(key, f'"{text}" names no zone', "took UTC; the source takes its variable TZ: see --time-zone")
    problem = zone_problem(zone)
    if problem:
        raise workload.unconvertible(key, problem, "name the zone that is meant")
    first, last = (_DAYS.index(day) for day in days)
    on = [(first + number) % 7 for number in range((last - first) % 7 + 1)]
    start, end_minute = int(match[3]) * 60 + int(match[4]), int(match[5]) * 60 + int(match[6])
    if end_minute == start:
        workload.remark(key, f'"{text}" ends when it begins', "left out: the source is never within it")
        return []
    spans = [(start, end_minute)]
    if end_minute < start:
        workload.remark(
            key,
            f'"{text}" ends before it begins',
            f"on each of its days until {match[5]}:{match[6]} and from {match[3]}:{match[4]} on, as GoKubeDownscaler "
            "reads it; kube-downscaler in Python is never within it",
        )
        spans = [(0, end_minute), (start, DAY_MINUTES)] if end_minute else [(start, DAY_MINUTES)]
    windows = [on_weekdays(*span, on) for span in spans]
    texts = {text for window in windows for text in window.values()}
    remark_clock_changes(workload, key, sorted(texts), zone, context.wall(zone))
    return [window | {"timeZone": zone} for window in windows]

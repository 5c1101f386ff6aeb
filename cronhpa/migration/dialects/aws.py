"""
Scheduled actions of AWS, from the JSON of `aws application-autoscaling describe-scheduled-actions` and
`aws autoscaling describe-scheduled-actions`.

An action sets the minimum, the maximum, or both, at one instant; each of them holds until another action sets it. So
minima and maxima are converted apart, as the jobs of two schedulers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from cronhpa.core.schedules import cron
from cronhpa.migration.documents import cloud, job_windows, jobs
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.job_windows import DaysOff, Job
from cronhpa.migration.documents.manifest import cron_hpa, unique_names, zone_problem

GROUP, KIND = "aws", "ScheduledActions"
_LISTS = {"ScheduledActions": "ResourceId", "ScheduledUpdateGroupActions": "AutoScalingGroupName"}
_CALL = re.compile(r"(cron|at|rate)\((.*)\)")
_SECONDS = re.compile(r"[0-9]{9,11}(\.[0-9]+)?", re.ASCII)
_CRON_FIELDS = 6
# A day of the week, and neither the second of `6#2` nor the step of `2/2`.
_NUMBER = re.compile(r"(?<![#/0-9])[1-7](?![0-9])")
_TIMES_OF_THE_LIST = ("CreationTime", "Time", "ScheduledActionARN", "ServiceNamespace", "ScalableDimension")


def objects_of(body: Mapping[str, Any]) -> Iterator[Json] | None:
    """An object for each scaled resource of an answer of AWS; None for another document."""
    for key, resource in _LISTS.items():
        if isinstance(body.get(key), list):
            return _objects([action for action in body[key] if isinstance(action, Mapping)], resource)
    return None


def _objects(actions: list[Mapping[str, Any]], resource: str) -> Iterator[Json]:
    for name in dict.fromkeys(str(action.get(resource)) for action in actions):
        own = [action for action in actions if str(action.get(resource)) == name]
        metadata = {"name": cloud.object_name(name.rpartition("/")[2])}
        yield {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": metadata, "resource": name, "actions": own}


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind")
    target = cloud.target(document, document.text("resource"))
    actions = document.mappings("actions")
    zone = _zone(document, actions)
    wall = context.wall(zone)
    minima: list[Job] = []
    maxima: list[Job] = []
    for action in actions:
        job = _job(action, zone, wall)
        if job is None:
            continue
        lowest, highest = _bounds(action)
        minima += [] if lowest is None else [_sized(job, lowest)]
        maxima += [] if highest is None else [_sized(job, highest)]
    schedules = [
        *_windows(document, minima, "minReplicas", zone, wall),
        *_windows(document, maxima, "maxReplicas", zone, wall),
    ]
    sizes = [job.size for job in (*minima, *maxima)]
    if not sizes:
        raise document.unconvertible("actions", "no action is left", "there is nothing to convert")
    document.remark(
        "actions",
        "the bounds outside of the actions and the scaling policies are not in this JSON",
        f"took {min(sizes)} to {max(sizes)}: check minReplicas and maxReplicas, and add the metrics",
    )
    metadata: Json = {"name": document.mapping("metadata").text("name")}
    return cron_hpa(
        metadata,
        {
            "scaleTargetRef": target,
            "minReplicas": min(sizes),
            "maxReplicas": max(*sizes, 1),
            "timeZone": zone,
            "schedules": unique_names(schedules) or None,
        },
    )


def _windows(document: FieldReader, own: list[Job], bound: str, zone: str, wall: datetime) -> list[Json]:
    if len({job.size for job in own}) <= 1 and all(job.once is None for job in own):
        return []  # every job sets the same number: it is the bound of the spec
    windows = jobs.windows_of(document, "actions", own, zone, wall, DaysOff())
    return [{"name": f"{job.name}-{bound[:3]}"} | fields | {bound: job.size} for job, fields in windows]


def _sized(job: Job, size: int) -> Job:
    return Job(job.name, size, cron=job.cron, once=job.once)


def _bounds(action: FieldReader) -> tuple[int | None, int | None]:
    inner = action.mapping("ScalableTargetAction")
    lowest, highest = inner.integer("MinCapacity"), inner.integer("MaxCapacity")
    lowest = action.integer("MinSize") if lowest is None else lowest
    highest = action.integer("MaxSize") if highest is None else highest
    desired = action.integer("DesiredCapacity")
    if desired is not None:
        if lowest is None:
            lowest = desired
            meaning = (
                "the source sets a count once, which its policies change; here it is a minimum while the window is open"
            )
        else:
            meaning = "left out: the minimum and the metrics decide"
        action.remark("DesiredCapacity", f"found {desired}", meaning)
    return lowest, highest


def _zone(document: FieldReader, actions: list[FieldReader]) -> str:
    zones = {action.text("Timezone") or action.text("TimeZone") or "UTC" for action in actions}
    if len(zones) > 1:
        raise document.unconvertible(
            "actions", f"found the zones {', '.join(sorted(zones))}", f"no clock has all: {jobs.BY_HAND}"
        )
    zone = next(iter(zones), "UTC")
    problem = zone_problem(zone)
    if problem:
        raise document.unconvertible("actions", problem, "name the zone that is meant")
    return zone


def _job(action: FieldReader, zone: str, wall: datetime) -> Job | None:
    """The action as a job without a size; None for one that is past."""
    action.ignore("ResourceId", "AutoScalingGroupName", *_TIMES_OF_THE_LIST)
    name = cloud.object_name(action.text("ScheduledActionName", "action"))[:59]
    end = _instant(action.text("EndTime"), zone)
    if end is not None and end < wall:
        action.remark("EndTime", f"found {action.text('EndTime')}", "left out: it is past")
        action.ignore("Schedule", "Recurrence", "StartTime", "ScalableTargetAction")
        action.ignore("MinSize", "MaxSize", "DesiredCapacity")
        return None
    if "EndTime" in action:
        action.remark("EndTime", f"found {action.text('EndTime')}", "left out: suspend the schedule then")
    call = _CALL.fullmatch(action.text("Schedule"))
    if "Recurrence" in action:
        text = job_windows.five_fields(action.text("Recurrence"))
    elif call is not None and call[1] == "cron":
        text = _of_aws(action, call[2])
    else:
        return _once(action, name, call[2] if call is not None and call[1] == "at" else "", zone, wall)
    problem = cron.problem(text)
    if problem:
        raise action.unconvertible("Schedule", problem, jobs.BY_HAND)
    _remark_later_start(action, text, zone, wall)
    return Job(name, 0, cron=text)


def _remark_later_start(action: FieldReader, text: str, zone: str, wall: datetime) -> None:
    """A remark if StartTime, which usually is the action's next time, lies after it: the action begins later then."""
    if "StartTime" not in action:
        return
    begin = _instant(action.text("StartTime"), zone)
    following = next(cron.forwards(text, wall), None)
    if begin is None or (following is not None and begin > following):
        action.remark("StartTime", f"found {action.text('StartTime')}", "left out: suspend the schedule until then")


def _instant(text: str, zone: str) -> datetime | None:
    """A time of the zone's clock, to the minute; None for a text that is no time."""
    try:
        # Version 1 of the AWS CLI prints seconds.
        at = datetime.fromtimestamp(float(text), UTC) if _SECONDS.fullmatch(text) else datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo is None else at.astimezone(ZoneInfo(zone))).replace(tzinfo=None, second=0, microsecond=0)


def _of_aws(action: FieldReader, text: str) -> str:
    """`cron(minute hour day month weekday year)` as five fields. Weekdays are 1 for Sunday to 7 for Saturday."""
    fields = job_windows.five_fields(text).split()
    if len(fields) != _CRON_FIELDS or fields[5] != "*":
        raise action.unconvertible(
            "Schedule", f'found "{text}"', f"six fields with the year * are read: {jobs.BY_HAND}"
        )
    fields[4] = _NUMBER.sub(lambda match: str(int(match[0]) - 1), fields[4])
    return " ".join(fields[:5])


def _once(action: FieldReader, name: str, text: str, zone: str, wall: datetime) -> Job | None:
    given = text or (action.text("StartTime") if "Schedule" not in action else "")
    at = _instant(given, zone)
    if at is None:
        schedule_text = action.text("Schedule") or given
        raise action.unconvertible("Schedule", f'found "{schedule_text}"', f"cron() and at() are read: {jobs.BY_HAND}")
    if at < wall:
        action.remark("Schedule", f"found {at:%Y-%m-%dT%H:%M}", "left out: it is past")
        return None
    return Job(name, 0, once=at)

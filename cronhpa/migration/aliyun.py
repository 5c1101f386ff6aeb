"""
Aliyun CronHorizontalPodAutoscaler (autoscaling.alibabacloud.com/v1beta1), as of its last commit in 2023.

A job sets a count at one instant; until the next job of the object nothing else is scheduled. So a job becomes a window
from its times to the next time of any job. On a workload the window states replicas. On a HorizontalPodAutoscaler the
job sets minReplicas to its size, and maxReplicas if that is smaller: the window states these, and the rest comes from
that HPA. (A job that finds more replicas than its size does not change minReplicas, so its effect depends on the load
of that second. The window has the effect that is meant.)
"""

from __future__ import annotations

import re
from datetime import datetime

from cronhpa.api.resource.schedules import MAX_SCHEDULES
from cronhpa.core.scheduled import cron
from cronhpa.migration import hpa, job_windows
from cronhpa.migration.context import ConversionContext
from cronhpa.migration.document import FieldReader, Json, Unconvertible
from cronhpa.migration.job_windows import Job, NoWindows
from cronhpa.migration.manifest import cron_hpa, metadata_of, unique_names, zone_problem

DEFAULT_ZONE = "Asia/Shanghai"
"""The controller's TZ, as its chart sets it."""

_DATE = re.compile(r"^@date\s+(\d{4}-\d{2}-\d{2})\s+(\d{2}:\d{2}:\d{2})$")
_GONE = {"extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"}
_DONE = {"Succeed", "Failed"}
_BY_HAND = "write the schedules by hand"


def target_hpa(document: FieldReader) -> tuple[str, str] | None:
    """Namespace and name of the HorizontalPodAutoscaler that the jobs change; None where they scale a workload."""
    ref = document.mapping("spec").mapping("scaleTargetRef")
    if ref.text("kind") != "HorizontalPodAutoscaler":
        return None
    return document.mapping("metadata").text("namespace"), ref.text("name")


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    metadata = metadata_of(document)
    spec = document.mapping("spec")
    zone = _zone(spec, context)
    wall = context.wall(zone)
    jobs = _jobs(document, spec, wall)
    if not jobs:
        raise spec.unconvertible("jobs", "no job is left", "delete the object")
    try:
        windows = job_windows.jobs_to_windows(jobs, wall)
    except NoWindows as reason:
        raise spec.unconvertible("jobs", str(reason), _BY_HAND) from None
    if len(windows) > MAX_SCHEDULES:
        raise spec.unconvertible(
            "jobs", f"they make {len(windows)} windows", f"{MAX_SCHEDULES} are accepted: {_BY_HAND}"
        )
    if all(job.once is not None for job in jobs):
        spec.remark(
            "jobs",
            "no job recurs",
            "before the first and after the last, the smallest size holds, where the source leaves what it finds",
        )
    for index, date in enumerate(spec.items("excludeDates")):
        spec.remark(
            f"excludeDates[{index}]",
            f'found "{date}"',
            "a schedule has no exceptions yet: suspend it on that date, or add a one-off schedule for it",
        )
    if target_hpa(document) is not None:
        return _on_hpa(document, windows, zone, context)
    return _on_workload(metadata, spec, windows, zone)


def _zone(spec: FieldReader, context: ConversionContext) -> str:
    zone = context.zone or DEFAULT_ZONE
    problem = zone_problem(zone)
    if problem:
        raise spec.unconvertible("jobs", problem, "name the zone of the controller with --time-zone")
    if context.zone is None:
        spec.remark(
            "jobs",
            "the zone of the times is the TZ of the controller",
            f"took {zone}, the chart's default: name another with --time-zone",
        )
    return zone


def _on_workload(metadata: Json, spec: FieldReader, windows: list[tuple[Job, Json]], zone: str) -> Json:
    ref = spec.mapping("scaleTargetRef")
    version = ref.text("apiVersion")
    sizes = [job.size for job, _ in windows]
    out = {
        "scaleTargetRef": {
            "apiVersion": "apps/v1" if version in _GONE else version,
            "kind": ref.text("kind"),
            "name": ref.text("name"),
        },
        "minReplicas": min(sizes),
        "maxReplicas": max(*sizes, 1),
        "timeZone": zone,
        "schedules": unique_names([{"name": job.name} | fields | {"replicas": job.size} for job, fields in windows]),
    }
    return cron_hpa(metadata, out)


def _on_hpa(document: FieldReader, windows: list[tuple[Job, Json]], zone: str, context: ConversionContext) -> Json:
    key = target_hpa(document)
    spec = document.mapping("spec")
    spec.mapping("scaleTargetRef").ignore("apiVersion", "kind", "name")
    base = context.hpas.get(key) if key else None
    if key is None or base is None:
        raise spec.unconvertible(
            "scaleTargetRef",
            f"the jobs change HorizontalPodAutoscaler {key and key[1]}, which is not in the input",
            "convert both together: its metrics belong into the same CronHPA",
        )
    out = hpa.spec_of(base)
    schedules: list[Json] = []
    for job, fields in windows:
        raised: Json = {}
        if job.size > out["maxReplicas"]:
            raised = {"maxReplicas": job.size}
            spec.remark(
                f"jobs[{job.name}].targetSize",
                f"found {job.size}, above the HPA's maxReplicas",
                "the source raises maxReplicas for good, here it is raised while the window is open",
            )
        schedules.append({"name": job.name} | fields | {"minReplicas": job.size} | raised)
    spec.remark(
        "scaleTargetRef",
        f"the HPA's bounds are {out['minReplicas']} to {out['maxReplicas']} now",
        "past jobs may have left them so: check minReplicas and maxReplicas, which hold when no window is open",
    )
    return cron_hpa(metadata_of(base), out | {"timeZone": zone, "schedules": unique_names(schedules)})


def _jobs(document: FieldReader, spec: FieldReader, wall: datetime) -> list[Job]:
    conditions = document.mapping("status").mappings("conditions")
    done = {item.text("name") for item in conditions if item.text("state") in _DONE}
    jobs = []
    for job in spec.mappings("jobs"):
        name, schedule, size = job.text("name"), job.text("schedule").strip(), job.integer("targetSize")
        if size is None:
            raise job.unconvertible("targetSize", "there is no targetSize", "say how many replicas it sets")
        runs_once = bool(job.raw("runOnce")) or schedule.startswith("@date")
        if runs_once and name in done:
            job.remark("", f'"{name}" has run', "left out: it will not run again")
            continue
        read = _dated(job, name, size, wall) if schedule.startswith("@date") else _recurring(job, name, size)
        if read is not None and runs_once and read.cron is not None:
            read = Job(name, size, once=job_windows.next_time(read.cron, wall))
        if read is not None:
            jobs.append(read)
    return jobs


def _recurring(job: FieldReader, name: str, size: int) -> Job:
    """The job. Raises Unconvertible: without this job, the ends of the others are not known."""
    schedule = job.text("schedule").strip()
    if schedule.startswith("@"):
        text, seconds = schedule, "0"
    else:
        text, seconds = job_windows.without_seconds(schedule)
    problem = cron.problem(text)
    if problem:
        raise job.unconvertible("schedule", problem, _BY_HAND)
    fields = text.split()
    if not schedule.startswith("@") and fields[2].startswith("*/") and fields[4] != "*":
        raise job.unconvertible(
            "schedule",
            f'found "{schedule}", a step of days beside a weekday',
            f"the source means days that are both, a cron text here either: {_BY_HAND}",
        )
    # `*` and `*/n` begin at second 0, and setting a count again changes nothing.
    if seconds != "0" and not seconds.startswith(("*", "0")):
        job.remark("schedule", f"found second {seconds}", "the window begins at the full minute before it")
    return Job(name, size, cron=text)


def _dated(job: FieldReader, name: str, size: int, wall: datetime) -> Job | None:
    schedule = job.text("schedule").strip()
    match = _DATE.match(schedule)
    try:
        at = datetime.fromisoformat(f"{match[1]}T{match[2]}") if match else None
    except ValueError:
        at = None
    if at is None:
        raise Unconvertible(job.path, f'found "{schedule}"', "a date is written @date 2026-11-27 08:00:00")
    if at < wall:
        job.remark("schedule", f'found "{schedule}"', "left out: it is past")
        return None
    if at.second:
        job.remark("schedule", f"found second {at.second}", "the window begins at the full minute before it")
    return Job(name, size, once=at.replace(second=0))

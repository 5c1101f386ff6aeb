"""
Schedulers whose jobs set a count at one instant, which holds until the next job: Aliyun, tkestack, Huawei CCE.

A job becomes a window from each of its times to the next time of any job. On a workload the window states replicas. On
a HorizontalPodAutoscaler a job sets minReplicas, and raises a smaller maxReplicas: the window states these, and the
rest comes from that HPA.
"""

from __future__ import annotations

from datetime import datetime

from cronhpa.api.resource.schedules import MAX_SCHEDULES
from cronhpa.migration.dialects import hpa
from cronhpa.migration.documents import job_windows
from cronhpa.migration.documents.clock_changes import remark_clock_changes
from cronhpa.migration.documents.context import ConversionContext, ObjectKey
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.job_windows import DaysOff, Job, NoWindows
from cronhpa.migration.documents.manifest import cron_hpa, metadata_of, unique_names, zone_problem

BY_HAND = "write the schedules by hand"

JobWindows = list[tuple[Job, Json]]


def target_hpa(document: FieldReader) -> ObjectKey | None:
    """Namespace and name of the HorizontalPodAutoscaler that the jobs change; None if they scale a workload."""
    ref = document.mapping("spec").mapping("scaleTargetRef")
    if ref.text("kind") != "HorizontalPodAutoscaler":
        return None
    return document.mapping("metadata").text("namespace"), ref.text("name")


def zone_of(spec: FieldReader, key: str, context: ConversionContext, default: str, reason: str) -> str:
    """The zone of the source's controller: as given, else the default with a remark."""
    zone = context.zone or default
    problem = zone_problem(zone)
    if problem:
        raise spec.unconvertible(key, problem, "name the zone of the controller with --time-zone")
    if context.zone is None:
        spec.remark(
            key,
            "the zone of the times is the TZ of the controller",
            f"took {zone}, {reason}: name another with --time-zone",
        )
    return zone


def windows_of(spec: FieldReader, key: str, jobs: list[Job], zone: str, wall: datetime, off: DaysOff) -> JobWindows:
    """The jobs with their windows. Raises Unconvertible if no windows are equivalent to the jobs."""
    if not jobs:
        raise spec.unconvertible(key, "no job is left", "delete the object")
    try:
        windows = job_windows.jobs_to_windows(jobs, wall, off)
    except NoWindows as reason:
        raise spec.unconvertible(key, str(reason), BY_HAND) from None
    for job in windows.replaced:
        spec.remark(
            key, f"{job.name} is followed by another job in the same minute", "left out: a window is a minute or longer"
        )
    if len(windows.of) > MAX_SCHEDULES:
        raise spec.unconvertible(
            key, f"they make {len(windows.of)} windows", f"{MAX_SCHEDULES} are accepted: {BY_HAND}"
        )
    if all(job.once is not None for job in jobs):
        spec.remark(
            key,
            "no job recurs",
            "before the first and after the last, the smallest size holds, where the source leaves what it finds",
        )
    remark_clock_changes(spec, key, (job.cron for job in jobs if job.cron), zone, wall)
    return list(windows.of)


def scheduled(document: FieldReader, windows: JobWindows, zone: str, key: str, context: ConversionContext) -> Json:
    """The CronHPA of an object whose jobs have these windows. key: the field of a job's size, with {} for its name."""
    if target_hpa(document) is not None:
        return _on_hpa(document, windows, zone, key, context)
    return _on_workload(metadata_of(document), document.mapping("spec"), windows, zone)


def _on_workload(metadata: Json, spec: FieldReader, windows: JobWindows, zone: str) -> Json:
    ref = spec.mapping("scaleTargetRef")
    sizes = [job.size for job, _ in windows]
    out = {
        "scaleTargetRef": {
            "apiVersion": ref.text("apiVersion", "apps/v1"),
            "kind": ref.text("kind", "Deployment"),
            "name": ref.text("name"),
        },
        "minReplicas": min(sizes),
        "maxReplicas": max(*sizes, 1),
        "timeZone": zone,
        "schedules": unique_names([{"name": job.name} | fields | {"replicas": job.size} for job, fields in windows]),
    }
    return cron_hpa(metadata, out)


def _on_hpa(document: FieldReader, windows: JobWindows, zone: str, key: str, context: ConversionContext) -> Json:
    target = target_hpa(document)
    spec = document.mapping("spec")
    spec.mapping("scaleTargetRef").ignore("apiVersion", "kind", "name")
    base = context.hpas.get(target) if target else None
    if target is None or base is None:
        raise spec.unconvertible(
            "scaleTargetRef",
            f"the jobs change HorizontalPodAutoscaler {target and target[1]}, which is not in the input",
            "convert both together: its metrics belong into the same CronHPA",
        )
    out = hpa.spec_of(base)
    schedules: list[Json] = []
    for job, fields in windows:
        raised: Json = {}
        if job.size > out["maxReplicas"]:
            raised = {"maxReplicas": job.size}
            spec.remark(
                key.format(job.name),
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

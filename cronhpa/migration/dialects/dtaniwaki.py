"""
dtaniwaki and ubie-oss CronHorizontalPodAutoscaler (cron-hpa.dtaniwaki.github.com/v1alpha1), as of 2022.

A patch changes the bounds and metrics of its HPA from the patch's times to the next patch; a patch without fields
restores the template.
"""

from __future__ import annotations

from cronhpa.core.schedules import cron
from cronhpa.migration.dialects import hpa
from cronhpa.migration.documents import job_windows, jobs
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.job_windows import DaysOff, Job
from cronhpa.migration.documents.manifest import cron_hpa, metadata_of, unique_names, zone_problem


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    spec = document.mapping("spec")
    template = spec.mapping("template")
    template.ignore("metadata")
    out = hpa.spec_of(template)
    patches = spec.mappings("scheduledPatches")
    zone = _zone(spec, patches, context)
    wanted = [_bounds(patch) for patch in patches]
    read = [_job(patch, index) for index, patch in enumerate(patches)]
    windows = jobs.windows_of(spec, "scheduledPatches", read, zone, context.wall(zone), DaysOff()) if read else []
    schedules = [{"name": job.name} | fields | wanted[job.size] for job, fields in windows if wanted[job.size]]
    return cron_hpa(metadata_of(document), out | {"timeZone": zone, "schedules": unique_names(schedules) or None})


def _zone(spec: FieldReader, patches: list[FieldReader], context: ConversionContext) -> str:
    zones = {patch.text("timezone") for patch in patches}
    if len(zones) > 1:
        raise spec.unconvertible(
            "scheduledPatches", f"found the zones {', '.join(sorted(zones))}", f"no clock has all: {jobs.BY_HAND}"
        )
    zone = next(iter(zones), "")
    if not zone:
        return jobs.zone_of(spec, "scheduledPatches", context, "UTC", "the zone of most images")
    problem = zone_problem(zone)
    if problem:
        raise spec.unconvertible("scheduledPatches", problem, "name the zone that is meant")
    return zone


def _bounds(scheduled_patch: FieldReader) -> Json:
    patch = scheduled_patch.mapping("patch")
    if "metrics" in patch:
        patch.raw("metrics")
        patch.remark("metrics", "found other metrics for a time", "a window changes bounds, no targets: left out")
    return {key: value for key in ("minReplicas", "maxReplicas") if (value := patch.integer(key)) is not None}


def _job(patch: FieldReader, index: int) -> Job:
    """The patch as a job whose size is its index."""
    text = job_windows.five_fields(patch.text("schedule"))
    problem = cron.problem(text)
    if problem:
        raise patch.unconvertible("schedule", problem, jobs.BY_HAND)
    if job_windows.names_weekday_7(text):
        patch.remark("schedule", f'found "{text}"', "7 is Sunday here; the controller cannot read it")
    return Job(patch.text("name") or f"patch-{index}", index, cron=text)

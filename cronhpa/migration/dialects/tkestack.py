"""
tkestack CronHPA (extensions.tkestack.io/v1), as of its last commit in 2021.

Its crons set a count (see jobs). Of several crons that are due at one time the controller executes the first.
"""

from __future__ import annotations

from cronhpa.core.schedules import cron
from cronhpa.migration.documents import job_windows, jobs
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.job_windows import DaysOff, Job


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    spec = document.mapping("spec")
    zone = jobs.zone_of(spec, "crons", context, "UTC", "the zone of most images")
    read = [_job(cron_job, index) for index, cron_job in enumerate(spec.mappings("crons"))]
    windows = jobs.windows_of(spec, "crons", read, zone, context.wall(zone), DaysOff())
    return jobs.scheduled(document, windows, zone, "crons[{}].targetReplicas", context)


def _job(cron_job: FieldReader, index: int) -> Job:
    text = job_windows.five_fields(cron_job.text("schedule"))
    problem = cron.problem(text)
    if problem:
        raise cron_job.unconvertible("schedule", problem, jobs.BY_HAND)
    if job_windows.names_weekday_7(text):
        cron_job.remark("schedule", f'found "{text}"', "7 is Sunday here; the controller cannot read it, and stops")
    size = cron_job.integer("targetReplicas")
    if size is None:
        raise cron_job.unconvertible("targetReplicas", "there is no targetReplicas", "say how many replicas it sets")
    return Job(f"cron-{index}", size, cron=text, order=-index)

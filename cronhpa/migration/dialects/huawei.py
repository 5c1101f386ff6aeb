"""
Huawei CCE CronHorizontalPodAutoscaler (autoscaling.cce.io/v2alpha1), as its user guide describes it (cce_10_0415).

Its rules set a count; on an HPA they set its bounds (see jobs). Their times are in the zone of the nodes.
"""

from __future__ import annotations

from cronhpa.core.schedules import cron
from cronhpa.migration.documents import job_windows, jobs
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.job_windows import DaysOff, Job

DEFAULT_ZONE = "Asia/Shanghai"


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    spec = document.mapping("spec")
    zone = jobs.zone_of(spec, "rules", context, DEFAULT_ZONE, "the zone of most of its regions")
    read = [job for rule in spec.mappings("rules") if (job := _job(rule)) is not None]
    windows = jobs.windows_of(spec, "rules", read, zone, context.wall(zone), DaysOff())
    return jobs.scheduled(document, windows, zone, "rules[{}].targetReplicas", context)


def _job(rule: FieldReader) -> Job | None:
    name, text, size = rule.text("ruleName"), job_windows.five_fields(rule.text("schedule")), None
    size = rule.integer("targetReplicas")
    if rule.raw("disable"):
        rule.remark("disable", f'"{name}" is disabled', "left out")
        return None
    problem = cron.problem(text)
    if problem:
        raise rule.unconvertible("schedule", problem, jobs.BY_HAND)
    if size is None:
        raise rule.unconvertible("targetReplicas", "there is no targetReplicas", "say how many replicas it sets")
    return Job(name or "rule", size, cron=text)

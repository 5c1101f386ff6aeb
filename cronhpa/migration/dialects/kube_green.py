"""
kube-green SleepInfo (kube-green.com/v1alpha1): the workloads of a namespace have no pods from sleepAt to wakeUpAt.

One SleepInfo becomes a CronHPA for each Deployment and StatefulSet of its namespace that is in the input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cronhpa.core.schedules import cron
from cronhpa.migration.documents.clock_changes import remark_clock_changes
from cronhpa.migration.documents.context import ConversionContext, ObjectKey
from cronhpa.migration.documents.document import FieldReader, Json, Unconvertible
from cronhpa.migration.documents.job_windows import names_weekday_7
from cronhpa.migration.documents.manifest import zone_problem
from cronhpa.migration.documents.workload import KINDS, cron_hpa_of, hpas_of

_AT = re.compile(r"([0-9*/,-]+):([0-9*/,-]+)")
_KEPT = {"Deployment": "suspendDeployments", "StatefulSet": "suspendStatefulSets"}


def to_cron_hpas(document: FieldReader, context: ConversionContext) -> list[Json]:
    document.ignore("apiVersion", "kind", "status", "metadata")
    spec = document.mapping("spec")
    spec.ignore("suspendCronJobs", *_KEPT.values(), "excludeRef", "includeRef")
    for key, meaning in (("suspendCronJobs", "CronJobs are not scaled"), ("patches", "only replicas are changed")):
        if spec.raw(key):
            spec.remark(key, "found it set", f"left out: {meaning}")
    schedule = _schedule(spec, context)
    if all(spec.body.get(field) is False for field in _KEPT.values()):
        raise spec.unconvertible(
            "suspendDeployments", "neither Deployments nor StatefulSets are suspended", "no replicas are changed"
        )
    workloads = list(_workloads(document, context))
    if not workloads:
        raise document.unconvertible(
            "metadata.namespace",
            "no Deployment or StatefulSet of its namespace is in the input",
            "convert them together: kubectl get sleepinfo,deployment,statefulset,hpa -o yaml",
        )
    out = []
    for workload in workloads:
        count = workload.mapping("spec").integer("replicas")
        try:
            out.append(cron_hpa_of(workload, [schedule], 1 if count is None else count, context))
        except Unconvertible as refusal:
            spec.remark("", f"{refusal.path}: {refusal.finding}", f"left out: {refusal.meaning}")
    return out


def absorbs(document: FieldReader, context: ConversionContext) -> Iterable[ObjectKey]:
    return [key for workload in _workloads(document, context) for key, _ in hpas_of(workload, context)]


def _schedule(spec: FieldReader, context: ConversionContext) -> Json:
    zone = spec.text("timeZone") or "UTC"
    problem = zone_problem(zone)
    if problem:
        raise spec.unconvertible("timeZone", problem, "name the zone that is meant")
    days = spec.text("weekdays", "*")
    if "wakeUpAt" not in spec:
        raise spec.unconvertible("wakeUpAt", "there is none", "nothing ends the sleep: say when, or scale to 0 by hand")
    texts = {"start": _cron(spec, "sleepAt", days), "end": _cron(spec, "wakeUpAt", days)}
    if texts["start"] == texts["end"]:
        raise spec.unconvertible(
            "wakeUpAt", f"it is sleepAt, {spec.text('sleepAt')}", "a sleep needs an end of its own"
        )
    remark_clock_changes(spec, "sleepAt", texts.values(), zone, context.wall(zone))
    return {"name": "sleep"} | texts | {"timeZone": zone, "replicas": 0}


def _cron(spec: FieldReader, key: str, days: str) -> str:
    match = _AT.fullmatch(spec.text(key))
    text = f"{_plain(match[2])} {_plain(match[1])} * * {days}" if match else ""
    problem = cron.problem(text) if match else f'found "{spec.text(key)}"'
    if problem:
        raise spec.unconvertible(key, problem, "times such as 20:00 are read, and weekdays such as 1-5")
    if names_weekday_7(text):
        spec.remark("weekdays", f'found "{days}"', "7 is Sunday here; kube-green cannot read it")
    return text


def _plain(field: str) -> str:
    """A number without its leading zero."""
    return str(int(field)) if field.isdigit() else field


def _workloads(document: FieldReader, context: ConversionContext) -> Iterable[FieldReader]:
    spec = document.mapping("spec")
    namespace = document.mapping("metadata").text("namespace")
    excluded, included = spec.mappings("excludeRef"), spec.mappings("includeRef")
    for kind in KINDS:
        if spec.body.get(_KEPT[kind]) is False:
            continue
        for workload in context.objects.get(("apps", kind), ()):
            same = workload.mapping("metadata").text("namespace") == namespace
            is_included = not included or any(_refers(ref, workload) for ref in included)
            if same and is_included and not any(_refers(ref, workload) for ref in excluded):
                yield workload


def _refers(ref: FieldReader, workload: FieldReader) -> bool:
    metadata = workload.mapping("metadata")
    labels = ref.texts("matchLabels")
    if labels:
        return labels.items() <= metadata.texts("labels").items()
    return (ref.text("kind"), ref.text("name")) == (workload.text("kind"), metadata.text("name"))

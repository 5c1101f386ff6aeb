"""
The replicas of a workload outside of its schedules: those of its HorizontalPodAutoscaler, else the count in its spec.

For schedulers that name no autoscaler: they put a workload to sleep and wake it again.
"""

from __future__ import annotations

from collections.abc import Iterator

from cronhpa.migration.dialects import hpa
from cronhpa.migration.documents.context import ConversionContext, ObjectKey
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.manifest import cron_hpa, metadata_of, unique_names

KINDS = ("Deployment", "StatefulSet")


def hpas_of(workload: FieldReader, context: ConversionContext) -> Iterator[tuple[ObjectKey, FieldReader]]:
    """The HPAs of the input that scale a workload."""
    metadata = workload.mapping("metadata")
    for key, document in context.hpas.items():
        ref = document.mapping("spec").mapping("scaleTargetRef")
        same = (ref.text("kind"), ref.text("name")) == (workload.text("kind"), metadata.text("name"))
        if same and key[0] == metadata.text("namespace"):
            yield key, document


def cron_hpa_of(workload: FieldReader, schedules: list[Json], count: int | None, context: ConversionContext) -> Json:
    """
    The CronHPA of a workload. count: its replicas while it is awake, if it has no HPA. A schedule without a bound gets
    the bounds of the workload.
    """
    own_hpa = next(hpas_of(workload, context), None)
    metadata = metadata_of(workload)
    if own_hpa is not None:
        base = hpa.spec_of(own_hpa[1])
        metadata = metadata_of(own_hpa[1])
    else:
        if not count:
            raise workload.unconvertible(
                "spec.replicas", f"found {count}", "the count while it is awake is not known: set it and convert again"
            )
        base = {"scaleTargetRef": _ref(workload), "minReplicas": count, "maxReplicas": count}
    awake = {"minReplicas": base["minReplicas"], "maxReplicas": base["maxReplicas"]}
    states = {"replicas", "minReplicas", "maxReplicas"}
    windows = [schedule if states & set(schedule) else schedule | awake for schedule in schedules]
    # A workload's labels are kept: they tell whose it is, as an autoscaler's labels do.
    return cron_hpa(metadata, base | {"schedules": unique_names(windows)})


def _ref(workload: FieldReader) -> Json:
    return {
        "apiVersion": workload.text("apiVersion", "apps/v1"),
        "kind": workload.text("kind"),
        "name": workload.mapping("metadata").text("name"),
    }

"""Manifests of a conversion: the order of their fields, and a check that the API server would accept them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cronhpa.api.identity import API_VERSION, KIND
from cronhpa.api.parse import SpecError
from cronhpa.api.schema import CronHPASpec
from cronhpa.api.written_spec import without_nulls, written_spec
from cronhpa.core.schedules import wall_clock
from cronhpa.migration.documents.document import FieldReader, Json

DEFAULT_METRICS: list[Json] = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
]
"""The upstream's default for a HorizontalPodAutoscaler without metrics. A CronHPA states it."""

ALWAYS: Json = {"start": "@daily", "durationMinutes": 2 * 24 * 60}
"""Times of a schedule that is always open: a window of two days begins every day."""

_ORDER = [field.alias or name for name, field in CronHPASpec.model_fields.items()]
_DOWNSCALER = "downscaler/"
# Annotations and labels that other tools put on the old object. On the new one they would be wrong: Helm and Argo CD
# would take it for one of theirs and remove it.
_FOREIGN = (
    "kubectl.kubernetes.io/",
    "autoscaling.alpha.kubernetes.io/",
    "autoscaling.keda.sh/",
    "scaledobject.keda.sh/",
    "validations.keda.sh/",
    "autoscaling.crane.io/",
    "metric-query.autoscaling.crane.io/",
    "metric-name.autoscaling.crane.io/",
    "metric-config.",
    "deployment.kubernetes.io/",
    _DOWNSCALER,
    "meta.helm.sh/",
    "argocd.argoproj.io/tracking-id",
)
_NAME_MAX = 63
_REMOVED = ("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2")
_WORKLOADS = {"Deployment", "StatefulSet"}


def manifest(kind: str, api_version: str, metadata: Json, spec: Json) -> Json:
    """An object with the fields of its spec in the order of the reference; None fields are left out."""
    ordered = {key: spec[key] for key in (*_ORDER, *spec) if spec.get(key) is not None}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": _with_texts(without_nulls(ordered))}


def _with_texts(value: Any) -> Any:
    """
    The value with decimal numbers as texts: an HPA takes the quantity 0.5, a CRD a text or a whole number alone. No
    field is another decimal number.
    """
    if isinstance(value, Mapping):
        return {key: _with_texts(field) for key, field in value.items()}
    if isinstance(value, list):
        return [_with_texts(element) for element in value]
    return str(value) if isinstance(value, float) else value


def cron_hpa(metadata: Json, spec: Json) -> Json:
    """A CronHPA. A target in an API version that Kubernetes has removed gets the one that it has now."""
    ref = spec.get("scaleTargetRef")
    if isinstance(ref, Mapping) and str(ref.get("apiVersion")) in _REMOVED:
        spec = spec | {"scaleTargetRef": {**ref, "apiVersion": "apps/v1"}}
    return manifest(KIND, API_VERSION, metadata, spec)


def metadata_of(document: FieldReader) -> Json:
    """Name, namespace, labels and annotations, without those of the cluster and of other tools."""
    metadata = document.mapping("metadata")
    out: Json = {"name": metadata.text("name")}
    if "namespace" in metadata:
        out["namespace"] = metadata.text("namespace")
    for key in ("labels", "annotations"):
        own = {name: value for name, value in metadata.texts(key).items() if not name.startswith(_FOREIGN)}
        if own:
            out[key] = own
    if document.text("kind") not in _WORKLOADS:
        for name in metadata.texts("annotations"):
            if name.startswith(_DOWNSCALER):
                metadata.remark(
                    f"annotations[{name}]",
                    "kube-downscaler changes this object",
                    "left out: to keep these hours, put the annotations on its workload, convert both again, and stop "
                    "kube-downscaler before you apply the result",
                )
    for owner in metadata.mappings("ownerReferences"):
        text = f"{owner.text('kind')} {owner.text('name')} owns this object"
        metadata.remark("ownerReferences", text, "it will make it again: stop it there, or change it instead")
    metadata.ignore(
        *(
            "ownerReferences",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "managedFields",
        ),
        *("finalizers", "selfLink", "generateName", "deletionGracePeriodSeconds"),
    )
    return out


def problems(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The reasons for which the API server would refuse a spec: (path below the object, problem)."""
    try:
        written_spec({"metadata": {}, "spec": spec})
    except SpecError as error:
        yield from ((problem.path, problem.problem) for problem in error.problems)


def zone_problem(zone: str) -> str | None:
    """The reason for which a zone would be refused; None for a name of the IANA database."""
    if zone == "Local":
        return '"Local" is whatever zone a machine is in: name one, such as "Europe/Berlin"'
    return wall_clock.zone_problem(zone)


def unique_names(schedules: Sequence[Json]) -> list[Json]:
    """The schedules with names that differ, of at most 63 characters: shop, shop-2, shop-3."""
    taken: set[str] = set()
    out = []
    for schedule in schedules:
        name, count = schedule["name"][:_NAME_MAX], 1
        while name in taken:
            count += 1
            suffix = f"-{count}"
            name = schedule["name"][: _NAME_MAX - len(suffix)] + suffix
        taken.add(name)
        out.append(schedule | {"name": name})
    return out


def with_priorities(schedules: Sequence[Json], ranks: Sequence[tuple[int, ...]]) -> list[Json]:
    """The schedules, each with a priority in the order of its rank."""
    order = sorted(set(ranks))
    return [schedule | {"priority": order.index(rank)} for schedule, rank in zip(schedules, ranks, strict=True)]


def largest_first(schedules: Sequence[Json]) -> list[Json]:
    """
    The schedules of a source that takes the largest bounds of those that are open.

    Of equal priority a one-time schedule outranks a recurring one here, also one with larger bounds: where both kinds
    are, the bounds become priorities.
    """
    if len({"from" in schedule for schedule in schedules}) <= 1:
        return list(schedules)
    return with_priorities(
        schedules, [(schedule.get("minReplicas", 0), schedule.get("maxReplicas", 0)) for schedule in schedules]
    )


def has_load(metrics: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a metric has a target per pod: a forecast needs one."""
    sources = (source for metric in metrics if isinstance(metric, Mapping) for source in metric.values())
    targets = (source.get("target") for source in sources if isinstance(source, Mapping))
    return any({"averageValue", "averageUtilization"} & {*target} for target in targets if isinstance(target, Mapping))

"""Documents in, CronHPA manifests and remarks out. This file alone decides which module reads which object."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

from msgspec import Struct

from cronhpa.api.identity import GROUP, KIND
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.migration.dialects import (
    aliyun,
    aws,
    crane,
    d_kuro,
    dtaniwaki,
    gcp,
    hpa,
    huawei,
    kapacity,
    keda,
    kube_downscaler,
    kube_green,
    phpa,
    tkestack,
    zalando,
)
from cronhpa.migration.documents import jobs
from cronhpa.migration.documents.context import ConversionContext, ObjectKey, key_of
from cronhpa.migration.documents.document import FieldReader, Json, Note, Remark, Unconvertible
from cronhpa.migration.documents.manifest import problems
from cronhpa.migration.documents.sources import NamedSources

GroupKind = tuple[str, str]

REFUSED = "no CronHPA is made of it: "
"""Begins the meaning of the remark on an object without a manifest."""
_INDEX = re.compile(r"\[\d+\]")
# The targets that the chart's rules name.
_SCALED_BY_DEFAULT: AbstractSet[GroupKind] = {
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "ReplicationController"),
}
_HPA = ("autoscaling", "HorizontalPodAutoscaler")


class _Dialect(Struct, frozen=True):
    """The objects of another autoscaler."""

    convert: Callable[[FieldReader, ConversionContext], Json | Sequence[Json]]
    """The CronHPAs of an object."""
    absorbs: Callable[[FieldReader, ConversionContext], Iterable[ObjectKey]] = lambda _, __: ()
    """The HorizontalPodAutoscalers that become part of them."""


def _target_hpa(document: FieldReader, _: ConversionContext) -> Iterable[ObjectKey]:
    target = jobs.target_hpa(document)
    return () if target is None else (target,)


def _from_hpa(document: FieldReader, context: ConversionContext) -> Json:
    return zalando.with_schedules(hpa.to_cron_hpa(document), document, context)


DIALECTS: Mapping[GroupKind, _Dialect] = {
    _HPA: _Dialect(_from_hpa),
    ("keda.sh", "ScaledObject"): _Dialect(keda.to_cron_hpa),
    ("autoscaling.alibabacloud.com", "CronHorizontalPodAutoscaler"): _Dialect(aliyun.to_cron_hpa, _target_hpa),
    ("autoscaling.crane.io", "EffectiveHorizontalPodAutoscaler"): _Dialect(crane.to_cron_hpa),
    ("jamiethompson.me", "PredictiveHorizontalPodAutoscaler"): _Dialect(phpa.to_cron_hpa),
    **{(group, kapacity.KIND): _Dialect(kapacity.to_cron_hpa) for group in kapacity.GROUPS},
    ("extensions.tkestack.io", "CronHPA"): _Dialect(tkestack.to_cron_hpa, _target_hpa),
    ("autoscaling.cce.io", "CronHorizontalPodAutoscaler"): _Dialect(huawei.to_cron_hpa, _target_hpa),
    ("cron-hpa.dtaniwaki.github.com", "CronHorizontalPodAutoscaler"): _Dialect(dtaniwaki.to_cron_hpa),
    ("cron-hpa.ubie-oss.github.com", "CronHorizontalPodAutoscaler"): _Dialect(dtaniwaki.to_cron_hpa),
    (d_kuro.GROUP, "ScheduledPodAutoscaler"): _Dialect(d_kuro.to_cron_hpa),
    (d_kuro.GROUP, "Schedule"): _Dialect(d_kuro.schedule_alone),
    **{(zalando.GROUP, kind): _Dialect(zalando.schedule_alone) for kind in zalando.KINDS},
    ("kube-green.com", "SleepInfo"): _Dialect(kube_green.to_cron_hpas, kube_green.absorbs),
    **{
        ("apps", kind): _Dialect(kube_downscaler.to_cron_hpas, kube_downscaler.absorbs)
        for kind in ("Deployment", "StatefulSet")
    },
    (aws.GROUP, aws.KIND): _Dialect(aws.to_cron_hpa),
    (gcp.GROUP, gcp.KIND): _Dialect(gcp.to_cron_hpa),
}
LIVE_KINDS: tuple[GroupKind, ...] = (
    *(kind for kind in DIALECTS if kind[0] not in {aws.GROUP, gcp.GROUP}),
    ("", "Namespace"),
)
"""The kinds to read in a cluster."""

# Objects that stand beside autoscalers and scale nothing, and our own: not worth a remark.
_PASSED_OVER: Mapping[str, AbstractSet[str]] = {
    GROUP: {KIND},
    "": {"ConfigMap", "Event", "Namespace", "PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount"},
    "apps": {"DaemonSet", "ReplicaSet"},
    "batch": {"CronJob", "Job"},
    "keda.sh": {"ClusterTriggerAuthentication", "TriggerAuthentication"},
    "networking.k8s.io": {"Ingress", "NetworkPolicy"},
    "policy": {"PodDisruptionBudget"},
}


class Document(Struct, frozen=True):
    """One document of a file."""

    source: str
    body: Any
    """The document as parsed, of any type."""


class Conversion(Struct, frozen=True):
    manifests: tuple[Json, ...]
    """CronHPA objects, in the order of the input."""
    origins: tuple[tuple[str, str], ...]
    """Of each manifest the source and the object, such as ScaledObject/shop, that it was made of."""
    remarks: tuple[Remark, ...]
    """What could not be carried over, in the order of the input."""
    sources: dict[str, Json] = {}
    """Definitions by name of the metric sources that the manifests need."""


class _Entry(Struct, frozen=True):
    """A document during its conversion."""

    source: str
    kind: tuple[str, str]
    reader: FieldReader
    notes: list[Note]
    """Path, what was found, what it means."""

    @property
    def key(self) -> ObjectKey:
        return key_of(self.reader)


def convert(
    documents: Sequence[Document], *, now: Nanoseconds, zone: str | None = None, prometheus: str | None = None
) -> Conversion:
    """
    Convert all objects of the input together: jobs on an HPA need that HPA, and KEDA's HPA has the names of its
    metrics.

    zone: the zone of the source's controller, for sources whose objects do not name one. prometheus: URL of the
    Prometheus that has what exporters serve.
    """
    remarks: list[Remark] = []
    entries = [entry for document in documents for entry in _entries(document, remarks)]
    objects: dict[GroupKind, list[FieldReader]] = {}
    for entry in entries:
        objects.setdefault(entry.kind, []).append(entry.reader)
    context = ConversionContext(
        now=now,
        zone=zone,
        prometheus=prometheus,
        hpas={entry.key: entry.reader for entry in entries if entry.kind == _HPA},
        objects=objects,
        sources=NamedSources(),
    )
    absorbed = _absorbed(entries, context)
    manifests: list[Json] = []
    origins: list[tuple[str, str]] = []
    done: list[_Entry] = []
    for entry in entries:
        if _is_passed_over(entry.kind) or (entry.kind == _HPA and entry.key in absorbed):
            continue
        try:
            made = _converted(entry, context)
            manifests += made
            origins += [(entry.source, entry.reader.path)] * len(made)
            done.append(entry)
        except Unconvertible as refusal:
            entry.notes.append((refusal.path, refusal.finding, f"{REFUSED}{refusal.meaning}"))
    # At the end, as the conversion of one object may read another.
    for entry in done:
        entry.notes.extend(
            (path, "found a field that is not known here", "left out: see whether it matters")
            for path in entry.reader.unread()
        )
    for entry in entries:
        remarks += [Remark(entry.source, path, finding, meaning) for path, finding, meaning in _once(entry.notes)]
    remarks += _doubled(manifests)
    remarks += _targets_of_other_kinds(manifests)
    return Conversion(tuple(manifests), tuple(origins), tuple(remarks), context.sources.used_by(manifests))


def _is_passed_over(kind: GroupKind) -> bool:
    return kind not in DIALECTS and kind[1] in _PASSED_OVER.get(kind[0], ())


def _converted(entry: _Entry, context: ConversionContext) -> Sequence[Json]:
    """The CronHPAs of an object. Raises Unconvertible for an unknown kind, or if the API server would refuse one."""
    dialect = DIALECTS.get(entry.kind)
    if dialect is None:
        group, kind = entry.kind
        accepted = ", ".join(sorted({kind for group, kind in DIALECTS if "." in group or group == "autoscaling"}))
        raise Unconvertible(
            entry.reader.path, f"found {kind or 'no kind'} of {group or 'no group'}", f"accepted are {accepted}"
        )
    manifests = dialect.convert(entry.reader, context)
    manifests = [manifests] if isinstance(manifests, dict) else manifests
    for out in manifests:
        wrong = [f"{path}: {text}" for path, text in problems(out["spec"])]
        if wrong:
            raise Unconvertible(entry.reader.path, "the API server would refuse it", "; ".join(wrong))
    return manifests


def _entries(document: Document, remarks: list[Remark]) -> Iterator[_Entry]:
    """The objects of a document: itself, or the items of a list."""
    body = document.body
    if body is None:
        return
    if isinstance(body, list) and all(isinstance(element, Mapping) for element in body):
        for element in body:  # what gcloud prints
            yield from _entries(Document(document.source, element), remarks)
        return
    if not isinstance(body, Mapping):
        remarks.append(Remark(document.source, "", f"found {type(body).__name__}", "a Kubernetes object belongs here"))
        return
    of_cloud = aws.objects_of(body) or gcp.objects_of(body)
    if of_cloud is not None:
        objects = list(of_cloud)
        if not objects:
            remarks.append(Remark(document.source, "", "found no scheduled action", "there is nothing to convert"))
        for cloud_object in objects:
            yield from _entries(Document(document.source, cloud_object), remarks)
        return
    if isinstance(body.get("items"), list):
        kind = str(body.get("kind") or "").removesuffix("List")
        for element in body["items"]:
            # The items of a typed list need not state apiVersion and kind.
            named = (
                {"apiVersion": body.get("apiVersion"), "kind": kind, **element}
                if isinstance(element, Mapping)
                else element
            )
            yield from _entries(Document(document.source, named), remarks)
        return
    kind = str(body.get("kind") or "")
    group = str(body.get("apiVersion") or "").rpartition("/")[0]
    metadata = body.get("metadata")
    name, namespace = (metadata.get(key) if isinstance(metadata, Mapping) else None for key in ("name", "namespace"))
    notes: list[Note] = []
    if not isinstance(name, str) or not isinstance(namespace, str | None):
        path = kind or "object"
        remarks.append(Remark(document.source, path, "found no metadata.name", "a Kubernetes object belongs here"))
        return
    yield _Entry(document.source, (group, kind), FieldReader(body, f"{kind}/{name}", notes), notes)


def _absorbed(entries: Sequence[_Entry], context: ConversionContext) -> set[ObjectKey]:
    """The HPAs that become part of another object's CronHPA: those that jobs change, and those that others made."""
    out: set[ObjectKey] = set()
    names = {(*entry.key, entry.kind[1]) for entry in entries if entry.kind in DIALECTS}
    for entry in entries:
        with suppress(Unconvertible):  # the conversion of that object reports it
            if entry.kind in DIALECTS:
                out |= {key for key in DIALECTS[entry.kind].absorbs(entry.reader, context) if key in context.hpas}
    for key, reader in context.hpas.items():
        with suppress(Unconvertible):
            for owner in reader.mapping("metadata").mappings("ownerReferences"):
                if (key[0], owner.text("name"), owner.text("kind")) in names:
                    out.add(key)
    return out


def _once(notes: Sequence[Note]) -> Iterator[Note]:
    """The notes; of those that say the same of several elements of a list one, which names the other elements."""
    alike: dict[Note, list[str]] = {}
    for path, finding, meaning in notes:
        alike.setdefault((_INDEX.sub("[]", path), finding, meaning), []).append(path)
    for (_, finding, meaning), (path, *others) in alike.items():
        indices = ", ".join(sorted({"".join(_INDEX.findall(other)) for other in others if other != path}))
        yield path, f"{finding} (also at {indices})" if indices else finding, meaning


def _targets_of_other_kinds(manifests: Sequence[Json]) -> Iterator[Remark]:
    """The kinds of targets that the operator may scale only if the chart says so."""
    names: dict[GroupKind, list[str]] = {}
    for manifest in manifests:
        ref = manifest["spec"]["scaleTargetRef"]
        group_kind = str(ref.get("apiVersion") or "").rpartition("/")[0], str(ref.get("kind"))
        if group_kind not in _SCALED_BY_DEFAULT:
            names.setdefault(group_kind, []).append(manifest["metadata"]["name"])
    for (group, kind), objects in names.items():
        yield Remark(
            "output",
            ", ".join(f"CronHPA/{name}" for name in objects) + ".spec.scaleTargetRef",
            f"found a {kind} of {group or 'no group'}",
            f"the operator may not scale it yet: add {{apiGroup: {group}, resource: PLURAL}} to scaleTargets in the "
            f"chart's values; the first column of `kubectl api-resources --api-group={group}` has the PLURAL",
        )


def _doubled(manifests: Sequence[Json]) -> Iterator[Remark]:
    """Manifests that conflict: with one name, or with one target."""

    def named(manifest: Json) -> str:
        return f"CronHPA/{manifest['metadata']['name']}"

    def place(manifest: Json) -> str:
        return str(manifest["metadata"].get("namespace", ""))

    def target(manifest: Json) -> tuple[str, str, str]:
        ref = manifest["spec"]["scaleTargetRef"]
        return place(manifest), str(ref.get("kind")), str(ref.get("name"))

    names = Counter((place(manifest), named(manifest)) for manifest in manifests)
    targets = Counter(target(manifest) for manifest in manifests)
    for (_, name), count in names.items():
        if count > 1:
            yield Remark("output", name, f"found {count} of this name", "one replaces the other: rename or merge them")
    for (_, kind, name), count in targets.items():
        if count > 1:
            yield Remark(
                "output",
                f"{kind}/{name}",
                f"found {count} CronHPAs on this target",
                "the oldest acts, the others hold: merge them into one",
            )

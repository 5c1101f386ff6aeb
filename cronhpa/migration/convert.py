"""Documents in, CronHPA manifests and remarks out. This file alone decides which module reads which object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds
from cronhpa.migration import aliyun, crane, hpa, keda
from cronhpa.migration.context import ConversionContext
from cronhpa.migration.document import FieldReader, Json, Note, Remark, Unconvertible
from cronhpa.migration.manifest import problems

_HPA = ("autoscaling", "HorizontalPodAutoscaler")
_ALIYUN = ("autoscaling.alibabacloud.com", "CronHorizontalPodAutoscaler")
_OTHERS = {
    _ALIYUN: aliyun.to_cron_hpa,
    ("keda.sh", "ScaledObject"): keda.to_cron_hpa,
    ("autoscaling.crane.io", "EffectiveHorizontalPodAutoscaler"): crane.to_cron_hpa,
}
_ACCEPTED = "HorizontalPodAutoscaler, ScaledObject, CronHorizontalPodAutoscaler and EffectiveHorizontalPodAutoscaler"


class Document(Struct, frozen=True):
    """One document of a file. body: as parsed, of any type."""

    source: str
    body: Any


class Conversion(Struct, frozen=True):
    """manifests: CronHPA objects. remarks: what could not be carried over. Both are in the order of the input."""

    manifests: tuple[Json, ...]
    remarks: tuple[Remark, ...]


class _Entry(Struct, frozen=True):
    """A document during its conversion. notes: path, what was found, what it means."""

    source: str
    kind: tuple[str, str]
    reader: FieldReader
    notes: list[Note]

    @property
    def key(self) -> tuple[str, str]:
        metadata = self.reader.mapping("metadata")
        return metadata.text("namespace"), metadata.text("name")


def convert(documents: Sequence[Document], *, now: Nanoseconds, zone: str | None = None) -> Conversion:
    """
    Convert all objects of the input together: jobs on an HPA need that HPA, and KEDA's HPA has the names of its
    metrics.

    zone: the zone of the source's controller, for sources whose objects do not name one.
    """
    remarks: list[Remark] = []
    entries = [entry for document in documents for entry in _entries(document, remarks)]
    hpas = {entry.key: entry.reader for entry in entries if entry.kind == _HPA}
    context = ConversionContext(now=now, zone=zone, hpas=hpas)
    made_of = _merged(entries, hpas)
    manifests: list[Json] = []
    for entry in entries:
        if entry.kind == _HPA and entry.key in made_of:
            continue
        try:
            manifests.append(_converted(entry, context))
        except Unconvertible as refusal:
            entry.notes.append((refusal.path, refusal.found, f"no CronHPA is made of it: {refusal.meaning}"))
    for entry in entries:
        remarks += [Remark(entry.source, path, found, meaning) for path, found, meaning in entry.notes]
    remarks += _doubled(manifests)
    return Conversion(tuple(manifests), tuple(remarks))


def _converted(entry: _Entry, context: ConversionContext) -> Json:
    """The CronHPA of an object. Raises Unconvertible if the API server would refuse every honest one."""
    if entry.kind == _HPA:
        out = hpa.to_cron_hpa(entry.reader)
    elif entry.kind in _OTHERS:
        out = _OTHERS[entry.kind](entry.reader, context)
    else:
        group, kind = entry.kind
        raise Unconvertible(
            entry.reader.path, f"found {kind or 'no kind'} of {group or 'no group'}", f"accepted are {_ACCEPTED}"
        )
    for path in entry.reader.unread():
        entry.notes.append((path, "found a field that is not known here", "left out: see whether it matters"))
    wrong = [f"{path}: {text}" for path, text in problems(out["spec"])]
    if wrong:
        raise Unconvertible(entry.reader.path, "the API server would refuse it", "; ".join(wrong))
    return out


def _entries(document: Document, remarks: list[Remark]) -> Iterator[_Entry]:
    """The objects of a document: itself, or the items of a list."""
    body = document.body
    if body is None:
        return
    if not isinstance(body, Mapping):
        remarks.append(Remark(document.source, "", f"found {type(body).__name__}", "a Kubernetes object belongs here"))
        return
    if isinstance(body.get("items"), list):
        kind = str(body.get("kind") or "").removesuffix("List")
        for item in body["items"]:
            # The items of a typed list need not repeat what they are.
            named = {"apiVersion": body.get("apiVersion"), "kind": kind, **item} if isinstance(item, Mapping) else item
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


def _merged(entries: Sequence[_Entry], hpas: Mapping[tuple[str, str], FieldReader]) -> set[tuple[str, str]]:
    """The HPAs that become part of another object's CronHPA: those that jobs change, and those of KEDA and Crane."""
    out: set[tuple[str, str]] = set()
    names = {(*entry.key, entry.kind[1]) for entry in entries if entry.kind in _OTHERS}
    for entry in entries:
        with suppress(Unconvertible):  # the conversion of that object reports it
            target = aliyun.target_hpa(entry.reader) if entry.kind == _ALIYUN else None
            if target is not None and target in hpas:
                out.add(target)
    for key, reader in hpas.items():
        with suppress(Unconvertible):
            for owner in reader.mapping("metadata").mappings("ownerReferences"):
                if (key[0], owner.text("name"), owner.text("kind")) in names:
                    out.add(key)
    return out


def _doubled(manifests: Sequence[Json]) -> Iterator[Remark]:
    """Manifests that conflict: with one name, or with one target."""

    def named(item: Json) -> str:
        return f"CronHPA/{item['metadata']['name']}"

    def place(item: Json) -> str:
        return str(item["metadata"].get("namespace", ""))

    def target(item: Json) -> tuple[str, str, str]:
        ref = item["spec"]["scaleTargetRef"]
        return place(item), str(ref.get("kind")), str(ref.get("name"))

    names = Counter((place(item), named(item)) for item in manifests)
    targets = Counter(target(item) for item in manifests)
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

"""`cronhpa preview EVENT.yaml`: what a planned event would ask of each object, in all, and of the nodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cronhpa.cli.objects.event_documents import EventDocument
from cronhpa.cli.objects.object_inputs import ObjectInput, ObjectLocation
from cronhpa.core.model.instant import Nanoseconds, format_instant

if TYPE_CHECKING:
    from cronhpa.core.model.planned_event import PlannedEvent
    from cronhpa.kube.client import Client

_MILLI = 1000
Labels = Mapping[str, Mapping[str, str]]
"""The labels of namespaces, by their names."""


class EventRow(Struct, frozen=True):
    """What an event changes in one object at its start."""

    label: str
    now: int | None
    """Replicas now; None where no status says so."""
    before: tuple[int, int]
    """The bounds just before the start."""
    during: tuple[int, int]
    """The bounds at the start."""
    short: int
    why: str


class Room(Struct, frozen=True):
    """What the nodes can hold, and what the event needs; milli-cores and milli-bytes."""

    free: Mapping[str, int]
    needed: Mapping[str, int]


class EventPreview(Struct, frozen=True):
    event: PlannedEvent
    start: Nanoseconds | None
    zone: str
    rows: tuple[EventRow, ...]
    room: Room | str | None = None
    """A text where it cannot be told, and None without a cluster."""


def preview_event(
    document: EventDocument, given: Sequence[ObjectInput], now: Nanoseconds, labels_of: Labels | None = None
) -> EventPreview:
    """
    The rows of all objects that the event picks, at its current or next start.

    labels_of: the labels of namespaces; without them a namespace has its name alone.
    """
    from cronhpa.core.schedules.events import phase, with_events
    from cronhpa.core.schedules.ranks import settled_at

    event = document.event
    zone = event.schedules[0].schedule.window.zone if event.schedules else "UTC"
    at = phase(event, now).at
    rows = []
    for one in given:
        if at is None or not _picks(document, one, labels_of or {}):
            continue
        own = one.spec
        spec = with_events(own, [event])
        was, becomes = settled_at(own, at), settled_at(spec, at)
        rows.append(_row(one, event, at, (was.minimum.number, was.maximum.number),
                         (becomes.minimum.number, becomes.maximum.number)))  # fmt: skip
    return EventPreview(event, at, zone, tuple(rows))


def _row(
    one: ObjectInput, event: PlannedEvent, at: Nanoseconds, before: tuple[int, int], during: tuple[int, int]
) -> EventRow:
    from cronhpa.core.model.spec import Mode
    from cronhpa.core.schedules.events import asked_of, with_events

    asked = asked_of(event, one.spec, with_events(one.spec, [event]), at, lambda *_: None)
    status = one.body.get("status")
    now = status.get("currentReplicas") if one.is_live and isinstance(status, Mapping) else None
    reasons = []
    if asked.short:
        reasons.append(f"short of {asked.short}: its maxReplicas is {one.spec.max_replicas}")
    if any(stated.expected_load_percent is not None for stated in event.schedules):
        reasons.append("at least: the operator also asks for its expected load")
    if one.spec.mode is Mode.PREVIEW:
        reasons.append("in mode Preview: not scaled")
    if during == before:
        reasons.append("nothing changes")
    return EventRow(one.label, now if isinstance(now, int) else None, before, during, asked.short, "; ".join(reasons))


def _picks(document: EventDocument, one: ObjectInput, labels_of: Labels) -> bool:
    from cronhpa.operator.objects.planned_events import seen_of

    event = document.event
    labels = one.body["metadata"].get("labels") or {}
    namespace = one.spec.namespace
    if event.namespace and namespace and event.namespace != namespace:
        return False
    of_namespace = labels_of.get(namespace, {"kubernetes.io/metadata.name": namespace})
    return seen_of(event).picks(event.namespace or namespace, labels, of_namespace)


# --- nodes -------------------------------------------------------------------------------------------------------


async def room_for(client: Client, preview: EventPreview, given: Sequence[ObjectInput]) -> Room | str:
    """What the nodes have free (allocatable less requests), and what the pods need that the event adds."""
    from cronhpa.kube.errors import ClusterError

    try:
        return Room(await _free(client), await _needed(client, preview, given))
    except ClusterError as error:
        return f"what the nodes can hold is not known: {error.message}"


async def _free(client: Client) -> dict[str, int]:
    free = {"cpu": 0, "memory": 0}
    async for node in _listed(client, "/api/v1/nodes"):
        if not node.get("spec", {}).get("unschedulable"):
            _add(free, _amounts(node.get("status", {}).get("allocatable")), 1)
    async for pod in _listed(client, "/api/v1/pods"):
        if pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            _add(free, _requests(pod["spec"]), -1)
    return free


async def _needed(client: Client, preview: EventPreview, given: Sequence[ObjectInput]) -> dict[str, int]:
    from cronhpa.kube.discovery import Discovery

    needed = {"cpu": 0, "memory": 0}
    by_label = {one.label: one for one in given}
    discovery = Discovery(client)
    for row in preview.rows:
        spec = by_label[row.label].spec
        resource = await discovery.resource(spec.target.api_version, spec.target.kind)
        target = await client.get(resource.path(spec.namespace, spec.target.name), dict)
        added = max(row.during[0] - max(row.now or 0, row.before[0]), 0)
        _add(needed, _requests(target.get("spec", {}).get("template", {}).get("spec", {})), added)
    return needed


async def _listed(client: Client, path: str) -> AsyncIterator[dict[str, Any]]:
    async for items, _ in client.pages(path):
        for raw in items:
            yield json.loads(bytes(raw))


def _add(total: dict[str, int], amounts: Mapping[str, int], times: int) -> None:
    for name, amount in amounts.items():
        total[name] += times * amount


def _amounts(stated: Any) -> dict[str, int]:
    from cronhpa.core.model.quantity import parse_milli

    return {name: parse_milli(str(stated[name])) for name in ("cpu", "memory") if name in (stated or {})}


def _requests(pod: Mapping[str, Any]) -> dict[str, int]:
    total = {"cpu": 0, "memory": 0}
    for container in pod.get("containers") or ():
        _add(total, _amounts(container.get("resources", {}).get("requests")), 1)
    return total


# --- output ------------------------------------------------------------------------------------------------------


def as_lines(preview: EventPreview, now: Nanoseconds) -> Iterable[str]:
    """The table of one event."""
    from cronhpa.core.model.local_time import format_ahead

    event = preview.event
    where = f"{event.namespace}/{event.name}" if event.namespace else event.name
    if preview.start is None:
        yield f"{where}: {event.reason}: no window of it opens any more"
        return
    when = "now" if preview.start == now else format_ahead(preview.start, preview.zone, now)
    yield f"{where}: {event.reason}, from {when} ({preview.zone})"
    if event.suspend:
        yield "  suspended: it holds for nobody until suspend is false"
    if not preview.rows:
        yield "  it concerns no object: compare its selector with `kubectl get chpa --show-labels`"
        return
    cells = [("OBJECT", "NOW", "BEFORE", "DURING", "WHY")]
    for row in preview.rows:
        shown = "" if row.now is None else str(row.now)
        cells.append((row.label, shown, _bounds(row.before), _bounds(row.during), row.why))
    low = [sum(row.before[0] for row in preview.rows), sum(row.during[0] for row in preview.rows)]
    known = [row.now for row in preview.rows if row.now is not None]
    short = sum(row.short for row in preview.rows)
    total = f"{len(preview.rows)} objects"
    cells.append(
        (total, str(sum(known)) if known else "", str(low[0]), str(low[1]), f"short of {short}" if short else "")
    )
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    for line in cells:
        padded = [text.ljust(width) for text, width in zip(line[:4], widths, strict=True)]
        yield "  ".join([*padded, line[4]]).rstrip()
    yield from _room_lines(preview)


def _bounds(bounds: tuple[int, int]) -> str:
    return f"{bounds[0]} to {bounds[1]}"


def _room_lines(preview: EventPreview) -> Iterable[str]:
    room = preview.room
    if isinstance(room, str):
        yield room
    elif room is not None:
        for name, unit, size in (("cpu", "cores", _MILLI), ("memory", "GiB", _MILLI << 30)):
            needed, free = room.needed[name] / size, room.free[name] / size
            lacks = f": short of {needed - free:.1f} {unit} unless nodes are added" if needed > free else ""
            yield f"nodes: the added pods request {needed:.1f} {unit}, {free:.1f} are free{lacks}"


def as_json(previews: Sequence[EventPreview]) -> str:
    """For programs: the same as the table."""
    out = []
    for preview in previews:
        rows = [
            {
                "object": row.label,
                "replicas": row.now,
                "before": {"min": row.before[0], "max": row.before[1]},
                "during": {"min": row.during[0], "max": row.during[1]},
                "short": row.short,
                "why": row.why,
            }
            for row in preview.rows
        ]
        room = preview.room
        out.append(
            {
                "event": preview.event.name,
                "namespace": preview.event.namespace or None,
                "reason": preview.event.reason,
                "start": None if preview.start is None else format_instant(preview.start),
                "objects": rows,
                "pods": sum(row.during[0] for row in preview.rows),
                "short": sum(row.short for row in preview.rows),
                "nodes": {"freeMilli": dict(room.free), "neededMilli": dict(room.needed)}
                if isinstance(room, Room)
                else room,
            }
        )
    return json.dumps(out, indent=2)


def previews_of(
    documents: Sequence[EventDocument], paths: Sequence[Path], where: ObjectLocation, now: Nanoseconds
) -> list[EventPreview]:
    """
    The previews of all events: of the CronHPA objects in the same files, else of those in the cluster.

    Raises ObjectInputError.
    """
    from msgspec.structs import replace

    from cronhpa.cli.objects.cluster import connected
    from cronhpa.cli.objects.object_inputs import find, objects_in

    offline = objects_in(paths, where)
    if offline:
        return [preview_event(document, offline, now) for document in documents]
    everywhere = any(document.is_of_cluster for document in documents)
    given = find([], replace(where, everywhere=where.everywhere or everywhere))

    async def read() -> list[EventPreview]:
        async with connected(where.kubeconfig, where.context, where.namespace) as cluster:
            labels = await _labels(cluster.client) if everywhere else {}
            made = [preview_event(document, given, now, labels) for document in documents]
            return [replace(one, room=await room_for(cluster.client, one, given)) for one in made]

    return asyncio.run(read())


async def _labels(client: Client) -> Labels:
    """Empty where namespaces may not be listed: then they are known by name alone."""
    from cronhpa.kube.errors import ClusterError

    try:
        listed = [namespace async for namespace in _listed(client, "/api/v1/namespaces")]
    except ClusterError:
        return {}
    return {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in listed}


def with_live_events(given: Sequence[ObjectInput], where: ObjectLocation) -> list[ObjectInput]:
    """
    The objects with the schedules of the planned events in the cluster that pick them.

    The load that an event expects is not known here: its stated floor counts. Without the CRDs, or the right to list
    events, there are none.
    """
    from msgspec.structs import replace

    from cronhpa.cli.objects.cluster import connected
    from cronhpa.core.schedules.events import with_events

    async def read() -> list[EventDocument]:
        async with connected(where.kubeconfig, where.context, where.namespace) as cluster:
            names = sorted({one.spec.namespace for one in given if one.is_live})
            return [event async for event in _live_events(cluster.client, names)]

    events = asyncio.run(read())
    out = []
    for one in given:
        picking = [document.event for document in events if one.is_live and _picks(document, one, {})]
        out.append(replace(one, spec=with_events(one.spec, picking)) if picking else one)
    return out


async def _live_events(client: Client, namespaces: Sequence[str]) -> AsyncIterator[EventDocument]:
    from cronhpa.api.identity import CLUSTER_EVENT_PLURAL, EVENT_PLURAL, GROUP, VERSION
    from cronhpa.api.parse_event import parse_event
    from cronhpa.kube.client import path_of
    from cronhpa.kube.errors import ClusterError

    paths = [path_of("apis", GROUP, VERSION, "namespaces", name, EVENT_PLURAL) for name in namespaces]
    for path in (*paths, path_of("apis", GROUP, VERSION, CLUSTER_EVENT_PLURAL)):
        try:
            async for body in _listed(client, path):
                meta = body["metadata"]
                event = parse_event(meta["name"], meta.get("namespace", ""), body.get("spec"))
                yield EventDocument(event, not event.namespace)
        except ClusterError:
            continue

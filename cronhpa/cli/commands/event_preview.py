"""`cronhpa preview EVENT.yaml`: what a planned event would ask of each object, in all, and of the nodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.cli.objects.event_documents import EventDocument, EventFileError
from cronhpa.cli.objects.named_calendars import events_with_days, objects_with_days
from cronhpa.cli.objects.node_room import Room, listed, room_for
from cronhpa.cli.objects.object_inputs import ObjectInput, ObjectLocation
from cronhpa.core.model.instant import Nanoseconds, format_instant

if TYPE_CHECKING:
    from cronhpa.core.model.calendar import Calendars
    from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
    from cronhpa.core.model.spec import Spec
    from cronhpa.core.schedules.events import Asked, ExpectedReplicas
    from cronhpa.kube.client import Client

_MILLI = 1000
Labels = Mapping[str, Mapping[str, str]]
"""The labels of namespaces, by their names."""
Loads = Mapping[str, Sequence[tuple[Nanoseconds, float]]]
"""(end, largest load) of recorded minutes or five minutes, by the label of the object."""


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
    is_torn: bool = False
    """Whether bounds contradict each other then."""


class EventPreview(Struct, frozen=True):
    event: PlannedEvent
    start: Nanoseconds | None
    zone: str
    rows: tuple[EventRow, ...]
    room: Room | str | None = None
    """A text where it cannot be told, and None without a cluster."""
    picked: tuple[ObjectInput, ...] = ()
    """The objects that it concerns, with its schedules in their specs."""
    opens: str = ""
    """The schedule that opens then, of an event with several that open one after the other."""
    until: Nanoseconds | None = None
    """The end of the span before which none of its windows opens; None where starts were looked for without an end."""


def preview_event(
    document: EventDocument,
    given: Sequence[ObjectInput],
    now: Nanoseconds,
    labels_of: Labels | None = None,
    loads: Loads | None = None,
    others: Sequence[EventDocument] = (),
) -> list[EventPreview]:
    """
    The rows of all objects that the event picks, at each start that comes next; one preview without rows if none does.

    labels_of: the labels of namespaces; without them a namespace has its name alone. loads: the recorded load of each
    object, by its label. others: further events, which hold before and during this one.
    """
    from cronhpa.core.schedules import windows
    from cronhpa.core.schedules.events import starts

    event = document.event
    instants = starts(event, now)
    if not instants:
        return [EventPreview(event, None, "UTC", ())]
    out = []
    for at in instants:
        opening = [one.schedule for one in event.unsuspended if windows.state(one.schedule.window, at).is_open]
        zone = (opening or [one.schedule for one in event.unsuspended])[0].window.zone
        new = [one.name for one in opening if not windows.state(one.window, at - 1).is_open] or [
            one.name for one in opening
        ]
        made = _preview_at(document, given, at, zone, labels_of or {}, loads or {}, others)
        out.append(replace(made, opens=", ".join(new) if len(event.schedules) > 1 else ""))
    return out


def before(end: Nanoseconds, previews: Sequence[EventPreview]) -> list[EventPreview]:
    """Those that start before the end; of an event that does not, one without a start and objects."""
    kept = [one for one in previews if one.start is None or one.start < end]
    keys = {one.event.key for one in kept}
    later = {one.event.key: one for one in reversed(previews) if one.event.key not in keys}
    return [*kept, *(EventPreview(one.event, None, one.zone, (), until=end) for one in reversed(later.values()))]


def _preview_at(
    document: EventDocument,
    given: Sequence[ObjectInput],
    at: Nanoseconds,
    zone: str,
    labels_of: Labels,
    loads: Loads,
    others: Sequence[EventDocument],
) -> EventPreview:
    from cronhpa.core.schedules.events import asked_of, with_events
    from cronhpa.core.schedules.ranks import settled_at

    event = document.event
    rows, picked = [], []
    for one in given:
        if not _picks(document, one, labels_of):
            continue
        expected = _expected(one, loads.get(one.label, ()), at)
        beside = [other.event for other in others if _picks(other, one, labels_of)]
        before = with_events(one.spec, beside, expected)
        spec = with_events(one.spec, [*beside, event], expected)
        was, becomes = settled_at(before, at), settled_at(spec, at)
        demand = asked_of(event, spec, at, expected)
        bounds = (was.minimum.number, was.maximum.number), (becomes.minimum.number, becomes.maximum.number)
        torn = contradiction_of(event, spec, at)
        rows.append(_row(one, event, demand, bounds, expected, torn))
        picked.append(replace(one, spec=spec))
    return EventPreview(event, at, zone, tuple(rows), picked=tuple(picked))


def contradiction_of(event: PlannedEvent, spec: Spec, at: Nanoseconds) -> str:
    """A contradiction of an event with other bounds of an object, from an instant on; "" if there is none."""
    from cronhpa.core.schedules.conflicts import conflicts
    from cronhpa.core.schedules.events import schedule_names

    names = schedule_names(event)
    return next((str(one) for one in conflicts(spec, at) if not names.isdisjoint(one.sources)), "")


def _expected(one: ObjectInput, maxima: Sequence[tuple[Nanoseconds, float]], at: Nanoseconds) -> ExpectedReplicas:
    """
    The replicas for the load that a schedule expects, as the operator computes them; None where too little is recorded.

    maxima: (end, largest load) of the recorded minutes or five minutes.
    """
    from cronhpa.core.forecasts.floor import replicas_for
    from cronhpa.core.schedules import windows
    from cronhpa.history.load.usual_load import steps_of, usual_load

    def expected(_: PlannedEvent, event_schedule: EventSchedule) -> int | None:
        window = event_schedule.schedule.window
        found = windows.occurrence(window, at)
        if found is None or event_schedule.expected_load_percent is None:
            return None
        usual = usual_load(lambda since, until: steps_of(maxima, since, until), window, *found)
        if usual is None:
            return None
        return replicas_for(one.spec, usual * event_schedule.expected_load_percent / 100, one.memory.request_per_pod)

    return expected


def _row(
    one: ObjectInput,
    event: PlannedEvent,
    demand: Asked,
    bounds: tuple[tuple[int, int], tuple[int, int]],
    expected: ExpectedReplicas,
    torn: str,
) -> EventRow:
    from cronhpa.core.model.spec import Mode

    before, during = bounds
    status = one.body.get("status")
    now = status.get("currentReplicas") if one.is_live and isinstance(status, Mapping) else None
    reasons = []
    if demand.short:
        is_own = during[1] == one.spec.max_replicas
        upper = f"its maxReplicas is {during[1]}" if is_own else f"its upper bound is {during[1]} then"
        reasons.append(f"short of {demand.short}: {upper}")
    if during[0] < before[0]:
        reasons.append(f"lowers its lower bound by {before[0] - during[0]}")
    if demand.percent_of_nothing:
        reasons.append("a percentage of its lower bound of 0 is 0: state minReplicas")
    if torn:
        reasons.append(f"contradiction: {torn}")
    by_load = [
        event_schedule for event_schedule in event.unsuspended if event_schedule.expected_load_percent is not None
    ]
    if any(expected(event, event_schedule) is None for event_schedule in by_load):
        reasons.append("its usual load is not known here: the operator may ask for more")
    elif by_load:
        reasons.append(
            f"{max(event_schedule.expected_load_percent or 0 for event_schedule in by_load)} % of its usual load"
        )
    if one.spec.mode is Mode.PREVIEW:
        reasons.append("in mode Preview: not scaled")
    if during == before:
        reasons.append("nothing changes")
    return EventRow(
        one.label, now if isinstance(now, int) else None, before, during, demand.short, "; ".join(reasons), bool(torn)
    )


def _picks(document: EventDocument, one: ObjectInput, labels_of: Labels) -> bool:
    from cronhpa.operator.objects.planned_events import seen_of

    event = document.event
    labels = one.body["metadata"].get("labels") or {}
    namespace = one.spec.namespace
    if event.namespace and namespace and event.namespace != namespace:
        return False
    of_namespace = labels_of.get(namespace, {"kubernetes.io/metadata.name": namespace})
    return seen_of(event).picks(event.namespace or namespace, labels, of_namespace)


# --- output ------------------------------------------------------------------------------------------------------


def as_lines(preview: EventPreview, now: Nanoseconds) -> Iterable[str]:
    """The table of one event."""
    from cronhpa.cli.tables.time_format import format_moment
    from cronhpa.core.model.local_time import local_times

    event = preview.event
    where = f"{event.namespace}/{event.name}" if event.namespace else event.name
    if preview.start is None:
        when = "any more" if preview.until is None else f"before {format_moment(preview.until, preview.zone)}"
        yield f"{where}: {event.reason}: no window of it opens {when}"
        return
    when = "now" if preview.start == now else _start(preview)
    yield f"{where}{preview.opens and f' ({preview.opens})'}: {event.reason}, from {when} ({preview.zone})"
    if event.suspend:
        yield "  suspended: it holds for nobody until suspend is false"
    if not preview.rows:
        yield "  it concerns no object: compare its selector with metadata.labels (`kubectl get chpa --show-labels`)"
        return
    cells = [("OBJECT", "NOW", "BEFORE", "DURING", "WHY")]
    for row in preview.rows:
        shown = "" if row.now is None else str(row.now)
        cells.append(
            (row.label, shown, _bounds(row.before), _bounds(row.during), local_times(row.why, preview.zone, now))
        )
    low = [sum(row.before[0] for row in preview.rows), sum(row.during[0] for row in preview.rows)]
    known = [row.now for row in preview.rows if row.now is not None]
    short = sum(row.short for row in preview.rows)
    total = f"{len(preview.rows)} object{'s' * (len(preview.rows) != 1)}"
    cells.append(
        (total, str(sum(known)) if known else "", str(low[0]), str(low[1]), f"short of {short}" if short else "")
    )
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    for line in cells:
        padded = [text.ljust(width) for text, width in zip(line[:4], widths, strict=True)]
        yield "  ".join([*padded, line[4]]).rstrip()
    yield from _room_lines(preview, when)


def difference_lines(old: Sequence[EventPreview], new: Sequence[EventPreview]) -> list[str]:
    """What differs between two versions of events: their starts, and the bounds of each object; [] if nothing does."""
    lines: list[str] = []
    was, becomes = (
        {(one.event.namespace, one.event.name, one.opens): one for one in versions} for versions in (old, new)
    )
    for key in sorted({*was, *becomes}):
        before, after = was.get(key), becomes.get(key)
        changes = [*_changes(before, after)]
        if changes:
            change = "removed" if after is None else "added" if before is None else "changed"
            lines += [f"{'/'.join(filter(None, key))}: {change}", *(f"  {line}" for line in changes)]
    return lines


def _changes(before: EventPreview | None, after: EventPreview | None) -> Iterable[str]:
    starts = [_start(version) for version in (before, after)]
    if starts[0] != starts[1]:
        yield f"start: {starts[0]} -> {starts[1]}"
    rows = [{} if version is None else {row.label: row for row in version.rows} for version in (before, after)]
    for label in sorted({*rows[0], *rows[1]}):
        shown = ["not concerned" if label not in of else _bounds(of[label].during) for of in rows]
        if shown[0] != shown[1]:
            yield f"{label}: {shown[0]} -> {shown[1]}"


def _start(preview: EventPreview | None) -> str:
    from cronhpa.cli.tables.time_format import format_moment

    if preview is None or preview.start is None:
        return "none"
    return format_moment(preview.start, preview.zone)


def _bounds(bounds: tuple[int, int]) -> str:
    return f"{bounds[0]} to {bounds[1]}"


def _room_lines(preview: EventPreview, when: str) -> Iterable[str]:
    room = preview.room
    if isinstance(room, str):
        yield room
    elif room is not None:
        for name, unit, size in (("cpu", "cores", _MILLI), ("memory", "GiB", _MILLI << 30)):
            needed, free = room.needed[name] / size, room.free[name] / size
            text = f"nodes: the added pods request {needed:.1f} {unit}, {free:.1f} are free"
            lacks = f": short of {needed - free:.1f} {unit} from {when} on, unless nodes are added"
            yield text + (lacks if needed > free else "")
        if len(room.pools) > 1:
            of_pools = (
                f"{pool or 'of no pool'} {free['cpu'] / _MILLI:.1f} cores, {free['memory'] / (_MILLI << 30):.1f} GiB"
                for pool, free in sorted(room.pools.items())
            )
            yield f"free by node pool: {'; '.join(of_pools)}"


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
                "schedule": preview.opens or None,
                "start": None if preview.start is None else format_instant(preview.start),
                "objects": rows,
                "pods": sum(row.during[0] for row in preview.rows),
                "short": sum(row.short for row in preview.rows),
                "nodes": {
                    "freeMilli": dict(room.free),
                    "neededMilli": dict(room.needed),
                    "freeMilliByPool": {pool: dict(free) for pool, free in room.pools.items()},
                }
                if isinstance(room, Room)
                else room,
            }
        )
    return json.dumps(out, indent=2)


def previews_of(
    documents: Sequence[EventDocument],
    paths: Sequence[Path],
    where: ObjectLocation,
    calendars: Calendars,
    now: Nanoseconds,
) -> list[EventPreview]:
    """
    The previews of all events: of the CronHPA objects in the same files, else of those in the cluster.

    The load that an event expects is asked of the operator. Raises ObjectInputError, and EventFileError for a calendar
    that no file was named for.
    """
    from cronhpa.cli.objects.cluster import connected
    from cronhpa.cli.objects.object_inputs import ObjectInputError, find, objects_in

    documents = events_with_days(documents, calendars)
    problems = [f"{one.event.title}: {problem}" for one in documents for problem in one.event.problems]
    if problems:
        raise EventFileError(problems)
    offline = objects_with_days(objects_in(paths, where), calendars)
    if offline:
        return [
            made
            for document in documents
            for made in preview_event(
                document, offline, now, others=[other for other in documents if other is not document]
            )
        ]
    everywhere = any(document.is_of_cluster for document in documents)
    try:
        if everywhere or where.everywhere:
            given = find([], replace(where, everywhere=True))
        else:
            # An event concerns the objects of its own namespace, whatever that of the context is.
            of_events = sorted({document.event.namespace for document in documents})
            given = [one for name in of_events for one in find([], replace(where, namespace=name or where.namespace))]
    except ObjectInputError as error:
        hint = "or give the files of the event's objects, too"
        raise ObjectInputError([f"{problem}; {hint}" for problem in error.problems]) from error
    given = objects_with_days(given, calendars)

    async def read() -> list[EventPreview]:
        async with connected(where.kubeconfig, where.context, where.namespace) as cluster:
            written = {document.event.key for document in documents}
            names = sorted({one.spec.namespace for one in given})
            live = [other async for other in _live_events(cluster.client, names) if other.event.key not in written]
            events = [*documents, *events_with_days(live, calendars)]
            labels = await _labels(cluster.client, events)
            by_load = [one for one in events if any(stated.expected_load_percent for stated in one.event.schedules)]
            concerned = [one for one in given if any(_picks(document, one, labels) for document in documents)]
            picked = [one for one in concerned if any(_picks(event, one, labels) for event in by_load)]
            loads = await _loads(picked, where) if picked else {}
            made = [
                one
                for document in documents
                for one in preview_event(
                    document, given, now, labels, loads, [other for other in events if other is not document]
                )
            ]
            by_label = {one.label: one.spec for one in given}
            return [replace(one, room=await room_for(cluster.client, _added(one, by_label))) for one in made]

    return asyncio.run(read())


async def _loads(given: Sequence[ObjectInput], where: ObjectLocation) -> Loads:
    """What the operator recorded of the objects; a remark and nothing where it cannot be asked."""
    from cronhpa.cli.past.past_of_replicas import PastSourceError
    from cronhpa.cli.past.past_source import PastLocation, opened
    from cronhpa.cli.terminal.console import say
    from cronhpa.core.forecasts.floor import forecast_source
    from cronhpa.history.database.series import Series
    from cronhpa.kube.errors import ClusterError

    loads: dict[str, list[tuple[Nanoseconds, float]]] = {}
    try:
        async with opened(PastLocation(kubeconfig=where.kubeconfig, context=where.context)) as past:
            for one in given:
                source = forecast_source(one.spec)
                if source is None:
                    continue
                answer = await past.load(Series(one.spec.namespace, one.name, source.name))
                if answer is not None:
                    loads[one.label] = [(maximum.end, maximum.value) for maximum in answer.maxima]
    except (PastSourceError, ClusterError) as problem:
        # Its further lines are advice for other commands.
        say(f"usual loads are left out: {str(problem).splitlines()[0]}", err=True)
    return loads


def _added(preview: EventPreview, specs: Mapping[str, Spec]) -> list[tuple[Spec, int]]:
    """The pods that an event adds to each object."""
    return [(specs[row.label], max(row.during[0] - max(row.now or 0, row.before[0]), 0)) for row in preview.rows]


async def _labels(client: Client, events: Sequence[EventDocument]) -> Labels:
    """
    The labels of namespaces if an event asks for them.

    Empty where namespaces may not be listed: then they are known by name alone.
    """
    from cronhpa.kube.errors import ClusterError

    if all(document.event.namespace_selector is None for document in events):
        return {}
    try:
        namespaces = [namespace async for namespace in listed(client, "/api/v1/namespaces")]
    except ClusterError:
        return {}
    return {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in namespaces}


def with_live_events(given: Sequence[ObjectInput], where: ObjectLocation, now: Nanoseconds) -> list[ObjectInput]:
    """
    The objects with the schedules of the planned events in the cluster that they take over at `now`.

    The load that an event expects is not known here: its stated floor counts. Without the CRDs, or the right to list
    events, there are none.
    """
    from cronhpa.cli.objects.cluster import connected

    async def read() -> tuple[list[EventDocument], Labels]:
        async with connected(where.kubeconfig, where.context, where.namespace) as cluster:
            names = sorted({one.spec.namespace for one in given if one.is_live})
            found = [event async for event in _live_events(cluster.client, names)]
            return found, await _labels(cluster.client, found)

    events, labels = asyncio.run(read())
    return [_taking_over(one, events if one.is_live else (), labels, now) for one in given]


def objects_with_events(
    files: Sequence[Path], where: ObjectLocation, calendars: Calendars, now: Nanoseconds
) -> list[ObjectInput]:
    """
    The objects of files with the schedules of the planned events in them that they take over at `now`.

    Raises ObjectInputError and EventFileError.
    """
    from cronhpa.cli.objects.event_documents import read_events
    from cronhpa.cli.objects.object_inputs import objects_in

    events = events_with_days(read_events(files, where.namespace or ""), calendars)
    given = objects_with_days(objects_in(files, where), calendars)
    return [_taking_over(one, events, {}, now) for one in given]


def _taking_over(one: ObjectInput, events: Sequence[EventDocument], labels: Labels, now: Nanoseconds) -> ObjectInput:
    from cronhpa.core.schedules.events import taken_over, with_events

    picking = [document.event for document in events if _picks(document, one, labels)]
    return replace(one, spec=with_events(one.spec, taken_over(picking, now)))


async def _live_events(client: Client, namespaces: Sequence[str]) -> AsyncIterator[EventDocument]:
    from cronhpa.api.identity import CLUSTER_EVENT_PLURAL, EVENT_PLURAL, GROUP, VERSION
    from cronhpa.api.parse_event import parse_event
    from cronhpa.kube.client import path_of
    from cronhpa.kube.errors import ClusterError

    paths = [path_of("apis", GROUP, VERSION, "namespaces", name, EVENT_PLURAL) for name in namespaces]
    for path in (*paths, path_of("apis", GROUP, VERSION, CLUSTER_EVENT_PLURAL)):
        try:
            async for body in listed(client, path):
                meta = body["metadata"]
                event = parse_event(meta["name"], meta.get("namespace", ""), body.get("spec"))
                yield EventDocument(event, not event.namespace)
        except ClusterError:
            continue

"""The status of a planned event: the plan, and then the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cronhpa.api.events import Event
from cronhpa.api.resource.events import MAX_NAMESPACES_TOLD, MAX_PAST_REPORTS, MAX_SHARDS_TOLD
from cronhpa.api.status_text import clip
from cronhpa.core.model.instant import MINUTE, Nanoseconds, format_instant, parse_instant
from cronhpa.core.model.local_time import format_ahead
from cronhpa.core.model.planned_event import PlannedEvent
from cronhpa.core.model.quantity import format_milli
from cronhpa.core.model.spec import Schedule
from cronhpa.core.schedules import windows
from cronhpa.core.schedules.events import Phase, closes_at, opened_at
from cronhpa.core.schedules.usual_days import has_usual_weekdays

_NAMED_MAX = 5
# The notes of 256 shards fit into one object: 256 x 8 x 512 characters are 1 MiB, etcd takes 1.5.
_NOTE_MAX = 512
_ADDED = ("cpu", "memory")
_TOLD = {
    "peakPods": "pods at the peak",
    "minutesAtMax": "minutes at the maximum",
    "minutesShort": "minutes short",
    "unneededPodMinutes": "pod-minutes that no metric asked for",
}
EVENT_NUMBERS = ("objects", "pods", "podsNow", "short", "ready")
"""The numbers of a namespace in a status, and those of all namespaces together."""


class ObjectPart(Struct, frozen=True):
    """An object that an event concerns, as last decided."""

    namespace: str
    name: str
    pods: int
    """The replicas that all its sources ask for at least, at the instant of the plan."""
    pods_now: int
    short: int
    """The replicas that its maxReplicas keeps from the event."""
    is_ready: bool
    """Whether its pods are Ready at the count that is asked for."""
    requests: Mapping[str, int] = {}
    """Milli-units that a pod of it requests, by resource; empty while no pod was seen."""
    is_leading: bool = False
    is_at_max: bool = False
    is_under_provisioned: bool = False
    unneeded: int = 0
    """Pods above what its metrics asked for."""
    is_preview: bool = False
    is_load_unknown: bool = False
    """Whether the event expects a load of which the usual one is not known."""
    is_elsewhere: bool = False
    """Whether another installation of the operator serves it, and may not read this event."""
    is_unreadable: bool = False
    """Whether its spec cannot be read, so that nothing is decided for it."""
    is_left_out: bool = False
    """Whether the object has too many events to take this one over."""
    is_percent_of_nothing: bool = False
    """Whether the event asks for a percentage of a lower bound of 0."""
    conflict: str = ""
    """A contradiction in which a schedule of the event takes part."""
    shard: int = 0


class EventLook(Struct, frozen=True):
    """An event and its objects at an instant."""

    event: PlannedEvent
    generation: int
    phase: Phase
    parts: tuple[ObjectPart, ...]
    now: Nanoseconds
    elapsed: Nanoseconds
    """Since they were looked at last."""
    shards: int = 1
    """Into how many the cluster is divided; 0 if operators of some namespaces each have a row."""
    held: frozenset[int] = frozenset({0})
    """Those of them whose objects are in `parts`; the others' numbers are those of the status before."""
    aside: str = ""
    """What keeps the operator from some of the objects that the event selects."""
    is_unread: bool = False
    """Whether a calendar that it names cannot be read, so that its objects are not scaled down."""

    @property
    def is_active(self) -> bool:
        """Whether the event holds now; a suspended one holds for no object."""
        return self.phase.is_open and not self.event.suspend


class EventSums(Struct):
    """What the objects of one replica add to the report of an event, in minutes; whole ones are taken when written."""

    minutes_at_max: float = 0.0
    minutes_short: float = 0.0
    unneeded_pod_minutes: float = 0.0

    def add(self, look: EventLook) -> None:
        """Adds the time since the look before."""
        if look.is_active:
            minutes = look.elapsed / MINUTE
            self.minutes_at_max += minutes * sum(part.is_at_max for part in look.parts)
            self.minutes_short += minutes * sum(part.is_under_provisioned for part in look.parts)
            self.unneeded_pod_minutes += minutes * sum(part.unneeded for part in look.parts)

    @property
    def whole(self) -> dict[str, int]:
        """The whole minutes, by the names of the report."""
        return {
            "minutesAtMax": int(self.minutes_at_max),
            "minutesShort": int(self.minutes_short),
            "unneededPodMinutes": int(self.unneeded_pod_minutes),
        }

    def take_whole(self) -> None:
        """Leaves the fractions."""
        self.minutes_at_max %= 1
        self.minutes_short %= 1
        self.unneeded_pod_minutes %= 1


def event_status(
    look: EventLook, previous: Mapping[str, Any], sums: EventSums, others: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """
    The whole status, as the API has it.

    previous: the status before, whose report goes on. sums: what is to be added to it. others: the rows of namespaces
    that another replica, or an operator of other namespaces, serves.
    """
    event, phase, now = look.event, look.phase, look.now
    shares = shares_of(look.parts)
    if look.shards != 1:
        shares = sorted([*shares, *_others(look, previous)][:MAX_SHARDS_TOLD], key=lambda share: share.shard)
    total = {key: sum(share.numbers[key] for share in shares) for key in EVENT_NUMBERS}
    status: dict[str, Any] = {
        "observedGeneration": look.generation,
        "state": _state(event, phase, shares, total["objects"]),
    }
    status |= total
    if added := _added(shares):
        status["addedRequests"] = added
    if not look.is_active:
        del status["ready"]
    if phase.edge is not None and not event.suspend:
        edge = phase.edge
        zone = next(one.schedule.window.zone for one in event.schedules if one.schedule.name == edge.schedule)
        status["nextEdge"] = {"time": format_instant(edge.at), "schedule": edge.schedule, "state": str(edge.state)}
        status["columns"] = {"next": format_ahead(edge.at, zone, now)}
    rows = sorted([*_rows(look.parts), *others], key=lambda row: (-row["pods"], row["namespace"]))
    status["namespaces"] = rows[:MAX_NAMESPACES_TOLD]
    reports = [one for one in (previous.get("report"), *(previous.get("pastReports") or ())) if _is_report(one)]
    report, *past = _reports(look, total, reports, sums)
    if report:
        status["report"] = report
    if past:
        status["pastReports"] = past[:MAX_PAST_REPORTS]
    if look.shards != 1:
        status["shards"] = [share.written(look.shards, look.generation) for share in shares]
    status["conditions"] = _conditions(look, shares, total, previous.get("conditions") or ())
    return status


def status_events(previous: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Event]:
    """The Kubernetes events of a planned event between two of its statuses: what people act on, once each."""
    before, report = previous.get("report") or {}, status.get("report") or {}
    was_running = _is_running(before)
    ended = ended_report(previous, status)
    if ended is not None:
        counts = ", ".join(f"{ended[key]} {name}" for key, name in _TOLD.items() if key in ended)
        yield Event("Normal", "EventEnded", counts)
    if _is_running(report) and not (was_running and before.get("opened") == report["opened"]):
        text = (
            f"{status['ready']} of {status['objects']} objects are Ready at their count; "
            f"it asks for {status['pods']} pods in all"
        )
        yield Event("Normal", "EventStarted", text)
    before = {one.get("type"): one for one in previous.get("conditions") or () if isinstance(one, Mapping)}
    for condition in status["conditions"]:
        # A suspended event, or one that ran to its end, needs nobody.
        if condition["type"] == "Scheduled" and (condition["reason"] == "Suspended" or report):
            continue
        if condition["status"] == "False" and before.get(condition["type"], {}).get("status") != "False":
            yield Event("Warning", condition["reason"], condition["message"])


def running_report(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The report of the window that is open; None if none is."""
    report = status.get("report")
    return report if _is_running(report) and _is_report(report) else None


def ended_report(previous: Mapping[str, Any], status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The report that ended between two statuses; None if none did."""
    before = running_report(previous)
    every = [] if before is None else [status.get("report") or {}, *status.get("pastReports", ())]
    return next((one for one in every if before and one.get("opened") == before["opened"] and "closed" in one), None)


def _is_running(report: Any) -> bool:
    return isinstance(report, Mapping) and "opened" in report and "closed" not in report


class Share(Struct):
    """What the objects of one shard add to a status."""

    shard: int
    numbers: dict[str, int]
    added: dict[str, int]
    """Milli-units that the pods request that the objects do not have yet, by resource."""
    leading: int = 0
    """Objects in which the event leads."""
    notes: dict[str, tuple[int, str]] = {}
    """What its author is to know: of how many objects, and their names."""

    def written(self, shards: int, generation: int) -> dict[str, Any]:
        """As in the status."""
        return {
            "shard": self.shard,
            "of": shards,
            "observedGeneration": generation,
            **self.numbers,
            "leading": self.leading,
            "addedMilli": {resource: str(amount) for resource, amount in self.added.items()},
            "notes": [
                {"about": about, "objects": objects, "text": text} for about, (objects, text) in self.notes.items()
            ],
        }


_NOTES: dict[str, Callable[[ObjectPart], Any]] = {
    "preview": lambda part: part.is_preview,
    "elsewhere": lambda part: part.is_elsewhere,
    "unreadable": lambda part: part.is_unreadable,
    "short": lambda part: part.short,
    "loadUnknown": lambda part: part.is_load_unknown,
    "leftOut": lambda part: part.is_left_out,
    "percentOfNothing": lambda part: part.is_percent_of_nothing,
    "conflict": lambda part: part.conflict,
}


def shares_of(parts: Iterable[ObjectPart]) -> list[Share]:
    """The parts by shard."""
    by_shard: dict[int, list[ObjectPart]] = {}
    for part in parts:
        by_shard.setdefault(part.shard, []).append(part)
    return [_share(shard, of) for shard, of in by_shard.items()]


def _share(shard: int, parts: Sequence[ObjectPart]) -> Share:
    numbers = {
        "objects": len(parts),
        "pods": sum(part.pods for part in parts),
        "podsNow": sum(part.pods_now for part in parts),
        "short": sum(part.short for part in parts),
        "ready": sum(part.is_ready for part in parts),
    }
    added: dict[str, int] = {}
    for part in parts:
        missing = max(part.pods - part.pods_now, 0)
        for resource in _ADDED:
            if missing and resource in part.requests:
                added[resource] = added.get(resource, 0) + missing * part.requests[resource]
    notes: dict[str, tuple[int, str]] = {}
    for about, is_meant in _NOTES.items():
        meant = [part for part in parts if is_meant(part)]
        if meant:
            first = meant[0]
            torn = f"; {first.namespace}/{first.name}: {first.conflict}" if about == "conflict" else ""
            notes[about] = len(meant), clip(_names(meant) + torn, _NOTE_MAX)
    return Share(shard, numbers, added, sum(part.is_leading for part in parts), notes)


def _others(look: EventLook, previous: Mapping[str, Any]) -> Iterator[Share]:
    """
    What other replicas wrote of their shards; what cannot be read, or is of another division, is left out.

    An operator of some namespaces may be gone for good: its row stays until the event is edited.
    """
    for row in previous.get("shards") or ():
        try:
            is_old = not look.shards and row["observedGeneration"] < look.generation
            if row["of"] == look.shards and row["shard"] not in look.held and not is_old:
                added = {str(resource): int(amount) for resource, amount in (row.get("addedMilli") or {}).items()}
                notes = {note["about"]: (int(note["objects"]), str(note["text"])) for note in row.get("notes") or ()}
                numbers = {key: int(row[key]) for key in EVENT_NUMBERS}
                yield Share(int(row["shard"]), numbers, added, int(row.get("leading", 0)), notes)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue


def _added(shares: Iterable[Share]) -> dict[str, str]:
    """What the pods request that the objects do not have yet, as quantities."""
    sums = {resource: sum(share.added.get(resource, 0) for share in shares) for resource in _ADDED}
    return {resource: format_milli(amount, binary=resource == "memory") for resource, amount in sums.items() if amount}


def _rows(parts: Iterable[ObjectPart]) -> list[dict[str, Any]]:
    by_namespace: dict[str, list[ObjectPart]] = {}
    for part in parts:
        by_namespace.setdefault(part.namespace, []).append(part)
    return [{"namespace": namespace, **_share(0, of).numbers} for namespace, of in by_namespace.items()]


def _state(event: PlannedEvent, phase: Phase, shares: Iterable[Share], objects: int) -> str:
    if event.problems:
        return "Refused"
    if event.suspend or not event.unsuspended:
        return "Suspended"
    if not objects:
        return "Empty"
    if phase.is_open:
        return "Active"
    if phase.at is None:
        return "Ended"
    return "Leading" if any(share.leading for share in shares) else "Upcoming"


def _reports(
    look: EventLook, total: Mapping[str, int], reports: Sequence[Mapping[str, Any]], sums: EventSums
) -> list[dict[str, Any]]:
    """
    What came of the windows, the newest first; an empty one if there is none.

    A window may have opened or closed while no operator ran: its times are its own, whatever is seen of it.
    """
    now, event = look.now, look.event
    out = [dict(one) for one in reports]
    running = out[0] if out and _is_running(out[0]) else None
    if running is not None:
        closed = closes_at(event, parse_instant(running["opened"]), now)
        if not look.is_active or closed < now:
            running["closed"] = format_instant(closed)
        for key, minutes in sums.whole.items():
            running[key] = _number(running.get(key)) + minutes
    if look.is_active and (running is None or "closed" in running):
        opened = opened_at(event, now)
        running = {"opened": format_instant(opened), **EventSums().whole}
        # Who comes late, as after an edit or a restart, cannot tell who was Ready then.
        if now - opened <= MINUTE:
            running["readyAtStart"] = total["ready"]
        if out and out[0]["opened"] == running["opened"]:
            # It was suspended or edited meanwhile.
            running = out.pop(0)
            del running["closed"]
        out = [running, *out]
    if running is not None and "closed" not in running:
        running["peakPods"] = max(_number(running.get("peakPods")), total["podsNow"])
    return out or [{}]


def _is_report(value: Any) -> bool:
    return isinstance(value, Mapping) and _is_instant(value.get("opened"))


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _is_instant(text: Any) -> bool:
    try:
        parse_instant(text)
    except (ValueError, TypeError, AttributeError):
        return False
    return True


def _conditions(
    look: EventLook, shares: Sequence[Share], total: Mapping[str, int], previous: Iterable[Any]
) -> list[dict[str, Any]]:
    before = {one.get("type"): one for one in previous if isinstance(one, Mapping)}
    out = []
    for kind, is_true, reason, message in _stated(look, shares, total):
        value = "True" if is_true else "False"
        old = before.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == value else None
        out.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": clip(message),
                "lastTransitionTime": since or format_instant(look.now),
                "observedGeneration": look.generation,
            }
        )
    return out


def _is_of_other_weekdays(schedule: Schedule, at: Nanoseconds) -> bool:
    """Whether the usual load of a schedule is that of other weekdays than its own."""
    found = windows.occurrence(schedule.window, at)
    return found is not None and not has_usual_weekdays(schedule.window, *found)


def _stated(look: EventLook, shares: Sequence[Share], total: Mapping[str, int]) -> Iterator[tuple[str, bool, str, str]]:
    event = look.event

    def noted(about: str) -> tuple[int, str]:
        notes = [share.notes[about] for share in shares if about in share.notes]
        return sum(objects for objects, _ in notes), "; ".join(text for _, text in notes[:_NAMED_MAX])

    if event.problems:
        blocked = f", and its objects ({total['objects']}) are not scaled down meanwhile" if look.is_unread else ""
        message = f"it holds for no object{blocked}: {'; '.join(event.problems)}"
        yield "Accepted", False, "SpecUnreadable", message
        return
    yield "Accepted", True, "SpecReadable", "the event can be read"
    yield _scheduled(look)
    asides = [look.aside] if look.aside else []
    for about, what in (("preview", "are in mode Preview and are not scaled"),
                        ("elsewhere", "are served by another installation, which may not read the event"),
                        ("unreadable", "cannot be read and are not scaled (see their SpecAccepted)")):  # fmt: skip
        count, names = noted(about)
        if count:
            asides.append(f"{count} of them {what}: {names}")
    yield _matched(look, total["objects"], asides, noted("leftOut"))
    short, nothing = noted("short"), noted("percentOfNothing")
    if short[0]:
        message = (
            f"{total['short']} pods are kept from it by upper bounds of {short[1]}: raise maxReplicas there, or state "
            "it in the schedule of the event; a cap of higher priority is named in the object's status"
        )
        yield "Fits", False, "AboveMaximum", message
    elif nothing[0]:
        yield (
            "Fits", False, "PercentOfNothing",
            f"minReplicasPercent asks for nothing of {nothing[1]}, whose lower bound is 0 then: state minReplicas",
        )  # fmt: skip
    else:
        yield "Fits", True, "WithinMaximum", "maxReplicas of no object keeps pods from it"
    by_load = [stated.schedule for stated in event.unsuspended if stated.expected_load_percent is not None]
    if by_load and look.phase.at is not None:
        unknown = noted("loadUnknown")
        others = [one.name for one in by_load if _is_of_other_weekdays(one, look.phase.at)]
        if unknown[0]:
            days = "days" if others else "such weekdays"
            message = (
                f"the usual load of {unknown[1]} is not known (two {days} of the last four weeks without the event are "
                "needed): the other bounds of the schedule hold there"
            )
            yield "LoadKnown", False, "UsualLoadUnknown", message
        else:
            of = ", ".join(others)
            aside = f"; for {of} that of other weekdays, because fewer than two of its own are usual" if of else ""
            yield "LoadKnown", True, "UsualLoadRead", f"the usual load of all objects is known{aside}"
    torn = noted("conflict")
    if torn[0]:
        yield "Consistent", False, "Contradiction", f"its bounds contradict others in {torn[1]}"
    else:
        yield "Consistent", True, "NoContradiction", "its bounds contradict no others"


def _scheduled(look: EventLook) -> tuple[str, bool, str, str]:
    event = look.event
    if event.suspend:
        return "Scheduled", False, "Suspended", "it holds for no object until spec.suspend is false"
    if look.phase.at is None:
        return "Scheduled", False, "NoWindow", "no window of it opens any more: state later times, or delete it"
    return "Scheduled", True, "WindowAhead", "a window of it is open, or opens later"


def _matched(
    look: EventLook, objects: int, asides: Sequence[str], left_out: tuple[int, str]
) -> tuple[str, bool, str, str]:
    event = look.event
    if not objects:
        where = f"in namespace {event.namespace}" if event.namespace else "in the namespaces of namespaceSelector"
        compare = "compare `kubectl get chpa --show-labels`"
        message = f"no CronHPA {where} has labels that the selector asks for: {look.aside or compare}"
        return "Matched", False, "NothingMatched", message
    if left_out[0]:
        message = (
            f"it does not hold for {left_out[1]}: an object takes over 50 schedules, of the first 100 events of its "
            "namespace by name: delete events, or join them"
        )
        return "Matched", False, "TooManyEvents", message
    message = "; ".join([f"it concerns {objects} objects", *asides])
    return "Matched", True, "ObjectsMatched", message


def _names(parts: Sequence[ObjectPart]) -> str:
    named = ", ".join(f"{part.namespace}/{part.name}" for part in parts[:_NAMED_MAX])
    return named if len(parts) <= _NAMED_MAX else f"{named} and {len(parts) - _NAMED_MAX} more"

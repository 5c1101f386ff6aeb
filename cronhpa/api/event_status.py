"""The status of a planned event: the plan, and then the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cronhpa.api.events import Event
from cronhpa.api.resource.events import MAX_NAMESPACES_TOLD, MAX_PAST_REPORTS
from cronhpa.api.status_text import clip
from cronhpa.core.model.instant import MINUTE, Nanoseconds, format_instant, parse_instant
from cronhpa.core.model.local_time import format_ahead
from cronhpa.core.model.planned_event import PlannedEvent
from cronhpa.core.model.quantity import format_milli
from cronhpa.core.schedules.events import Phase

_NAMED_MAX = 5
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
    conflict: str = ""
    """A contradiction in which a schedule of the event takes part."""


class EventLook(Struct, frozen=True):
    """An event and its objects at an instant."""

    event: PlannedEvent
    generation: int
    phase: Phase
    parts: tuple[ObjectPart, ...]
    now: Nanoseconds
    elapsed: Nanoseconds
    """Since they were looked at last."""

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
    that another replica serves.
    """
    event, phase, parts, now = look.event, look.phase, look.parts, look.now
    rows = sorted([*_rows(parts), *others], key=lambda row: (-row["pods"], row["namespace"]))
    total = {key: sum(row[key] for row in rows) for key in EVENT_NUMBERS}
    status: dict[str, Any] = {
        "observedGeneration": look.generation,
        "state": _state(event, phase, parts, total["objects"]),
    }
    status |= total
    if added := _added(parts):
        status["addedRequests"] = added
    if not look.is_active:
        del status["ready"]
    zone = event.schedules[0].schedule.window.zone if event.schedules else "UTC"
    if phase.edge is not None and not event.suspend:
        edge = phase.edge
        status["nextEdge"] = {"time": format_instant(edge.at), "schedule": edge.schedule, "state": str(edge.state)}
        status["columns"] = {"next": format_ahead(edge.at, zone, now)}
    status["namespaces"] = rows[:MAX_NAMESPACES_TOLD]
    before = previous.get("report")
    report = _report(look, total, before, sums)
    past = [one for one in previous.get("pastReports") or () if isinstance(one, Mapping)]
    if report:
        status["report"] = report
        if isinstance(before, Mapping) and "closed" in before and "closed" not in report:
            past = [before, *past]
    if past:
        status["pastReports"] = past[:MAX_PAST_REPORTS]
    status["conditions"] = _conditions(look, total, previous.get("conditions") or ())
    return status


def status_events(previous: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Event]:
    """The Kubernetes events of a planned event between two of its statuses: what people act on, once each."""
    report = status.get("report") or {}
    was_running = _is_running(previous.get("report"))
    if _is_running(report) and not was_running:
        text = (
            f"{report['readyAtStart']} of {status['objects']} objects are Ready at their count; "
            f"it asks for {status['pods']} pods in all"
        )
        yield Event("Normal", "EventStarted", text)
    if was_running and not _is_running(report):
        told = ", ".join(f"{report[key]} {name}" for key, name in _TOLD.items() if key in report)
        yield Event("Normal", "EventEnded", told)
    before = {one.get("type"): one for one in previous.get("conditions") or () if isinstance(one, Mapping)}
    for condition in status["conditions"]:
        if condition["status"] == "False" and before.get(condition["type"], {}).get("status") != "False":
            yield Event("Warning", condition["reason"], condition["message"])


def _is_running(report: Any) -> bool:
    return isinstance(report, Mapping) and "opened" in report and "closed" not in report


def _added(parts: Iterable[ObjectPart]) -> dict[str, str]:
    """What the pods request that the objects do not have yet, as quantities."""
    sums: dict[str, int] = {}
    for part in parts:
        missing = max(part.pods - part.pods_now, 0)
        for resource in _ADDED:
            if missing and resource in part.requests:
                sums[resource] = sums.get(resource, 0) + missing * part.requests[resource]
    return {
        resource: format_milli(sums[resource], binary=resource == "memory") for resource in _ADDED if resource in sums
    }


def _rows(parts: Iterable[ObjectPart]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for part in parts:
        empty = {"namespace": part.namespace, "objects": 0, "pods": 0, "podsNow": 0, "short": 0, "ready": 0}
        row = rows.setdefault(part.namespace, empty)
        row["objects"] += 1
        row["pods"] += part.pods
        row["podsNow"] += part.pods_now
        row["short"] += part.short
        row["ready"] += part.is_ready
    return list(rows.values())


def _state(event: PlannedEvent, phase: Phase, parts: Iterable[ObjectPart], objects: int) -> str:
    if event.problems:
        return "Refused"
    if event.suspend:
        return "Suspended"
    if not objects:
        return "Empty"
    if phase.is_open:
        return "Active"
    if phase.at is None:
        return "Ended"
    return "Leading" if any(part.is_leading for part in parts) else "Upcoming"


def _report(look: EventLook, total: Mapping[str, int], previous: Any, sums: EventSums) -> dict[str, Any]:
    """What came of it so far. The numbers of a window stay until the next one opens."""
    known = dict(previous) if isinstance(previous, Mapping) and _is_instant(previous.get("opened")) else {}
    is_running = _is_running(known)
    if not look.is_active and not is_running:
        return known
    if not is_running:
        known = {"opened": format_instant(look.now), "readyAtStart": total["ready"]}
    if look.is_active:
        known["peakPods"] = max(_number(known.get("peakPods")), total["podsNow"])
    else:
        known["closed"] = format_instant(look.now)
    for key, minutes in sums.whole.items():
        known[key] = _number(known.get(key)) + minutes
    return known


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _is_instant(text: Any) -> bool:
    try:
        parse_instant(text)
    except (ValueError, TypeError, AttributeError):
        return False
    return True


def _conditions(look: EventLook, total: Mapping[str, int], previous: Iterable[Any]) -> list[dict[str, Any]]:
    before = {one.get("type"): one for one in previous if isinstance(one, Mapping)}
    out = []
    for kind, is_true, reason, message in _stated(look, total):
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


def _stated(look: EventLook, total: Mapping[str, int]) -> Iterable[tuple[str, bool, str, str]]:
    event, parts = look.event, look.parts
    if event.problems:
        yield "Accepted", False, "SpecUnreadable", f"it holds for no object: {'; '.join(event.problems)}"
        return
    yield "Accepted", True, "SpecReadable", "the event can be read"
    objects = total["objects"]
    where = f"in namespace {event.namespace}" if event.namespace else "in the namespaces of namespaceSelector"
    if objects:
        previews = [part for part in parts if part.is_preview]
        aside = (
            f"; {len(previews)} of them are in mode Preview and are not scaled: {_names(previews)}" if previews else ""
        )
        yield "Matched", True, "ObjectsMatched", f"it concerns {objects} objects{aside}"
    else:
        yield (
            "Matched", False, "NothingMatched",
            f"no CronHPA {where} has labels that the selector asks for: compare `kubectl get chpa --show-labels`",
        )  # fmt: skip
    short = [part for part in parts if part.short]
    if short:
        message = (
            f"{total['short']} pods are kept from it by maxReplicas of {_names(short)}: raise it there, or state "
            "maxReplicas in the schedule of the event"
        )
        yield "Fits", False, "AboveMaximum", message
    else:
        yield "Fits", True, "WithinMaximum", "maxReplicas of no object keeps pods from it"
    expects_load = any(stated.expected_load_percent is not None for stated in event.schedules)
    if expects_load and look.phase.at is not None:
        unknown = [part for part in parts if part.is_load_unknown]
        if unknown:
            message = (
                f"the usual load of {_names(unknown)} is not known (two of the last four weeks without the event are "
                "needed): the other bounds of the schedule hold there"
            )
            yield "LoadKnown", False, "UsualLoadUnknown", message
        else:
            yield "LoadKnown", True, "UsualLoadRead", "the usual load of all objects is known"
    torn = [part for part in parts if part.conflict]
    if torn:
        first = torn[0]
        yield (
            "Consistent", False, "Contradiction",
            f"its bounds contradict others in {_names(torn)}; {first.namespace}/{first.name}: {first.conflict}",
        )  # fmt: skip
    else:
        yield "Consistent", True, "NoContradiction", "its bounds contradict no others"


def _names(parts: Sequence[ObjectPart]) -> str:
    named = ", ".join(f"{part.namespace}/{part.name}" for part in parts[:_NAMED_MAX])
    return named if len(parts) <= _NAMED_MAX else f"{named} and {len(parts) - _NAMED_MAX} more"

"""The past of an object from its kept decisions: changes, windows that were open or led, and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.api.transitions import transition_events
from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.local_time import local_times
from cronhpa.history.past.past_answers import change_of
from cronhpa.history.past.past_decision import PastDecision

Json = dict[str, Any]

_EVENTS_MAX = 300
# An object that scales every two minutes must not hide last Monday's override.
_SCALINGS_MAX = 150
_OVERRIDE = "override"


class Lane(Struct, frozen=True):
    """A schedule's window, its lead, or the override, and the bounds that it states."""

    name: str
    start: Nanoseconds
    end: Nanoseconds
    leads: bool
    floor: int | None
    cap: int | None

    def fields(self) -> list[Any]:
        return [self.name, self.start / SECOND, self.end / SECOND, self.leads, self.floor, self.cap]


def status_of(decision: PastDecision) -> Json:
    body: Json = msgspec.json.decode(decision.body)
    status: Json = body.get("status") or {}
    return status


def scalings_of(decisions: Iterable[PastDecision]) -> list[tuple[Nanoseconds, int]]:
    """(instant, desired replicas) of the decisions that were acted on."""
    changes = map(change_of, decisions)
    return [(change.at, change.desired) for change in changes if change.desired is not None and not change.withheld]


def change_rows(decisions: Iterable[PastDecision], zone: str) -> list[list[Any]]:
    """For each: [time, current, desired, decided by, reason, why nothing was scaled, changes left out before it]."""
    return [
        [
            change.at / SECOND,
            change.current,
            change.desired,
            change.decided_by,
            local_times(change.reason, zone, change.at),
            local_times(change.withheld, zone, change.at),
            change.left_out,
        ]
        for change in map(change_of, decisions)
    ]


def lanes_of(decisions: Sequence[PastDecision], since: Nanoseconds, until: Nanoseconds) -> list[Lane]:
    """The windows and overrides in force at decisions; each decision holds until the next."""
    lanes: list[Lane] = []
    last: dict[tuple[str, bool], int] = {}
    ends = [*(decision.at for decision in decisions[1:]), until]
    for decision, end in zip(decisions, ends, strict=False):
        begin = max(decision.at, since)
        if end <= begin:
            continue
        for lane in _lanes_at(status_of(decision), begin, end):
            key = lane.name, lane.leads
            place = last.get(key)
            if place is not None and _goes_on(lanes[place], lane):
                lanes[place] = replace(lanes[place], end=end)
            else:
                last[key] = len(lanes)
                lanes.append(lane)
    return lanes


def _goes_on(lane: Lane, other: Lane) -> bool:
    return lane.end == other.start and (lane.floor, lane.cap) == (other.floor, other.cap)


def _lanes_at(status: Json, begin: Nanoseconds, end: Nanoseconds) -> Iterator[Lane]:
    bounds_by_name: dict[str, dict[str, int]] = {}
    for proposal in (status.get("decision") or {}).get("proposals") or ():
        if proposal.get("source") == "Schedule":
            bounds_by_name.setdefault(proposal.get("name") or "", {})[proposal["role"]] = proposal["replicas"]
        elif proposal.get("source") == "Override":
            bounds_by_name.setdefault(_OVERRIDE, {})[proposal["role"]] = proposal["replicas"]
    states = {schedule["name"]: schedule["state"] for schedule in status.get("schedules") or ()}
    if _OVERRIDE in bounds_by_name:
        states.setdefault(_OVERRIDE, "Open")
    for name, state in states.items():
        if state in {"Open", "Leading"}:
            bounds = bounds_by_name.get(name, {})
            yield Lane(name, begin, end, state == "Leading", bounds.get("Floor"), bounds.get("Cap"))


def events_of(decisions: Sequence[PastDecision], zone: str) -> list[Json]:
    """
    The changes of replicas, and of what asked for them from one kept decision to the next, the newest first.

    From the store, not from the API: the API forgets events within an hour, and would ask for a right to read them.
    """
    statuses = [(decision.at, status_of(decision)) for decision in decisions]
    events = [
        _event(at, event.type, event.reason, event.message)
        for (_, before), (at, after) in pairwise(statuses)
        for event in transition_events(before, after, zone, at)
    ]
    scalings = [
        _event(
            change.at,
            "Normal",
            "SuccessfulRescale",
            f"{change.current} -> {change.desired}: {local_times(change.reason, zone, change.at)}",
        )
        for change in map(change_of, decisions)
        if None not in {change.current, change.desired} and change.current != change.desired and not change.withheld
    ]
    events += scalings[-_SCALINGS_MAX:]
    return sorted(events, key=lambda event: event["at"])[::-1][:_EVENTS_MAX]


def _event(at: Nanoseconds, kind: str, reason: str, message: str) -> Json:
    return {"at": at / SECOND, "type": kind, "reason": reason, "message": message}

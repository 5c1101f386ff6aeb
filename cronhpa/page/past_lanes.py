"""What kept decisions tell of a span: changes, windows as they were open or led, and the events that followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.api.transitions import transition_events
from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.local_time import local_times
from cronhpa.history.past_answers import change_of
from cronhpa.history.past_decision import PastDecision

Json = dict[str, Any]

_EVENTS_MAX = 300
_OVERRIDE = "override"


class Lane(Struct, frozen=True):
    """A schedule's window, its lead, or the override, and the bounds that it states."""

    name: str
    start: Nanoseconds
    end: Nanoseconds
    leads: bool
    floor: int | None
    cap: int | None

    def told(self) -> list[Any]:
        return [self.name, self.start / SECOND, self.end / SECOND, self.leads, self.floor, self.cap]


def status_of(decision: PastDecision) -> Json:
    body: Json = msgspec.json.decode(decision.body)
    status: Json = body.get("status") or {}
    return status


def told_changes(decisions: Iterable[PastDecision], zone: str) -> list[list[Any]]:
    """[time, found, wanted, decided by, why, why nothing was scaled, changes left out before it] of each."""
    return [
        [
            each.at / SECOND,
            each.current,
            each.desired,
            each.decided_by,
            local_times(each.reason, zone, each.at),
            local_times(each.withheld, zone, each.at),
            each.left_out,
        ]
        for each in map(change_of, decisions)
    ]


def lanes_of(decisions: Sequence[PastDecision], since: Nanoseconds, until: Nanoseconds) -> list[Lane]:
    """The windows and overrides that decisions were taken under; each decision holds until the next."""
    lanes: list[Lane] = []
    last: dict[tuple[str, bool], int] = {}
    ends = [*(each.at for each in decisions[1:]), until]
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
    stated: dict[str, dict[str, int]] = {}
    for item in (status.get("decision") or {}).get("proposals") or ():
        if item.get("source") == "Schedule":
            stated.setdefault(item.get("name") or "", {})[item["role"]] = item["replicas"]
        elif item.get("source") == "Override":
            stated.setdefault(_OVERRIDE, {})[item["role"]] = item["replicas"]
    states = {item["name"]: item["state"] for item in status.get("schedules") or ()}
    if _OVERRIDE in stated:
        states.setdefault(_OVERRIDE, "Open")
    for name, state in states.items():
        if state in {"Open", "Leading"}:
            bounds = stated.get(name, {})
            yield Lane(name, begin, end, state == "Leading", bounds.get("Floor"), bounds.get("Cap"))


def events_of(decisions: Sequence[PastDecision], zone: str) -> list[Json]:
    """
    The events that the changes from one kept decision to the next were told as, the newest first.

    From the store, not from the API: the API forgets events within an hour, and they need no right of their own.
    """
    statuses = [(each.at, status_of(each)) for each in decisions]
    events: list[Json] = []
    for (_, before), (at, after) in pairwise(statuses):
        events += [
            {"at": at / SECOND, "type": each.type, "reason": each.reason, "message": each.message}
            for each in transition_events(before, after, zone, at)
        ]
    return events[::-1][:_EVENTS_MAX]

"""
Answers about an object's past. The operator gives them over HTTP, and a command gives them from a copy of the store.

Both call these functions, so their answers are equal. An answer crosses HTTP as JSON with instants in nanoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.history.database.series import INSTANT_END, Series
from cronhpa.history.load.recorded import recorded_load
from cronhpa.history.past.past_decision import NOTHING, PastDecision
from cronhpa.history.past.points import Point

if TYPE_CHECKING:
    from cronhpa.history.load.load_history import LoadHistory
    from cronhpa.history.past.decisions import DecisionHistory

# Three times the changes of an object that changes every hour of a week.
CHANGES_MAX = 500


class DecisionAnswer(Struct, frozen=True):
    """The decision in force at an instant."""

    decision: PastDecision
    until: Nanoseconds | None
    """The instant of the next decision, None if there is none."""
    first: Nanoseconds
    """The instant of the oldest kept decision."""


class DecisionChange(Struct, frozen=True):
    """A decision in brief."""

    at: Nanoseconds
    current: int | None
    desired: int | None
    """The counts; None if nothing was decided yet."""
    decided_by: str
    reason: str
    withheld: str
    """Why nothing was scaled."""
    left_out: int
    """The number of changes right before this one that were not kept, because there were too many."""


class TimelineAnswer(Struct, frozen=True):
    """The decisions in [since, until)."""

    before: DecisionChange | None
    """The change in force at `since`."""
    changes: list[DecisionChange]
    points: list[Point]
    first: Nanoseconds | None
    """The instant of the oldest kept decision."""
    go_on: Nanoseconds | None
    """
    The `since` of the next request for the remaining changes, None if there are no more; `points` covers the whole
    span.
    """


class RecordedMaximum(Struct, frozen=True, array_like=True):
    """The largest load of one or five minutes."""

    end: Nanoseconds
    """The end of that time."""
    middle: Nanoseconds
    """Its middle, where the load is put."""
    value: float


class LoadAnswer(Struct, frozen=True):
    """The recorded load of an object, in order: minutes where they are kept, five minutes before that."""

    maxima: list[RecordedMaximum]


_ENCODER = msgspec.json.Encoder()
_BODIES = msgspec.json.Decoder(dict[str, Any])


def decision_answer(
    decisions: DecisionHistory, namespace: str, name: str, instant: Nanoseconds
) -> DecisionAnswer | None:
    """The decision in force at an instant; None if none is kept. Raises StoreError."""
    at = _bounded(instant)
    decision, first = decisions.at(namespace, name, at), decisions.first(namespace, name)
    if decision is None or first is None:
        return None
    following = decisions.after(namespace, name, at)
    return DecisionAnswer(decision, None if following is None else following.at, first)


def timeline_answer(
    decisions: DecisionHistory, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
) -> TimelineAnswer:
    """The kept decisions of a span; an empty answer for an unknown object. Raises StoreError."""
    begin, end = _bounded(since), _bounded(until)
    changes = decisions.between(namespace, name, begin, end, CHANGES_MAX + 1)
    before = decisions.at(namespace, name, begin - 1) if begin > 0 else None
    return TimelineAnswer(
        before=None if before is None else change_of(before),
        changes=[change_of(decision) for decision in changes[:CHANGES_MAX]],
        points=decisions.points(namespace, name, begin, end),
        first=decisions.first(namespace, name),
        go_on=changes[CHANGES_MAX].at if len(changes) > CHANGES_MAX else None,
    )


def load_answer(loads: LoadHistory, series: Series, now: Nanoseconds | None = None) -> LoadAnswer | None:
    """
    The recorded load of an object; None if none is kept. Raises StoreError.

    now: as for `recorded_load`.
    """
    points, middles = recorded_load(loads, series, now)
    maxima = [RecordedMaximum(end, middle, value) for (end, value), middle in zip(points, middles, strict=True)]
    return LoadAnswer(maxima) if maxima else None


def encoded_answer(answer: DecisionAnswer | TimelineAnswer | LoadAnswer) -> bytes:
    return _ENCODER.encode(answer)


def change_of(decision: PastDecision) -> DecisionChange:
    """A decision in brief, from the status that showed it."""
    status = _BODIES.decode(decision.body).get("status") or {}
    shown = status.get("decision") or {}
    reason = str(shown.get("reason", ""))
    if decision.inputs == NOTHING:
        of_spec = (condition for condition in status.get("conditions") or () if condition.get("type") == "SpecAccepted")
        shown, reason = {}, next((str(condition.get("message", "")) for condition in of_spec), "")
    return DecisionChange(
        at=decision.at,
        current=status.get("currentReplicas"),
        desired=status.get("desiredReplicas"),
        decided_by=str(shown.get("decidedBy", "")),
        reason=reason,
        withheld=str(shown.get("withheld", "")),
        left_out=decision.left_out,
    )


def _bounded(instant: Nanoseconds) -> Nanoseconds:
    """The instant, limited to those that a database can hold."""
    return min(max(instant, 0), INSTANT_END - 1)

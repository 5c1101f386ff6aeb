"""
What is answered about an object's past: by the operator over HTTP, and by a command from a copy of the store.

Both ask these two functions, so both say the same. An answer crosses HTTP as JSON with instants in nanoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from cronhpa.core.instant import Nanoseconds
from cronhpa.history.past_decision import NOTHING, PastDecision
from cronhpa.history.points import Point
from cronhpa.history.series import INSTANT_END

if TYPE_CHECKING:
    from cronhpa.history.decisions import DecisionHistory

# A week of an object that changes every hour, three times over.
CHANGES_MAX = 500


class DecisionAnswer(Struct, frozen=True):
    """
    The decision in force at an instant.

    until: when the next one was taken, None where there is none. first: the instant of the oldest that is kept.
    """

    decision: PastDecision
    until: Nanoseconds | None
    first: Nanoseconds


class DecisionChange(Struct, frozen=True):
    """
    A decision in brief. current, desired: None where nothing was decided yet. withheld: why nothing was scaled.

    left_out: changes before this one that were too many to be kept.
    """

    at: Nanoseconds
    current: int | None
    desired: int | None
    decided_by: str
    reason: str
    withheld: str
    left_out: int


class TimelineAnswer(Struct, frozen=True):
    """
    What was decided in [since, until).

    before: the change in force at `since`. first: the instant of the oldest decision that is kept. go_on: from where to
    ask for the rest, None where this is all; the points are those of the whole span.
    """

    before: DecisionChange | None
    changes: list[DecisionChange]
    points: list[Point]
    first: Nanoseconds | None
    go_on: Nanoseconds | None


_ENCODER = msgspec.json.Encoder()
_BODIES = msgspec.json.Decoder(dict[str, Any])


def decision_answer(
    decisions: DecisionHistory, namespace: str, name: str, instant: Nanoseconds
) -> DecisionAnswer | None:
    """None where nothing is kept of that instant. Raises StoreError."""
    at = _known(instant)
    found, first = decisions.at(namespace, name, at), decisions.first(namespace, name)
    if found is None or first is None:
        return None
    following = decisions.after(namespace, name, at)
    return DecisionAnswer(found, None if following is None else following.at, first)


def timeline_answer(
    decisions: DecisionHistory, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
) -> TimelineAnswer:
    """What is kept of a span, nothing of an object that is not known. Raises StoreError."""
    begin, end = _known(since), _known(until)
    found = decisions.between(namespace, name, begin, end, CHANGES_MAX + 1)
    before = decisions.at(namespace, name, begin - 1) if begin > 0 else None
    return TimelineAnswer(
        before=None if before is None else change_of(before),
        changes=[change_of(each) for each in found[:CHANGES_MAX]],
        points=decisions.points(namespace, name, begin, end),
        first=decisions.first(namespace, name),
        go_on=found[CHANGES_MAX].at if len(found) > CHANGES_MAX else None,
    )


def encoded_answer(answer: DecisionAnswer | TimelineAnswer) -> bytes:
    return _ENCODER.encode(answer)


def change_of(decision: PastDecision) -> DecisionChange:
    """A decision in brief, by the status that it was told in."""
    status = _BODIES.decode(decision.body).get("status") or {}
    told = status.get("decision") or {}
    reason = str(told.get("reason", ""))
    if decision.turn == NOTHING:
        of_spec = (each for each in status.get("conditions") or () if each.get("type") == "SpecAccepted")
        told, reason = {}, next((str(each.get("message", "")) for each in of_spec), "")
    return DecisionChange(
        at=decision.at,
        current=status.get("currentReplicas"),
        desired=status.get("desiredReplicas"),
        decided_by=str(told.get("decidedBy", "")),
        reason=reason,
        withheld=str(told.get("withheld", "")),
        left_out=decision.left_out,
    )


def _known(instant: Nanoseconds) -> Nanoseconds:
    """The instant, or the first or last one that a database holds."""
    return min(max(instant, 0), INSTANT_END - 1)

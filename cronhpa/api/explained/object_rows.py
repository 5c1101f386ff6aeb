"""The objects as rows of a table, those that need a person first, each with notes on its problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from cronhpa.api.columns import StatusWord
from cronhpa.api.explained.explanation import Explanation, current_explanation
from cronhpa.api.maxed import PATIENCE
from cronhpa.core.model.instant import MINUTE, Nanoseconds, parse_instant
from cronhpa.core.model.local_time import local_times

Json = dict[str, Any]

_UNDECIDED = "Undecided"
# So long an object may be without metrics before it needs a person: new pods have none, nor do those of a new object.
_UNMEASURED_PATIENCE: Nanoseconds = 2 * MINUTE
# The most urgent first.
_ORDER = (
    StatusWord.SPEC_UNREADABLE,
    StatusWord.NO_TARGET,
    StatusWord.NO_METRICS,
    StatusWord.OTHER_OWNER,
    _UNDECIDED,
    StatusWord.HOLDING,
    StatusWord.MAXED,
    StatusWord.LEARNING,
    StatusWord.PREVIEW,
    StatusWord.DECIDING,
)


class ObjectRow(Struct, frozen=True):
    """One object as the table shows it."""

    namespace: str
    name: str
    word: str
    urgency: int
    """0 for the most urgent."""
    needs_person: bool
    needs_person_from: Nanoseconds | None
    """When the object will need a person if nothing changes; None if it does already, or never will."""
    scales: bool
    """Whether the object acts; if it does not, `desired` is only what it would do."""
    current: int | None
    desired: int | None
    minimum: int | None
    maximum: int | None
    next: str
    targets: str
    notes: tuple[str, ...]
    """Its problems, and what to do about them."""


def rows_of(bodies: Sequence[Json], now: Nanoseconds) -> list[ObjectRow]:
    """The rows of objects as the API serves them, those that need a person first; times are relative to `now`."""
    rows = (object_row(body, now) for body in bodies)
    return sorted(rows, key=lambda row: (not row.needs_person, row.urgency, row.namespace, row.name))


def object_row(body: Json, now: Nanoseconds) -> ObjectRow:
    """The row of an object as the API serves it."""
    it = current_explanation(body)
    return row_of(body, it, now, it.zone)


def row_of(body: Json, it: Explanation, now: Nanoseconds, zone: str | None) -> ObjectRow:
    """The row of an object that is explained already. zone: of the times in notes; None: they stay RFC 3339 in UTC."""
    meta, state = body["metadata"], body.get("status") or {}
    conditions = {condition["type"]: condition for condition in state.get("conditions") or ()}
    texts = state.get("columns") or {}
    ready = conditions.get("Ready")
    word = _UNDECIDED if ready is None else texts.get("status") or ready.get("reason", "")
    notes: list[str] = []
    urgency = _urgency(word)
    waits: list[Nanoseconds] = []  # until when something needs no person
    unmeasured_since = conditions.get("ScalingActive", {}).get("lastTransitionTime")
    if word == StatusWord.NO_METRICS and len(it.problems) == 1 and unmeasured_since is not None:
        waits.append(parse_instant(unmeasured_since) + _UNMEASURED_PATIENCE)
        needs_person = False
    else:
        needs_person = ready is None or ready.get("status") != "True" or bool(it.problems)
    if ready is None:
        notes.append("nothing was decided yet: is the operator running, and does it watch this namespace?")
    elif it.by_hand:
        notes.append(it.by_hand)
    elif it.is_stale:
        needs_person, urgency = True, min(urgency, _urgency(_UNDECIDED))
        notes.append("its last edit has not been decided upon yet: is the operator running?")
    for problem in it.problems:
        # Behind what is at its maximum: an object that decides, though its schedules contradict, does not burn.
        urgency = min(urgency, _urgency(StatusWord.LEARNING))
        notes.append("; ".join(part for part in (problem.what or problem.message, problem.do) if part))
    if it.at_maximum:
        urgency = min(urgency, _urgency(StatusWord.MAXED))
        notes.append(it.at_maximum)
    if it.maxed_since is not None:
        waits.append(it.maxed_since + PATIENCE)
    needs_person = needs_person or any(until <= now for until in waits)
    return ObjectRow(
        namespace=meta["namespace"],
        name=meta["name"],
        word=word,
        urgency=urgency,
        needs_person=needs_person,
        needs_person_from=None if needs_person else min(waits, default=None),
        scales=it.scales,
        current=it.current,
        desired=it.desired,
        minimum=state.get("effectiveMinReplicas"),
        maximum=state.get("effectiveMaxReplicas"),
        next=texts.get("next", ""),
        targets=texts.get("targets", ""),
        notes=tuple(note if zone is None else local_times(note, zone, now) for note in notes if note),
    )


def _urgency(word: str) -> int:
    """The place of a word among the others; an unknown word ranks as Undecided."""
    return _ORDER.index(word if word in _ORDER else _UNDECIDED)

"""The objects as rows of a table, the most urgent first, each with notes on its problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from cronhpa.api.columns import StatusWord
from cronhpa.api.explained.explanation import Explanation, current_explanation
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.local_time import local_times

Json = dict[str, Any]

_UNDECIDED = "Undecided"
# The most urgent first.
_ORDER = (
    StatusWord.SPEC_UNREADABLE,
    StatusWord.NO_TARGET,
    StatusWord.NO_METRICS,
    StatusWord.OTHER_OWNER,
    _UNDECIDED,
    StatusWord.HOLDING,
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
    """The rows of objects as the API serves them, the most urgent first; times are relative to `now`."""
    return sorted((object_row(body, now) for body in bodies), key=lambda row: (row.urgency, row.namespace, row.name))


def object_row(body: Json, now: Nanoseconds) -> ObjectRow:
    """The row of an object as the API serves it."""
    return row_of(body, current_explanation(body), now)


def row_of(body: Json, it: Explanation, now: Nanoseconds) -> ObjectRow:
    """The row of an object that is explained already."""
    meta, state = body["metadata"], body.get("status") or {}
    conditions = {condition["type"]: condition for condition in state.get("conditions") or ()}
    texts = state.get("columns") or {}
    ready = conditions.get("Ready")
    word = _UNDECIDED if ready is None else texts.get("status") or ready.get("reason", "")
    notes: list[str] = []
    urgency = _urgency(word)
    needs_person = ready is None or ready.get("status") != "True"
    if ready is None:
        notes.append("nothing was decided yet: is the operator running, and does it watch this namespace?")
    elif it.by_hand:
        notes.append(it.by_hand)
    elif it.is_stale:
        needs_person, urgency = True, min(urgency, _urgency(_UNDECIDED))
        notes.append("its last edit has not been decided upon yet: is the operator running?")
    for problem in it.problems:
        needs_person, urgency = True, min(urgency, _urgency(StatusWord.HOLDING))
        notes.append("; ".join(part for part in (problem.what or problem.message, problem.do) if part))
    for step in (state.get("decision") or {}).get("steps") or ():
        if step["rule"] == "TooManyReplicas":
            urgency = min(urgency, _urgency(StatusWord.LEARNING))
            notes.append(f"{step['from']} replicas are asked for, and {step['to']} are allowed")
    return ObjectRow(
        namespace=meta["namespace"],
        name=meta["name"],
        word=word,
        urgency=urgency,
        needs_person=needs_person,
        scales=it.scales,
        current=it.current,
        desired=it.desired,
        minimum=state.get("effectiveMinReplicas"),
        maximum=state.get("effectiveMaxReplicas"),
        next=texts.get("next", ""),
        targets=texts.get("targets", ""),
        notes=tuple(local_times(note, it.zone, now) for note in notes if note),
    )


def _urgency(word: str) -> int:
    """The place of a word among the others; an unknown word ranks as Undecided."""
    return _ORDER.index(word if word in _ORDER else _UNDECIDED)

"""
What must be written of a status. The answer has a name for each kind, and this file alone finds it:

- nothing, if the status in the API says the same;
- numbers, if only numbers have drifted that nobody scales for: they are written from time to time;
- the status, if anything changed that matters to a person or to a restart.

`WrittenStatus` finds it by the inputs of a status, `needed_between` by the rendered status: equal inputs need not be
rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.api.status_text import Status
from cronhpa.core.model.decision import Decision
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation, PodCounts, ScalarReading, Scale
from cronhpa.core.model.reconciliation import Reconciliation

# Fields that change with every sample and do not matter to a person at once: written from time to time.
_DRIFTING = ("currentMetrics", "podStartupSeconds", "podStartupWithNodeSeconds", "forecast")
# Texts derived from other fields. If only they differ, as after an upgrade, they are written as drifted numbers.
_DERIVED = "columns"
_DRIFTING_MEMORY = ("startUpSeconds", "nodeStart", "requestPerPod", "crowd")


def _fields(of: type[Struct], *, without: set[str]) -> tuple[str, ...]:
    """The fields that are compared as they are. One that is added is, too: at worst a status is rendered in vain."""
    return tuple(name for name in of.__struct_fields__ if name not in without)


# Their parts are compared by what follows.
_STATED = _fields(Reconciliation, without={"record", "decision", "memory"})
# Learned numbers of memory and observation, of which a status shows some: compared as numbers that drift (`_numbers`).
_DRIFTING_INPUTS = {"start_up", "node_start", "request_per_pod", "crowd"}
_OBSERVED = _fields(Observation, without={"scale", "readings", *_DRIFTING_INPUTS})
# Of the others `WrittenStatus.until` tells when their part in the status changes.
_REMEMBERED = _fields(Memory, without={"recommendations", "scale_ups", "scale_downs", *_DRIFTING_INPUTS})


class StatusWrite(Enum):
    """What must be written of a status."""

    NOTHING = "nothing"
    NUMBERS = "numbers"
    STATUS = "status"


class WrittenStatus(Struct):
    """What the status in the API says, by the inputs from which it was rendered."""

    packed: bytes
    """The status itself: while the API serves another one, somebody else has written."""
    inputs: tuple[object, ...]
    """The inputs of the status without those that may drift."""
    numbers: tuple[object, ...] | None
    """The numbers that may drift; None if the status has older ones, because new ones were not due."""
    until: Nanoseconds
    """From this instant on the memory in the status differs."""

    @classmethod
    def of(cls, packed: bytes, reconciliation: Reconciliation, *, has_numbers: bool = True) -> WrittenStatus | None:
        """
        What a status says that was rendered from a reconciliation. has_numbers: with its numbers, not with older ones.

        None if an equal reconciliation would need an event again: an absent metric, and every other failure, is an
        event each time.
        """
        decision, memory, spec = reconciliation.decision, reconciliation.memory, reconciliation.spec
        fails = decision.failure is not None or any(isinstance(metric, Absent) for metric in decision.metrics)
        until = memory.alike_until(decision.recommended, spec.behavior, spec.options, decision.at)
        if fails or until <= decision.at:
            return None
        numbers = _numbers(reconciliation) if has_numbers else None
        return cls(packed, _inputs(reconciliation), numbers, until)

    def needed_for(self, reconciliation: Reconciliation) -> StatusWrite:
        """What must be written after a reconciliation. STATUS if only a rendered status can tell."""
        if reconciliation.at >= self.until or self.inputs != _inputs(reconciliation):
            return StatusWrite.STATUS
        return StatusWrite.NOTHING if self.numbers == _numbers(reconciliation) else StatusWrite.NUMBERS


def needed_between(before: Status, after: Status) -> StatusWrite:
    """What must be written where the API serves a status and another one was rendered."""
    if _matters(before, after):
        return StatusWrite.STATUS
    return StatusWrite.NUMBERS if _has_drifted(before, after) else StatusWrite.NOTHING


def _inputs(reconciliation: Reconciliation) -> tuple[object, ...]:
    return (
        _undated(reconciliation.decision),
        reconciliation.spec,
        *(getattr(reconciliation, name) for name in _STATED),
        *(getattr(reconciliation.observation, name) for name in _OBSERVED),
        *(getattr(reconciliation.memory, name) for name in _REMEMBERED),
    )


def _undated(decision: Decision) -> Decision:
    recommended = decision.recommended
    return replace(decision, at=0, metrics=(), recommended=None if recommended is None else replace(recommended, at=0))


def _numbers(reconciliation: Reconciliation) -> tuple[object, ...]:
    """The numbers of a status that may drift."""
    drifting = (getattr(reconciliation.memory, name) for name in sorted(_DRIFTING_INPUTS))
    return reconciliation.decision.metrics, _pod_counts(reconciliation.observation), *drifting


def _pod_counts(observation: Observation) -> tuple[int | Absent, ...]:
    """The numbers of pods in a status besides its metrics."""
    counts: list[int | Absent] = []
    for reading in observation.readings:
        if isinstance(reading, PodCounts):
            counts += (reading.ready, reading.unready, reading.missing)
        elif isinstance(reading, ScalarReading) and isinstance(observation.scale, Scale):
            counts += (reading.ready, observation.scale.status_replicas)
    return (*counts,)


def _matters(before: Status, after: Status) -> bool:
    """Whether anything changed that matters to a person or to a restart."""
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}.difference(_DRIFTING, (_DERIVED,))
    if not before or changed.difference(_PARTS):
        return True
    return any(_of(_PARTS[key], before) != _PARTS[key](after) for key in changed)


def _has_drifted(before: Status, after: Status) -> bool:
    """Whether anything changed besides values that change with time alone."""
    return before != after and _of(_enduring, before) != _enduring(after)


def _of(part: Callable[[Status], object], before: Status) -> object:
    """A part of a status; None for a forged status, whose memory may be any JSON."""
    try:
        return part(before)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None


def _enduring(status: Status) -> dict[str, Any]:
    return {**status, "memory": _lasting(status), _DERIVED: sorted(status.get(_DERIVED, {}))}


def _lasting(status: Status) -> dict[str, Any]:
    """The memory without the time of its newest recommendation: a restart assumes that it held until the restart."""
    memory = dict(status.get("memory", {}))
    recommendations = memory.get("recommendations", [])
    memory["recommendations"] = [
        *recommendations[:-1],
        *((newest["replicas"], newest.get("merged")) for newest in recommendations[-1:]),
    ]
    return memory


def _holding(recommendations: list[Any]) -> Iterator[Any]:
    """
    Drop each metric recommendation that a later one of the same or a larger count makes irrelevant to stabilization.

    If a restart does not find these, at most a scale-up is lost, for which the metrics ask again.
    """
    if not recommendations:
        return
    *earlier, newest = recommendations
    yield newest
    highest = newest[0]
    for recommendation in reversed(earlier):
        replicas = recommendation["replicas"]
        if replicas > highest:
            highest = replicas
        elif "metrics" in recommendation:
            continue
        yield recommendation


def _conditions(status: Status) -> object:
    return [
        # The message of a forecast has a number that always changes; conditions of others may have no message.
        (*map(entry.get, ("type", "status", "reason")), entry["type"] != "ForecastActive" and entry.get("message"))
        for entry in status.get("conditions", [])
    ]


def _decision(status: Status) -> object:
    decision = status.get("decision", {})
    return decision.get("decidedBy"), [step["rule"] for step in decision.get("steps", [])]


def _memory(status: Status) -> object:
    memory = _lasting(status)
    memory["recommendations"] = [*_holding(memory["recommendations"])]
    for key in (*_DRIFTING_MEMORY, "version"):
        memory.pop(key, None)
    return memory


# For fields of which only a part is worth a write: that part.
_PARTS = {"conditions": _conditions, "decision": _decision, "memory": _memory}

"""A past decision, decided again: whether it is the same, or where it differs from the status of that time."""

from __future__ import annotations

from typing import Any

import msgspec

from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import decode
from cronhpa.history.past.past_decision import NOTHING, PastDecision

# The fields of a status that follow from the decision alone. The others depend on the write, or on the status before.
_DECIDED = (
    "target",
    "currentReplicas",
    "desiredReplicas",
    "effectiveMinReplicas",
    "effectiveMaxReplicas",
    "currentMetrics",
    "decision",
    "schedules",
    "nextEdge",
)
_LATER = {"withheld"}


class NotDecidableError(Exception):
    """A decision cannot be decided again; the text says why."""


def differences(past: PastDecision) -> list[str]:
    """
    The fields that today's code decides otherwise, as `field: then ..., now ...`; empty if all are the same.

    Fields that a later release added do not count. Raises NotDecidableError.
    """
    if past.inputs == NOTHING:
        raise NotDecidableError("nothing was decided then: the spec could not be read")
    try:
        record = decode(bytes(past.inputs))
    except ValueError as problem:
        raise NotDecidableError(
            f"release {past.release or 'unknown'} wrote it, and this one cannot read it: {problem}; decide it again "
            "with that release"
        ) from problem
    status: dict[str, Any] = msgspec.json.decode(past.body).get("status") or {}
    # A reconciliation that decides nothing leaves the desired count of the last decision in the status.
    before = {"desiredReplicas": status["desiredReplicas"]} if "desiredReplicas" in status else {}
    try:
        decision = decide(record.spec, record.observation, record.forecast, record.memory, record.now)
        now = render(before, Reconciliation(record, decision, record.memory, generation=1))
    except Exception as problem:
        raise NotDecidableError(f"deciding raises {type(problem).__name__}: {problem}") from problem
    # As JSON, like the kept one: enums become texts there, and tuples lists.
    plain = msgspec.json.decode(msgspec.json.encode(now))
    return [text for name in _DECIDED if name in status for text in _differing(name, status[name], plain.get(name))]


def _differing(path: str, then: Any, now: Any) -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        names = [name for name in then if name not in _LATER]
        return [text for name in names for text in _differing(f"{path}.{name}", then[name], now.get(name))]
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = enumerate(zip(then, now, strict=True))
        return [text for place, pair in pairs for text in _differing(f"{path}[{place}]", *pair)]
    return [] if then == now else [f"{path}: {_shown(then)} then, {_shown(now)} now"]


def _shown(value: Any) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()

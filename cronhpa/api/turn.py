"""One turn: the value from which status, conditions and events are rendered."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from cronhpa.core.decision import Decision, Outcome
from cronhpa.core.forecast import Forecast
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Observation
from cronhpa.core.printable import shortened
from cronhpa.core.scheduled.conflicts import Conflict
from cronhpa.core.spec import Spec

Status = dict[str, Any]
Condition = dict[str, Any]
_TEXT_MAX = 4096


class Turn(Struct, frozen=True):
    """
    The input of a status, its conditions and events.

    zone: the object's time zone. contested: who keeps setting the replicas back, "" for nobody.
    """

    spec: Spec
    decision: Decision
    outcome: Outcome
    memory: Memory
    generation: int
    owner_problem: str | None = None
    spec_problems: tuple[str, ...] = ()
    forecast: Forecast | None = None
    budget_used: int | None = None
    conflicts: tuple[Conflict, ...] = ()
    zone: str = "UTC"
    observation: Observation | None = None
    contested: str = ""


def clip(text: str) -> str:
    """The text, cut to the length that a status may hold: other servers' texts may be of any length."""
    return shortened(text, _TEXT_MAX)

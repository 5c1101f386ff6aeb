"""What the status in the API says, and of which decision: of another such decision it says everything already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.api.turn import Status
from cronhpa.core.decision import Decision
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Absent
from cronhpa.core.reactive.replicas import MetricProposal
from cronhpa.core.record import Record
from cronhpa.core.scheduled.conflicts import Conflict
from cronhpa.operator.repeatable import Repeatable

if TYPE_CHECKING:
    from cronhpa.operator.object_state import ObjectState


# What a status is rendered from, apart from the decision and the memory.
About = tuple[int, str | None, Forecast | None, int | None, tuple[str, ...], tuple[Conflict, ...], tuple[bool, str]]


class Said(Struct):
    """
    status: the status itself, by identity. memory: as the newest decision that said nothing else has left it.
    decision: without its instant and its metrics. about: all else that a status is rendered from.
    metrics, start_up, request_per_pod: the numbers that may drift, as the status says them.
    at: the instant of the newest such decision. repeatable: what the next turns may repeat of it.
    """

    status: Status
    memory: Memory
    decision: Decision
    about: About
    metrics: tuple[MetricProposal | Absent, ...]
    start_up: Nanoseconds | None
    request_per_pod: Mapping[str, int]
    at: Nanoseconds
    repeatable: Repeatable | None = None

    def holds_for(self, decision: Decision, about: About, memory: Memory) -> bool:
        """Whether a status of this decision, which leaves this memory, says the same apart from numbers that drift."""
        return (
            self.about == about
            and self.decision == _undated(decision)
            and (self.memory.zero, self.memory.scheduled_zero) == (memory.zero, memory.scheduled_zero)
        )

    def has_drifted(self, metrics: tuple[MetricProposal | Absent, ...], memory: Memory) -> bool:
        return (self.metrics, self.start_up, self.request_per_pod) != (
            metrics,
            memory.start_up,
            memory.request_per_pod,
        )


def said(
    status: Status, turn: Record, decision: Decision, about: About, memory: Memory, repeatable: Repeatable | None = None
) -> Said | None:
    """
    What a status says that was rendered from these. None where another decision like this one would say more.

    - A metric that is absent, and every other failure, is an event each time.
    - Scale events leave the status when they are old enough, and so do recommendations that differ.
    """
    spec = turn.spec
    fails = decision.failure is not None or any(isinstance(metric, Absent) for metric in decision.metrics)
    if fails or not memory.is_settled(spec.behavior, spec.options, decision.at):
        return None
    return Said(
        status,
        memory,
        _undated(decision),
        about,
        decision.metrics,
        memory.start_up,
        memory.request_per_pod,
        turn.now,
        repeatable,
    )


def about(
    state: ObjectState,
    generation: int,
    owner_problem: str | None,
    forecast: Forecast | None = None,
    budget_used: int | None = None,
) -> About:
    contest = (False, "") if state.contest is None else (state.contest.is_unnamed, state.contest.problem)
    return (generation, owner_problem, forecast, budget_used, state.problems, state.conflicts, contest)


def _undated(decision: Decision) -> Decision:
    asked = decision.recommended
    return replace(decision, at=0, metrics=(), recommended=None if asked is None else replace(asked, at=0))

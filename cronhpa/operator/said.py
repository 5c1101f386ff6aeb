"""The content of the status in the API, and its decision: an equal decision needs no new status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.decision import Decision
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Absent, PodCounts, Reading, ScalarReading, Scale
from cronhpa.core.reactive.replicas import MetricProposal
from cronhpa.core.record import Record
from cronhpa.core.scheduled.conflicts import Conflict
from cronhpa.core.steady import Repetition
from cronhpa.operator.repeatable import Repeatable

if TYPE_CHECKING:
    from cronhpa.operator.object_state import ObjectState


# The inputs of a status besides the decision and the memory.
About = tuple[int, str | None, Forecast | None, int | None, tuple[str, ...], tuple[Conflict, ...], tuple[bool, str]]


class Said(Struct):
    """
    status: the text of the status, by identity. memory: after the newest decision with the same status.
    decision: without its instant and its metrics. about: the other inputs of the status.
    metrics, counts, start_up, request_per_pod: the numbers in the status that may drift; metrics None if the status has
    older ones, because new ones were not due.
    at: the instant of the newest decision with the same status. until: from this instant on the memory in the status
    differs.
    repeatable: the inputs that the next turns may reuse.
    undrifted: usages of a repeated turn whose numbers all equal those of the status.
    drifted: the repeated turn whose numbers are to be written; None if there is none.
    """

    status: bytes
    memory: Memory
    decision: Decision
    about: About
    metrics: tuple[MetricProposal | Absent, ...] | None
    counts: tuple[int | Absent, ...]
    start_up: Nanoseconds | None
    request_per_pod: Mapping[str, int]
    at: Nanoseconds
    until: Nanoseconds
    repeatable: Repeatable | None = None
    undrifted: tuple[int, ...] | None = None
    drifted: Repetition | None = None

    @property
    def owner_problem(self) -> str | None:
        return self.about[1]

    def holds_for(self, decision: Decision, about: About, memory: Memory) -> bool:
        """Whether the status of this decision and this memory would be the same, apart from numbers that drift."""
        return (
            decision.at < self.until
            and self.about == about
            and self.decision == _undated(decision)
            and (self.memory.zero, self.memory.scheduled_zero) == (memory.zero, memory.scheduled_zero)
        )

    def restated(self, status: bytes, repetition: Repetition) -> Said:
        """The content of a status with the numbers of a repeated turn."""
        memory = repetition.memory
        return replace(
            self,
            status=status,
            memory=memory,
            metrics=repetition.metrics,
            counts=pods_counted(repetition.of.scale, repetition.of.readings),
            start_up=memory.start_up,
            request_per_pod=memory.request_per_pod,
            undrifted=repetition.usages,
        )

    def has_drifted(
        self,
        metrics: tuple[MetricProposal | Absent, ...],
        scale: Scale | Absent,
        readings: Iterable[Reading],
        memory: Memory,
    ) -> bool:
        return (self.metrics, self.counts, self.start_up, self.request_per_pod) != (
            metrics,
            pods_counted(scale, readings),
            memory.start_up,
            memory.request_per_pod,
        )


def pods_counted(scale: Scale | Absent, readings: Iterable[Reading]) -> tuple[int | Absent, ...]:
    """The numbers of pods in a status besides its metrics."""
    counts: list[int | Absent] = []
    for reading in readings:
        if isinstance(reading, PodCounts):
            counts += (reading.ready, reading.unready, reading.missing)
        elif isinstance(reading, ScalarReading) and isinstance(scale, Scale):
            counts += (reading.ready, scale.status_replicas)
    return (*counts,)


def said(
    status: bytes, turn: Record, decision: Decision, about: About, memory: Memory, repeatable: Repeatable | None = None
) -> Said | None:
    """
    The content of a status with these inputs. None if an equal decision would need an event again: an absent metric,
    and every other failure, is an event each time.
    """
    spec = turn.spec
    fails = decision.failure is not None or any(isinstance(metric, Absent) for metric in decision.metrics)
    until = memory.alike_until(decision.recommended, spec.behavior, spec.options, decision.at)
    if fails or until <= decision.at:
        return None
    return Said(
        status,
        memory,
        _undated(decision),
        about,
        decision.metrics,
        pods_counted(turn.observation.scale, turn.observation.readings),
        memory.start_up,
        memory.request_per_pod,
        turn.now,
        until,
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

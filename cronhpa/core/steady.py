"""
Turns that repeat a decision: of most turns of a fleet, the usage of the pods alone differs from the turn before.

`steady` says of a turn whether the next ones may be decided by `repeat`, and keeps what its decision followed from.
`repeat` takes the new usages and says what `observe`, `decide` and `Memory.after` would say of them, or that it does
not know. It decides nothing of its own: bounds, metrics and memory are worked out by the functions that `decide` calls.

Why a repeated decision is the one that `decide` would make. `decide` depends on

- the spec, the scale and the pods: the caller compares them;
- the bounds: asked for anew at each turn, and compared;
- the readings: every pod counted as ready in the turn before, and whether it does depends on no later instant; so a
  reading is the one before with another usage, while every pod has a sample;
- what the readings ask for: each metric is measured anew, and must ask for the same count as before;
- the memory: the recommendations that still count are the same one, and no scale event does. So a window finds the same
  count however many of them are left in it, and a policy finds no step of the past. What `seeded` does is done;
- the instant: apart from the above it is in the decision, in its recommendation, and where a window holds a count.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.decision import Decision, DecisionKind, Held, Recommendation
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Observation, Pod, PodCounts, Scale
from cronhpa.core.observe import active
from cronhpa.core.reactive.replicas import MetricProposal, Tolerance, measure, tolerance
from cronhpa.core.record import Record
from cronhpa.core.scheduled.bounds import Bounds, resolve
from cronhpa.core.spec import ResourceMetric, Spec


class Steady(Struct, frozen=True):
    """What a decision followed from. recommended, counts, metrics: of the decision, the counts those of each metric."""

    spec: Spec
    scale: Scale
    pods: tuple[Pod, ...]
    bounds: Bounds
    band: Tolerance
    counts: tuple[PodCounts, ...]
    decision: Decision
    recommended: Recommendation


class Repetition(Struct, frozen=True):
    """A turn like another one: its instants, its readings, what they say, and the memory after it."""

    of: Steady
    now: Nanoseconds
    at: Nanoseconds
    readings: tuple[PodCounts, ...]
    metrics: tuple[MetricProposal, ...]
    memory: Memory

    @property
    def decision(self) -> Decision:
        recommended = replace(self.of.recommended, at=self.now)
        return replace(self.of.decision, at=self.at, metrics=self.metrics, recommended=recommended)


def steady(turn: Record, pods: tuple[Pod, ...], decision: Decision, memory: Memory) -> Steady | None:
    """
    What the next turns may repeat; None where they must be decided.

    pods: those of the observation. memory: as the turn has left it.
    """
    spec, observation, now = turn.spec, turn.observation, turn.now
    recommended = decision.recommended
    if (
        not isinstance(observation.scale, Scale)
        or recommended is None
        or decision.current == 0
        or decision.kind is not DecisionKind.COMPUTED
        or decision.rescales
        or decision.failure is not None
        or any(isinstance(step.cause, Held) for step in decision.steps)
        or spec.forecast is not None
        or spec.options.metric_max_age is not None
        or observation.selector_problem is not None
        or observation.unseen is not None
        or active(pods) < observation.scale.status_replicas
        or not memory.is_settled(spec.behavior, spec.options, decision.at)
        or memory.seeded(decision.current, now, bounded=decision.bounded) is not memory
    ):
        return None
    counts = _counts(spec, observation, pods, now)
    if counts is None:
        return None
    bounds = resolve(spec, now, turn.memory.start_up_after(observation), turn.memory.leads)
    band = tolerance(spec.behavior, spec.options)
    return Steady(spec, observation.scale, pods, bounds, band, counts, decision, recommended)


def repeat(
    known: Steady, usages: Sequence[int], memory: Memory, now: Nanoseconds, at: Nanoseconds
) -> Repetition | None:
    """
    The turn with these usages (milli-units, one a metric), or None where it must be decided.

    memory: as the turn before has left it. now: not before that turn. at: the instant under which the decision is
    remembered.
    """
    spec, scale = known.spec, known.scale
    if resolve(spec, now, memory.start_up, memory.leads) is not known.bounds:
        return None
    readings, metrics = [], []
    for index, usage in enumerate(usages):
        reading = replace(known.counts[index], usage=usage, load=usage)
        measured = measure(
            spec.metrics[index],
            reading,
            scale.spec_replicas,
            scale.status_replicas,
            known.band,
            known.bounds.headroom_percent,
        )
        before = known.decision.metrics[index]
        if not isinstance(measured, MetricProposal) or not isinstance(before, MetricProposal):
            return None
        if measured.replicas != before.replicas:
            return None
        readings.append(reading)
        metrics.append(measured)
    remembered = memory.recommending(replace(known.recommended, at=at), spec.behavior, spec.options)
    return Repetition(known, now, at, tuple(readings), tuple(metrics), remembered)


def _counts(
    spec: Spec, observation: Observation, pods: Sequence[Pod], now: Nanoseconds
) -> tuple[PodCounts, ...] | None:
    """The readings, where every pod counts fully in each of them and goes on doing so; None else."""
    counts = []
    started = now - spec.options.cpu_initialization_period
    for metric, reading in zip(spec.metrics, observation.readings, strict=True):
        if not isinstance(metric, ResourceMetric) or not isinstance(reading, PodCounts):
            return None
        if not reading.ready == reading.counted == len(pods):  # so none is unready, missing or ignored
            return None
        # While a pod starts, whether it counts depends on the time of its sample.
        if metric.name == "cpu" and not all(pod.start_time is not None and pod.start_time <= started for pod in pods):
            return None
        counts.append(reading)
    return tuple(counts)

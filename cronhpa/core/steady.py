"""
Turns that repeat a decision: in most turns of a fleet only usages and values of metrics differ from the turn before.

`steady` says of a turn whether the next ones may be decided by `repeat`, and keeps what its decision followed from.
`repeat` takes the new usages and says what `observe`, `decide` and `Memory.after` would say of them, or that it does
not know. It decides nothing of its own: bounds, metrics and memory are worked out by the functions that `decide` calls.

Why a repeated decision is the one that `decide` would make. `decide` depends on

- the spec, the scale and the pods: the caller compares them;
- the bounds: asked for anew at each turn, and compared;
- the readings: every pod counted as ready in the turn before, and does so while it has a sample, which of a pod that is
  starting must lie after its readiness; so a reading is the one before with another usage, or another value;
- what the readings ask for: each metric must ask for the same count as before. It is measured where its usage lies
  outside of those at which it did so already: the count does not fall as usage grows, so it is the same in between;
- the memory: before a known instant (`Memory.alike_until`) no recommendation of another count leaves a window, and no
  scale event leaves a policy's period. Each repeated turn adds the same recommendation, so a window finds the same
  counts and a policy the same steps of the past. The recommendation that a window holds is one of another count: its
  instant stays the same, too. What `seeded` does is done;
- the instant: apart from the above it is in the decision and in its recommendation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.decision import Decision, DecisionKind, Recommendation
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.memory import Memory, longest_window
from cronhpa.core.observation import Absent, Pod, PodCounts, Reading, Sample, ScalarReading, Scale
from cronhpa.core.observe import active
from cronhpa.core.reactive.pod_counts import is_of_ready_pod
from cronhpa.core.reactive.replicas import MetricProposal, Tolerance, measure, tolerance
from cronhpa.core.record import Record
from cronhpa.core.scheduled.bounds import Bounds, resolve, resolve_with_expiry
from cronhpa.core.spec import ResourceMetric, Spec


class SharedRecommendation(Struct, gc=False):
    """What is recommended at one turn after another, by how many objects ever: one value for all of one instant."""

    newest: Recommendation

    def at(self, instant: Nanoseconds) -> Recommendation:
        if self.newest.at != instant:
            self.newest = replace(self.newest, at=instant)
        return self.newest


class Steady(Struct):
    """
    What a decision followed from. recommended, readings: of the decision, the readings those of each metric.
    window: the age up to which a recommendation counts. ends: from this instant on the turns are decided.
    starting: pods of which, before `started`, samples of CPU count by their times.

    Learnt since: alike: the lowest and the highest usage at which each metric was seen to ask for the count of the
    decision. until: before this instant the bounds are these.
    """

    spec: Spec
    scale: Scale
    pods: tuple[Pod, ...]
    bounds: Bounds
    band: Tolerance
    readings: tuple[PodCounts | ScalarReading, ...]
    decision: Decision
    recommended: SharedRecommendation
    window: Nanoseconds
    ends: Nanoseconds
    starting: tuple[Pod, ...]
    started: Nanoseconds
    alike: list[tuple[int, int]]
    until: Nanoseconds = 0

    def trusts(self, samples: Mapping[str, Sample] | Absent) -> bool:
        """Whether each pod that is starting counts with its sample of these."""
        return not isinstance(samples, Absent) and all(
            pod.name in samples and is_of_ready_pod(pod, samples[pod.name]) for pod in self.starting
        )


class Repetition(Struct, frozen=True, gc=False):
    """
    A turn like another one: its instants, the usages or values that were read, and the memory after it.

    What else follows from them is worked out where it is asked for: at most turns nobody asks.
    """

    of: Steady
    now: Nanoseconds
    at: Nanoseconds
    usages: tuple[int, ...]
    memory: Memory

    @property
    def readings(self) -> tuple[PodCounts | ScalarReading, ...]:
        return tuple(_reading(self.of, index, usage) for index, usage in enumerate(self.usages))

    @property
    def metrics(self) -> tuple[MetricProposal | Absent, ...]:
        return tuple(_measured(self.of, index, usage) for index, usage in enumerate(self.usages))

    @property
    def decision(self) -> Decision:
        recommended = replace(self.of.recommended.newest, at=self.now)
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
        or spec.forecast is not None
        or spec.options.metric_max_age is not None
        or observation.selector_problem is not None
        or observation.unseen is not None
        or active(pods) < observation.scale.status_replicas
        or (ends := memory.alike_until(recommended, spec.behavior, spec.options, decision.at)) <= now
        or memory.seeded(decision.current, now, bounded=decision.bounded) is not memory
    ):
        return None
    readings = tuple(reading for reading in observation.readings if _counts_fully(reading, pods))
    if len(readings) < len(spec.metrics):
        return None
    bounds = resolve(spec, now, turn.memory.start_up_after(observation), turn.memory.leads)
    band = tolerance(spec.behavior, spec.options)
    alike = [(used, used) for used in map(_usage, readings)]
    window = longest_window(spec.behavior, spec.options)
    shared = _shared(replace(recommended, at=0))
    starting, started = _starting(spec, pods, now)
    return Steady(
        spec, observation.scale, pods, bounds, band, readings, decision, shared, window, ends, starting, started, alike
    )


@lru_cache(maxsize=128)
def _shared(recommended: Recommendation) -> SharedRecommendation:
    # The objects of a namespace are decided at one instant, and most recommendations of a fleet are alike.
    return SharedRecommendation(recommended)


def repeat(
    known: Steady, usages: tuple[int, ...], memory: Memory, now: Nanoseconds, at: Nanoseconds
) -> Repetition | None:
    """
    The turn with these usages or values (milli-units, one a metric), or None where it must be decided.

    memory: as the turn before has left it. now: not before that turn. at: the instant under which the decision is
    remembered.
    """
    if now >= known.ends:
        return None
    if now >= known.until:
        bounds, until = resolve_with_expiry(known.spec, now, memory.start_up, memory.leads)
        if bounds is not known.bounds:
            return None
        known.until = until
    if not asks_alike(known, usages):
        return None
    remembered = memory.recommending_within(known.window, known.recommended.at(at))
    return Repetition(known, now, at, usages, remembered)


def usages_of(known: Steady, readings: Sequence[Reading]) -> tuple[int, ...] | None:
    """The usages or values of these readings; None where they differ in more from those of the decision."""
    usages = tuple(_usage(reading) for reading in readings if not isinstance(reading, Absent))
    alike = tuple(_reading(known, index, usage) for index, usage in enumerate(usages))
    return usages if alike == (*readings,) else None


def asks_alike(known: Steady, usages: tuple[int, ...]) -> bool:
    """Whether each metric asks for the count of the decision at these usages, too."""
    for index, usage in enumerate(usages):
        low, high = known.alike[index]
        if not low <= usage <= high and not _asks_alike(known, index, usage):
            return False
    return True


def _asks_alike(known: Steady, index: int, usage: int) -> bool:
    """Whether a metric asks for the count of the decision at this usage, too; notes it."""
    measured, before = _measured(known, index, usage), known.decision.metrics[index]
    if not isinstance(measured, MetricProposal) or not isinstance(before, MetricProposal):
        return False
    if measured.replicas != before.replicas:
        return False
    # Within the tolerance the current count is asked for. Where that is not the number of the pods that carry the load,
    # a higher usage may ask for fewer.
    if known.scale.spec_replicas == len(known.pods) == known.readings[index].ready:
        low, high = known.alike[index]
        known.alike[index] = (min(low, usage), max(high, usage))
    return True


def _reading(known: Steady, index: int, usage: int) -> PodCounts | ScalarReading:
    reading = known.readings[index]
    if isinstance(reading, ScalarReading):
        return replace(reading, value=usage)
    return replace(reading, usage=usage, load=usage)


def _measured(known: Steady, index: int, usage: int) -> MetricProposal | Absent:
    scale, headroom = known.scale, known.bounds.headroom_percent
    reading = _reading(known, index, usage)
    return measure(known.spec.metrics[index], reading, scale.spec_replicas, scale.status_replicas, known.band, headroom)


def _starting(spec: Spec, pods: Sequence[Pod], now: Nanoseconds) -> tuple[tuple[Pod, ...], Nanoseconds]:
    """The pods in their CPU initialization period, and when the last one ends; none where no metric is of the CPU."""
    if not any(isinstance(metric, ResourceMetric) and metric.name == "cpu" for metric in spec.metrics):
        return (), 0
    ends = [(pod, (pod.start_time or 0) + spec.options.cpu_initialization_period) for pod in pods]
    starting = [(pod, end) for pod, end in ends if end > now]
    return tuple(pod for pod, _ in starting), max((end for _, end in starting), default=0)


def _usage(reading: PodCounts | ScalarReading) -> int:
    return reading.value if isinstance(reading, ScalarReading) else reading.usage


def _counts_fully(reading: Reading, pods: Sequence[Pod]) -> TypeGuard[PodCounts | ScalarReading]:
    """Whether each of these pods counts fully in a reading: none is unready, missing or ignored."""
    if isinstance(reading, PodCounts):
        return reading.ready == reading.counted == len(pods)
    return isinstance(reading, ScalarReading)

"""
Turns that repeat a decision: in most turns of a fleet only usages and values of metrics differ from the turn before.

`steady` tells whether `repeat` may decide the turns after this one, and keeps the inputs of its decision. `repeat`
takes the new usages and returns the results that `observe`, `decide` and `Memory.after` would give, or None if it
cannot tell. It has no rules of its own: the functions that `decide` calls compute bounds, metrics and memory.

A repeated decision equals that of `decide`, because all inputs of `decide` have the same effect:

- the spec, the scale and the pods: the caller compares them;
- the bounds: resolved anew at each turn, and compared;
- the readings: every pod counted as ready in the turn before. It does so again while it has a sample; the sample of a
  starting pod must begin after its readiness. So a reading differs from the last one only in its usage or value;
- the counts: each metric must ask for the same count as before. The lowest and the highest usage with this count are
  kept. The count never falls as usage grows, so it is the same in between; a usage outside is measured;
- the memory: before a known instant (`Memory.alike_until`) no recommendation of another count leaves a window, and no
  scale event leaves a policy's period. Each repeated turn adds the same recommendation, so windows contain the same
  counts and policies the same events. The recommendation that a window holds has another count, so its instant stays
  the same, too. `seeded` changes nothing after the first turn;
- the instant: its other uses are the decision's own time and that of its recommendation.
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
    """The recommendation of successive turns. All objects with the same one share one value for each instant."""

    newest: Recommendation

    def at(self, instant: Nanoseconds) -> Recommendation:
        if self.newest.at != instant:
            self.newest = replace(self.newest, at=instant)
        return self.newest


class Steady(Struct):
    """
    The inputs of a decision. recommended: its recommendation. readings: one for each metric.
    window: the age up to which a recommendation counts. ends: from this instant on turns are decided.
    starting: pods whose CPU samples must begin after their readiness, until `started`.

    Updated by later turns: alike: the lowest and the highest usage at which each metric asked for the decision's count.
    until: the instant until which these bounds are in force.
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
        """Whether the sample of each starting pod counts fully."""
        return not isinstance(samples, Absent) and all(
            pod.name in samples and is_of_ready_pod(pod, samples[pod.name]) for pod in self.starting
        )


class Repetition(Struct, frozen=True, gc=False):
    """
    A repeated turn: its instants, the usages or values that were read, and the memory after it.

    All other results are computed on demand, because most turns need none of them.
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
    The inputs that the next turns may reuse; None if they must be decided.

    pods: those of the observation. memory: after the turn.
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
    inputs: Steady, usages: tuple[int, ...], memory: Memory, now: Nanoseconds, at: Nanoseconds
) -> Repetition | None:
    """
    The turn with these usages or values (milli-units, one for each metric), or None if it must be decided.

    memory: after the turn before. now: not before that turn. at: the instant with which the memory keeps the decision.
    """
    if now >= inputs.ends:
        return None
    if now >= inputs.until:
        bounds, until = resolve_with_expiry(inputs.spec, now, memory.start_up, memory.leads)
        if bounds is not inputs.bounds:
            return None
        inputs.until = until
    if not asks_alike(inputs, usages):
        return None
    remembered = memory.recommending_within(inputs.window, inputs.recommended.at(at))
    return Repetition(inputs, now, at, usages, remembered)


def usages_of(inputs: Steady, readings: Sequence[Reading]) -> tuple[int, ...] | None:
    """The usages or values of these readings; None if the readings differ from the decision's in anything else."""
    usages = tuple(_usage(reading) for reading in readings if not isinstance(reading, Absent))
    alike = tuple(_reading(inputs, index, usage) for index, usage in enumerate(usages))
    return usages if alike == (*readings,) else None


def asks_alike(inputs: Steady, usages: tuple[int, ...]) -> bool:
    """Whether each metric asks for the count of the decision at these usages, too."""
    for index, usage in enumerate(usages):
        low, high = inputs.alike[index]
        if not low <= usage <= high and not _asks_alike(inputs, index, usage):
            return False
    return True


def _asks_alike(inputs: Steady, index: int, usage: int) -> bool:
    """Whether a metric asks for the count of the decision at this usage, too; notes it."""
    measured, before = _measured(inputs, index, usage), inputs.decision.metrics[index]
    if not isinstance(measured, MetricProposal) or not isinstance(before, MetricProposal):
        return False
    if measured.replicas != before.replicas:
        return False
    # Within the tolerance a metric asks for the current count. If the number of pods that carry the load differs from
    # it, a higher usage may ask for fewer replicas.
    if inputs.scale.spec_replicas == len(inputs.pods) == inputs.readings[index].ready:
        low, high = inputs.alike[index]
        inputs.alike[index] = (min(low, usage), max(high, usage))
    return True


def _reading(inputs: Steady, index: int, usage: int) -> PodCounts | ScalarReading:
    reading = inputs.readings[index]
    if isinstance(reading, ScalarReading):
        return replace(reading, value=usage)
    return replace(reading, usage=usage, load=usage)


def _measured(inputs: Steady, index: int, usage: int) -> MetricProposal | Absent:
    scale, headroom = inputs.scale, inputs.bounds.headroom_percent
    reading = _reading(inputs, index, usage)
    return measure(
        inputs.spec.metrics[index], reading, scale.spec_replicas, scale.status_replicas, inputs.band, headroom
    )


def _starting(spec: Spec, pods: Sequence[Pod], now: Nanoseconds) -> tuple[tuple[Pod, ...], Nanoseconds]:
    """The pods in their CPU initialization period, and the end of the last one; no pods if no metric is of the CPU."""
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

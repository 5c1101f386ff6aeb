"""
How long a decision stands: until something that it rests on changes.

Most periods of a fleet differ from the one before in the usage of pods alone. A decision then stands as long as each
usage asks for the same count, and a period costs a sum and a comparison. It rests on

- spec, scale, pods and owners: the operator does not ask for a decision that one of them has outlived;
- the usage of each metric: one that asks for another count ends the decision. The count never falls as usage grows, so
  all usages between two that ask for the same count do, and only a usage outside this band is measured;
- the instant: `until` is the next one at which bounds may change, a recommendation leaves a window, or a scale event
  leaves a policy's period. In the meantime each period adds the same recommendation to the memory.

This file has no rules of its own: the functions that `decide` calls compute bounds, proposals and memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from cronhpa.core.forecasts.floor import predict
from cronhpa.core.metrics.observe import active
from cronhpa.core.metrics.pod_counts import counts_ready, is_of_ready_pod
from cronhpa.core.metrics.replicas import measure, tolerance
from cronhpa.core.model.decision import (
    Decision,
    DecisionKind,
    MetricProposal,
    Proposal,
    Recommendation,
    Source,
)
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.memory import Memory, longest_window
from cronhpa.core.model.observation import Absent, Observation, Pod, PodCounts, Reading, Sample, ScalarReading, Scale
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import ExternalMetric, Metric, ObjectMetric, ResourceMetric, Spec
from cronhpa.core.schedules.bounds import resolve, resolve_with_expiry


class Standing(Struct, gc=False):
    """A decision that stands, and the periods for which it has stood."""

    decision: Decision
    """The decision, with the numbers of the reconciliation that made it."""
    spec: Spec
    """The spec of the decision."""
    scale: Scale
    """The scale of the decision."""
    readings: tuple[PodCounts | ScalarReading, ...]
    """The readings of the decision, one for each metric."""
    memory: Memory
    """The memory after the reconciliation that made it."""
    recommended: Recommendation
    """What each period recommends."""
    headroom_percent: int
    """The headroom of the schedules in force."""
    until: Nanoseconds
    """The first instant at which something besides usage may change the decision."""
    bands: list[tuple[int, int]]
    """For each metric the lowest and the highest usage (milli-units) known to ask for its count."""
    starting: tuple[Pod, ...]
    """Pods in their CPU initialization period. A sample of theirs counts if it was measured after they became Ready."""
    started: Nanoseconds
    """The end of the last of these periods."""
    usages: tuple[int, ...]
    """The usage of each metric in the newest period, milli-units."""
    at: Nanoseconds
    """The newest period's instant."""
    periods: list[Nanoseconds] = field(default_factory=list)
    """For each period for which it has stood the instant with which the memory keeps it, the oldest first."""

    def covers(self, usages: Iterable[int], now: Nanoseconds) -> bool:
        """Whether the decision stands in a period with these usages. False after a clock was set back."""
        if not self.at <= now < self.until:
            return False
        for index, usage in enumerate(usages):
            low, high = self.bands[index]
            if not low <= usage <= high and not self._asks_alike(index, usage):
                return False
        return True

    def foresees(
        self, observation: Observation, forecast: Forecast | Absent | None, memory: Memory, now: Nanoseconds
    ) -> bool:
        """
        Whether the forecast asks for the same floor in this period, too, or for none again.

        observation, memory: those of the decision, as far as a forecast reads them. For simulations: the operator
        decides each period of an object with a forecast, because its status tells of the newest one.
        """
        predicted = predict(self.spec, observation, forecast, memory, self.headroom_percent, now)
        return (predicted.replicas if isinstance(predicted, Proposal) else None) == _foreseen(self.decision)

    def _asks_alike(self, index: int, usage: int) -> bool:
        """Whether a metric asks for its count at this usage, too; widens its band then."""
        proposal, before = self._proposal(index, usage), self.decision.metrics[index]
        if not isinstance(proposal, MetricProposal) or not isinstance(before, MetricProposal):
            return False
        if proposal.replicas != before.replicas:
            return False
        if _grows(self.spec.metrics[index], self.readings[index], self.scale.spec_replicas):
            low, high = self.bands[index]
            self.bands[index] = min(low, usage), max(high, usage)
        return True

    def _proposal(self, index: int, usage: int) -> MetricProposal | Absent:
        """What a metric proposes at a usage."""
        reading, scale = with_usage(self.readings[index], usage), self.scale
        band = tolerance(self.spec.behavior, self.spec.options)
        return measure(
            self.spec.metrics[index], reading, scale.spec_replicas, scale.status_replicas, band, self.headroom_percent
        )

    def note_period(self, usages: tuple[int, ...], now: Nanoseconds, remembered_at: Nanoseconds) -> None:
        """Notes a period in which the decision stands; the memory keeps it with `remembered_at`, or the last one."""
        self.usages, self.at = usages, now
        self.periods.append(max(remembered_at, self.periods[-1] if self.periods else self.decision.at))

    def trusts(self, samples: Mapping[str, Sample] | Absent) -> bool:
        """Whether the sample of each starting pod counts fully."""
        return not isinstance(samples, Absent) and all(
            pod.name in samples and is_of_ready_pod(pod, samples[pod.name]) for pod in self.starting
        )

    def usages_of(self, readings: Sequence[Reading]) -> tuple[int, ...] | None:
        """The usages of these readings; None if they differ from the decision's in anything else."""
        usages = tuple(_usage(reading) for reading in readings if not isinstance(reading, Absent))
        alike = tuple(map(with_usage, self.readings, usages))
        return usages if alike == (*readings,) else None

    @property
    def newest_memory(self) -> Memory:
        """The memory after the newest period: with the recommendation of each one."""
        if not self.periods:
            return self.memory
        window = longest_window(self.spec.behavior, self.spec.options)
        return self.memory.recommending(window, *(replace(self.recommended, at=at) for at in self.periods))

    @property
    def newest_readings(self) -> tuple[PodCounts | ScalarReading, ...]:
        """The readings of the newest period."""
        return tuple(map(with_usage, self.readings, self.usages))

    @property
    def newest_decision(self) -> Decision:
        """The decision with the numbers of the newest period."""
        if not self.periods:
            return self.decision
        proposals = tuple(self._proposal(index, usage) for index, usage in enumerate(self.usages))
        recommended = replace(self.recommended, at=self.at)
        return replace(self.decision, at=self.periods[-1], metrics=proposals, recommended=recommended)


def standing_of(
    record: Record, pods: Sequence[Pod], decision: Decision, memory: Memory, *, foreseen: bool = False
) -> Standing | None:
    """
    How long a decision stands; None if the next period must be decided. The caller may end it earlier.

    pods: those of the observation. memory: after the reconciliation. foreseen: whether the caller asks `foresees` in
    each period; without it no decision with a forecast stands.
    """
    spec, observation, now = record.spec, record.observation, record.now
    recommended = decision.recommended
    if (
        not isinstance(observation.scale, Scale)
        or recommended is None
        or decision.current == 0
        or decision.kind is not DecisionKind.COMPUTED
        or decision.rescales
        or decision.failure is not None
        or (spec.forecast is not None and not foreseen)
        or spec.options.metric_max_age is not None
        or observation.selector_problem is not None
        or observation.unseen is not None
        or active(pods) < observation.scale.status_replicas
        or memory.seeded(decision.current, now, bounded=decision.bounded) is not memory
    ):
        return None
    readings = tuple(reading for reading in observation.readings if _counts_fully(reading, pods))
    if len(readings) < len(spec.metrics):
        return None
    before = record.memory
    bounds = resolve(
        spec, now, before.lead_start_up_after(observation, spec, now), before.leads, before.crowd_after(observation)
    )
    bounds_after, bounds_until = resolve_with_expiry(spec, now, memory.lead_start_up(spec), memory.leads, memory.crowd)
    until = min(bounds_until, memory.alike_until(recommended, spec.behavior, spec.options, decision.at))
    if bounds_after != bounds or until <= now:
        return None
    starting, started = _starting(spec, pods, now)
    usages = tuple(map(_usage, readings))
    return Standing(
        decision=decision,
        spec=spec,
        scale=observation.scale,
        readings=readings,
        memory=memory,
        recommended=recommended,
        headroom_percent=bounds.headroom_percent,
        until=until,
        bands=[(usage, usage) for usage in usages],
        starting=starting,
        started=started,
        usages=usages,
        at=now,
    )


def _foreseen(decision: Decision) -> int | None:
    """The floor that the forecast asks for; None if it asks for none."""
    return next((one.replicas for one in decision.proposals if one.source is Source.FORECAST), None)


def _grows(metric: Metric, reading: PodCounts | ScalarReading, replicas: int) -> bool:
    """
    Whether a metric's count never falls as its usage grows.

    Within the tolerance a metric asks for the current count, outside it for a multiple of the pods that carry the load.
    If those are not as many as the target wants, a higher usage may ask for fewer replicas.
    """
    if isinstance(metric, ObjectMetric | ExternalMetric) and not counts_ready(metric):
        return True
    return replicas == reading.ready


def with_usage(reading: PodCounts | ScalarReading, usage: int) -> PodCounts | ScalarReading:
    """A reading in which each pod counts fully, with another usage, milli-units."""
    if isinstance(reading, ScalarReading):
        return replace(reading, value=usage)
    return replace(reading, usage=usage, load=usage)


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

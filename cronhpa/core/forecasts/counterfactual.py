"""
The replicas that a target would have without its forecast: the same decisions without that source.

A counterfactual exists only while it differs from the target. It has pods of its own. They take as long to start as the
target's pods, and carry no load until then. The load is the target's, estimated from the samples of the target's pods.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.decide import decide
from cronhpa.core.metrics.observe import START_UP_GRAIN
from cronhpa.core.model.decision import Decision, DecisionKind, Role, Scaled, Source, Withheld
from cronhpa.core.model.instant import HOUR, SECOND, Nanoseconds
from cronhpa.core.model.memory import START_UP_UNKNOWN, Memory
from cronhpa.core.model.observation import Absent, Observation, PodCounts, Reading, ScalarReading, Scale
from cronhpa.core.model.spec import Metric, Mode, PodsMetric, ResourceMetric, Spec

# The slowest case of metrics-server and kubelet: a sample is the mean over one minute, and is half a minute old. A pod
# has a sample once it has run for ten seconds of that minute.
SAMPLE_WINDOW = 60 * SECOND
SAMPLE_DELAY = 30 * SECOND
_SAMPLED_AFTER = SAMPLE_DELAY + 10 * SECOND
# All older pods count as this old.
_OLD = HOUR


class Pods(Struct, frozen=True):
    """Pods by age."""

    made: tuple[tuple[Nanoseconds, int], ...]
    """(instant of creation, number), the oldest first."""
    gone: tuple[tuple[Nanoseconds, int], ...] = ()
    """(instant of removal, number) of removed Ready pods that carried load within the window of the current samples."""

    @property
    def count(self) -> int:
        return sum(number for _, number in self.made)

    def scaled(self, replicas: int, at: Nanoseconds, start_up: Nanoseconds) -> Pods:
        """The pods after a change of their number; the youngest are removed first, as by a ReplicaSet."""
        surplus = self.count - replicas
        if not surplus:
            return self
        made = [(max(instant, at - _OLD), number) for instant, number in self.made]
        if surplus < 0:
            made.append((at, -surplus))
        ready = 0
        while surplus > 0:
            instant, number = made.pop()
            fewer = min(number, surplus)
            surplus -= fewer
            ready += fewer if at - instant >= start_up else 0
            if number > fewer:
                made.append((instant, number - fewer))
        numbers: dict[Nanoseconds, int] = {}
        for instant, number in made:
            numbers[instant] = numbers.get(instant, 0) + number
        gone = [removal for removal in self.gone if at - removal[0] < SAMPLE_DELAY + SAMPLE_WINDOW]
        return Pods(tuple(numbers.items()), (*gone, (at, ready)) if ready else tuple(gone))

    def share(self, now: Nanoseconds, start_up: Nanoseconds, age: Nanoseconds = 0) -> float:
        """
        The share of the load in the samples' window that pods carried whose age at `now` is at least `age`.

        The Ready pods of an instant share its load equally. 1 if no pod was Ready.
        """
        end = now - SAMPLE_DELAY
        begin = end - SAMPLE_WINDOW
        if not self.gone and all(instant <= min(begin - start_up, now - age) for instant, _ in self.made):
            return 1.0  # as below, where all were Ready and old enough all the time
        served = [(max(instant + start_up, begin), end, number, now - instant >= age) for instant, number in self.made]
        served += [(begin, min(instant, end), number, False) for instant, number in self.gone]
        served = [group for group in served if group[0] < group[1]]
        instants = sorted({instant for first, last, *_ in served for instant in (first, last)})
        area = span = 0.0
        for first, last in pairwise(instants):
            there = [group for group in served if group[0] <= first and group[1] >= last]
            ready = sum(number for *_, number, _ in there)
            if ready:
                area += (last - first) * sum(number for *_, number, counts in there if counts) / ready
                span += last - first
        return area / span if span else 1.0

    def older(self, now: Nanoseconds, age: Nanoseconds) -> int:
        """The number of pods of at least this age."""
        return sum(number for instant, number in self.made if now - instant >= age)


class Counterfactual(Struct, frozen=True):
    memory: Memory
    pods: Pods
    """Memory and pods as they would be without the forecast."""

    @property
    def replicas(self) -> int:
        return self.pods.count


def follow(
    counterfactual: Counterfactual | None,
    spec: Spec,
    observation: Observation,
    memory: Memory,
    decision: Decision,
    pods: Pods,
    now: Nanoseconds,
) -> Counterfactual | None:
    """
    The counterfactual after a reconciliation; None while the target is as it would be without a forecast.

    memory, decision, pods: of the target; `memory` and `pods` at the begin of the reconciliation.
    """
    scale = observation.scale
    if isinstance(scale, Absent) or spec.forecast is None:
        return counterfactual
    if counterfactual is None:
        if not _is_raised(spec, decision):
            return None
        counterfactual = Counterfactual(_without_forecast(memory), pods)
    start_up = start_up_of(memory, observation)
    observed = carried_by(counterfactual.pods, pods, spec, observation, scale, start_up, now)
    alone = decide(spec, observed, None, counterfactual.memory, now)
    outcome = Scaled(now) if alone.rescales else Withheld()
    after = Counterfactual(
        counterfactual.memory.after(alone, outcome, spec, observed),
        counterfactual.pods.scaled(alone.desired, now, start_up),
    )
    # Equal counts can diverge again while a recommendation stabilizes one of them alone, or while some pods are young.
    is_met = (
        after.replicas == decision.desired
        and decision.stabilized is None
        and alone.stabilized is None
        and all(not _are_young(group, start_up, now) for group in (pods, after.pods))
    )
    return None if is_met and not _is_raised(spec, decision) else after


def _without_forecast(memory: Memory) -> Memory:
    """The memory with each recommendation of the forecast replaced by that of the metrics."""
    return replace(
        memory,
        recommendations=tuple(
            replace(entry, replicas=entry.metrics, by=None)
            if entry.metrics is not None and entry.by is not None and entry.by.source is Source.FORECAST
            else entry
            for entry in memory.recommendations
        ),
    )


def start_up_of(memory: Memory, observation: Observation) -> Nanoseconds:
    """The time from a pod's creation to Ready: the learned time minus START_UP_GRAIN, to which it was rounded up."""
    learned = memory.start_up_after(observation)
    return START_UP_UNKNOWN if learned is None else max(learned - START_UP_GRAIN, 0)


def carried_by(
    pods: Pods,
    observed_pods: Pods,
    spec: Spec,
    observation: Observation,
    scale: Scale,
    start_up: Nanoseconds,
    now: Nanoseconds,
) -> Observation:
    """The observation as if `pods` carried the load of `observed_pods`."""
    count = pods.count
    return replace(
        observation,
        scale=replace(scale, spec_replicas=count, status_replicas=count),
        readings=tuple(
            _on_pods(metric, reading, pods, observed_pods, spec, start_up, now)
            for metric, reading in zip(spec.metrics, observation.readings, strict=True)
        ),
    )


def _on_pods(
    metric: Metric,
    reading: Reading,
    pods: Pods,
    observed_pods: Pods,
    spec: Spec,
    start_up: Nanoseconds,
    now: Nanoseconds,
) -> Reading:
    count = pods.count
    if isinstance(reading, ScalarReading):
        return replace(reading, ready=pods.older(now, start_up)) if isinstance(reading.ready, int) else reading
    if isinstance(reading, Absent) or not reading.matched + reading.counted or not count:
        return reading
    measured = SAMPLE_DELAY + SAMPLE_WINDOW
    trusted_after = _SAMPLED_AFTER
    if isinstance(metric, ResourceMetric) and metric.name == "cpu":
        trusted_after = min(start_up + measured, max(spec.options.cpu_initialization_period, start_up))
    trusted, sampled = pods.older(now, trusted_after), pods.older(now, _SAMPLED_AFTER)
    if not trusted:
        # All pods are starting: assume that they carry the load evenly.
        trusted = sampled = count
    missing = count - sampled
    # Removed pods carried a part of the load, and have no samples.
    load = reading.load / (observed_pods.share(now, start_up) or 1.0)
    request_per_pod = reading.request // reading.matched if reading.matched else 0
    fallback = max(100, _utilization(metric))
    missing_usage = (request_per_pod * fallback // 100 if request_per_pod else _average_value(metric)) * missing
    return PodCounts(
        ready=trusted,
        unready=sampled - trusted,
        missing=missing,
        counted=trusted,
        matched=trusted if reading.matched else 0,
        usage=round(load * (pods.share(now, start_up, trusted_after) or 1.0)),
        request=request_per_pod * trusted,
        missing_usage=missing_usage,
        missing_request=request_per_pod * missing,
        unready_request=request_per_pod * (sampled - trusted),
        load=ceil(load),
    )


def _are_young(pods: Pods, start_up: Nanoseconds, now: Nanoseconds) -> bool:
    """Whether the samples of the youngest pods do not cover a whole window yet."""
    return now - pods.made[-1][0] < start_up + SAMPLE_DELAY + SAMPLE_WINDOW if pods.made else False


def _utilization(metric: Metric) -> int:
    return (metric.target.average_utilization or 0) if isinstance(metric, ResourceMetric) else 0


def _average_value(metric: Metric) -> int:
    return (metric.target.average_value or 0) if isinstance(metric, ResourceMetric | PodsMetric) else 0


def _is_raised(spec: Spec, decision: Decision) -> bool:
    """Whether the forecast's floor is above every other proposal and the effective minimum."""
    if spec.forecast is None or spec.forecast.mode is not Mode.ACTIVE or decision.kind is DecisionKind.UNREACHABLE:
        return False
    floors = [proposal.replicas for proposal in decision.proposals if proposal.source is Source.FORECAST]
    others = [
        proposal.replicas
        for proposal in decision.proposals
        if proposal.source is not Source.FORECAST and proposal.role is not Role.CAP
    ]
    return bool(floors) and max(floors) > max(others, default=0) and max(floors) > decision.minimum

"""
The observation of a simulated target: equal to `observe` over all its pods, at a lower cost.

Pods of a group are alike, so one of them is read for all. The core alone decides how a pod counts. Let `sure` be a pod
that is counted in any case: a group of n pods then adds n x (counts of {sure, pod} - counts of {sure}).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple, replace

from cronhpa.core.metrics.observe import Measurement, observe, read
from cronhpa.core.model.observation import Absent, Observation, PodCounts, Reading, ScalarReading, Scale
from cronhpa.core.model.spec import Metric, PodsMetric, ResourceMetric, Spec
from cronhpa.core.standing import with_usage
from cronhpa.simulation.target import PodGroup, SimulatedTarget

# The answer of the metrics APIs if they know no pod.
_NO_METRICS = Absent("FailedGetResourceMetric", "the load of this time is not known")
_BOTH = 2


def observe_simulated(spec: Spec, target: SimulatedTarget, before: Observation | None = None) -> Observation:
    """
    The observation of one reconciliation.

    before: an earlier one of the settled target. With as many pods, again all settled, only their usage is new.
    """
    if before is not None and (alike := _with_new_usages(before, spec, target)) is not None:
        return alike
    groups = target.groups()
    measured = [_measured(metric, target, groups) for metric in spec.metrics]
    alike = observe(spec, _scale(target), [group.pod for group in groups], measured, target.now)
    if len(groups) == target.replicas:
        return alike
    readings = (
        _of_all(metric, reading, spec, target, groups)
        for metric, reading in zip(spec.metrics, alike.readings, strict=True)
    )
    return replace(alike, readings=tuple(readings))


def settled_usages(spec: Spec, target: SimulatedTarget) -> tuple[int, ...] | None:
    """
    What the metrics of a settled target measure, milli-units, as `Standing.covers` compares it.

    None if pods are starting or were of late, or if the load is not known.
    """
    if not target.is_settled:
        return None
    usages = []
    for metric in spec.metrics:
        if isinstance(metric, ResourceMetric | PodsMetric):
            (group,) = target.groups()
            usage = None if group.sample is None else group.sample.value * group.count
        else:
            usage = target.total()
        if usage is None:
            return None
        usages.append(usage)
    return tuple(usages)


def _with_new_usages(before: Observation, spec: Spec, target: SimulatedTarget) -> Observation | None:
    readings = tuple(reading for reading in before.readings if not isinstance(reading, Absent))
    usages = settled_usages(spec, target) if before.scale == _scale(target) and target.replicas else None
    if usages is None or len(readings) < len(spec.metrics):
        return None
    return replace(before, readings=tuple(map(with_usage, readings, usages)))


def _scale(target: SimulatedTarget) -> Scale:
    return Scale(target.replicas, target.replicas, "")


def _measured(metric: Metric, target: SimulatedTarget, groups: Sequence[PodGroup]) -> Measurement:
    if isinstance(metric, ResourceMetric | PodsMetric):
        return {group.pod.name: group.sample for group in groups if group.sample is not None} or _NO_METRICS
    total = target.total()
    return _NO_METRICS if total is None else total


def _of_all(metric: Metric, alike: Reading, spec: Spec, target: SimulatedTarget, groups: Sequence[PodGroup]) -> Reading:
    """alike: the reading over one pod of each group."""
    if isinstance(alike, ScalarReading):
        return replace(alike, ready=target.ready) if alike.ready else alike
    if not isinstance(metric, ResourceMetric | PodsMetric):
        return alike
    if not isinstance(alike, PodCounts):
        return _in_full(metric, spec, target)
    if len(groups) == 1:
        return _plus(alike, alike, groups[0].count - 1)
    surely, alone = next(
        ((group, counts) for group in groups if isinstance(counts := _read(metric, (group,), spec, target), PodCounts)),
        (None, None),
    )
    if surely is None or alone is None:
        return _in_full(metric, spec, target)
    total = _plus(alike, alone, surely.count - 1)
    for group in groups:
        if group is not surely and group.count > 1:
            # Of two groups the reading over one pod of each is known already.
            both = alike if len(groups) == _BOTH else _read(metric, (surely, group), spec, target)
            total = _plus(_plus(total, both, group.count - 1), alone, 1 - group.count)
    return total


def _in_full(metric: Metric, spec: Spec, target: SimulatedTarget) -> Reading:
    """The reading over all pods: the reason of an absence may name a pod."""
    return read(metric, target.samples() or _NO_METRICS, target.pods, target.now, spec)


def _read(metric: Metric, groups: Sequence[PodGroup], spec: Spec, target: SimulatedTarget) -> Reading:
    """The reading of one pod of each of these groups."""
    samples = {group.pod.name: group.sample for group in groups if group.sample is not None}
    return read(metric, samples or _NO_METRICS, [group.pod for group in groups], target.now, spec)


def _plus(counts: PodCounts, other: Reading, times: int) -> PodCounts:
    assert isinstance(other, PodCounts), "with a pod that counts there are pod counts"
    return PodCounts(*(one + times * more for one, more in zip(astuple(counts), astuple(other), strict=True)))

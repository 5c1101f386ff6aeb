"""
What an object sees of the made-up target: the Observation that `observe` makes of all its pods, for less.

Pods made together are alike, so one stands for all of them. How a pod counts is asked of the core alone: a crowd adds
what one pod of it adds beside one that surely counts, as often as it has pods.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple, replace

from cronhpa.core.observation import Absent, Observation, PodCounts, Reading, ScalarReading, Scale
from cronhpa.core.observe import Measurement, observe, read
from cronhpa.core.spec import Metric, PodsMetric, ResourceMetric, Spec
from cronhpa.simulation.target import Crowd, SimulatedTarget

# As the metrics APIs answer where they know of no pod.
_NO_METRICS = Absent("FailedGetResourceMetric", "the load of this time is not known")


def observed(spec: Spec, target: SimulatedTarget) -> Observation:
    """The observation of one turn."""
    scale = Scale(target.replicas, target.replicas, "")
    crowds = target.crowds()
    measured = [_measured(metric, target, crowds) for metric in spec.metrics]
    alike = observe(spec, scale, [crowd.pod for crowd in crowds], measured, target.now)
    if len(crowds) == target.replicas:
        return alike
    readings = (
        _of_all(metric, reading, spec, target, crowds)
        for metric, reading in zip(spec.metrics, alike.readings, strict=True)
    )
    return replace(alike, readings=tuple(readings))


def _measured(metric: Metric, target: SimulatedTarget, crowds: Sequence[Crowd]) -> Measurement:
    if isinstance(metric, ResourceMetric | PodsMetric):
        return {crowd.pod.name: crowd.sample for crowd in crowds if crowd.sample is not None} or _NO_METRICS
    total = target.total()
    return _NO_METRICS if total is None else total


def _of_all(metric: Metric, alike: Reading, spec: Spec, target: SimulatedTarget, crowds: Sequence[Crowd]) -> Reading:
    """alike: the reading of one pod of each crowd."""
    if isinstance(alike, ScalarReading):
        return replace(alike, ready=target.ready) if alike.ready else alike
    if not isinstance(alike, PodCounts):
        return _in_full(metric, spec, target)
    if len(crowds) == 1:
        return _plus(alike, alike, crowds[0].count - 1)
    surely, alone = next(
        ((each, found) for each in crowds if isinstance(found := _read(metric, (each,), spec, target), PodCounts)),
        (None, None),
    )
    if surely is None or alone is None:
        return _in_full(metric, spec, target)
    total = _plus(alike, alone, surely.count - 1)
    for crowd in crowds:
        if crowd is not surely and crowd.count > 1:
            both = _read(metric, (surely, crowd), spec, target)
            total = _plus(_plus(total, both, crowd.count - 1), alone, 1 - crowd.count)
    return total


def _in_full(metric: Metric, spec: Spec, target: SimulatedTarget) -> Reading:
    """Of each pod by itself: why nobody counts may name one."""
    return read(metric, target.samples() or _NO_METRICS, target.pods, target.now, spec)


def _read(metric: Metric, crowds: Sequence[Crowd], spec: Spec, target: SimulatedTarget) -> Reading:
    """The reading of one pod of each of these crowds."""
    samples = {crowd.pod.name: crowd.sample for crowd in crowds if crowd.sample is not None}
    return read(metric, samples or _NO_METRICS, [crowd.pod for crowd in crowds], target.now, spec)


def _plus(tally: PodCounts, other: Reading, times: int) -> PodCounts:
    assert isinstance(other, PodCounts), "with a pod that counts there is a tally"
    return PodCounts(*(one + times * more for one, more in zip(astuple(tally), astuple(other), strict=True)))

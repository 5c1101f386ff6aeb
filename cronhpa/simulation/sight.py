"""
What an object sees of the made-up world: the Observation that `observe` makes of all its pods, for less.

Pods made together are alike, so one stands for all of them. How a pod counts is asked of the core alone: a crowd adds
what one pod of it adds beside one that surely counts, as often as it has pods.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple, replace

from cronhpa.core.observation import Absent, Observation, PodCounts, Reading, ScalarReading, Scale
from cronhpa.core.observe import Measurement, observe, read
from cronhpa.core.spec import Metric, PodsMetric, ResourceMetric, Spec
from cronhpa.simulation.world import Crowd, World

# As the metrics APIs answer where they know of no pod.
_NO_METRICS = Absent("FailedGetResourceMetric", "the load of this time is not known")


def observed(spec: Spec, world: World) -> Observation:
    """The observation of one turn."""
    scale = Scale(world.replicas, world.replicas, "")
    crowds = world.crowds()
    measured = [_measured(metric, world, crowds) for metric in spec.metrics]
    alike = observe(spec, scale, [crowd.pod for crowd in crowds], measured, world.now)
    if len(crowds) == world.replicas:
        return alike
    readings = (
        _of_all(metric, reading, spec, world, crowds)
        for metric, reading in zip(spec.metrics, alike.readings, strict=True)
    )
    return replace(alike, readings=tuple(readings))


def _measured(metric: Metric, world: World, crowds: Sequence[Crowd]) -> Measurement:
    if isinstance(metric, ResourceMetric | PodsMetric):
        return {crowd.pod.name: crowd.sample for crowd in crowds if crowd.sample is not None} or _NO_METRICS
    total = world.total()
    return _NO_METRICS if total is None else total


def _of_all(metric: Metric, alike: Reading, spec: Spec, world: World, crowds: Sequence[Crowd]) -> Reading:
    """alike: the reading of one pod of each crowd."""
    if isinstance(alike, ScalarReading):
        return replace(alike, ready=world.ready) if alike.ready else alike
    if not isinstance(alike, PodCounts):
        return _in_full(metric, spec, world)
    if len(crowds) == 1:
        return _plus(alike, alike, crowds[0].count - 1)
    surely, alone = next(
        ((each, found) for each in crowds if isinstance(found := _read(metric, (each,), spec, world), PodCounts)),
        (None, None),
    )
    if surely is None or alone is None:
        return _in_full(metric, spec, world)
    total = _plus(alike, alone, surely.count - 1)
    for crowd in crowds:
        if crowd is not surely and crowd.count > 1:
            both = _read(metric, (surely, crowd), spec, world)
            total = _plus(_plus(total, both, crowd.count - 1), alone, 1 - crowd.count)
    return total


def _in_full(metric: Metric, spec: Spec, world: World) -> Reading:
    """Of each pod by itself: why nobody counts may name one."""
    return read(metric, world.samples() or _NO_METRICS, world.pods, world.now, spec)


def _read(metric: Metric, crowds: Sequence[Crowd], spec: Spec, world: World) -> Reading:
    """The reading of one pod of each of these crowds."""
    samples = {crowd.pod.name: crowd.sample for crowd in crowds if crowd.sample is not None}
    return read(metric, samples or _NO_METRICS, [crowd.pod for crowd in crowds], world.now, spec)


def _plus(tally: PodCounts, other: Reading, times: int) -> PodCounts:
    assert isinstance(other, PodCounts), "with a pod that counts there is a tally"
    return PodCounts(*(one + times * more for one, more in zip(astuple(tally), astuple(other), strict=True)))

"""A target with its autoscaler, its recorded load and the start-up times of its pods: all that a report judges."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.spec import Metric, Spec
from cronhpa.history.database.series import Series
from cronhpa.simulation.target import Environment

Points = Sequence[tuple[Nanoseconds, float]]


class StartUpPhases(Struct, frozen=True):
    """The medians of the phases of a pod's start, and how many pods were seen to start."""

    pods: int
    scheduling: Nanoseconds
    """From creation to a node."""
    creating: Nanoseconds
    """From the node to running containers: volumes, images, init containers."""
    pulling: Nanoseconds | None
    """Of `creating`: pulling images; None where no event of it is left, for an hour by default."""
    becoming_ready: Nanoseconds
    """From running containers to Ready."""
    total: Nanoseconds
    """From creation to Ready: the 90th percentile, which the replay uses."""


class PackedPoints(Struct, frozen=True):
    """Points in 16 bytes each: four weeks of 200 targets by the minute are 130 MB, as tuples they were 900 MB."""

    instants: array[int]
    values: array[float]

    @classmethod
    def of(cls, points: Points) -> PackedPoints:
        return cls(array("q", (at for at, _ in points)), array("d", (value for _, value in points)))

    def points(self) -> Points:
        return list(zip(self.instants, self.values, strict=True))


class ReportedTarget(Struct, frozen=True, dict=True):
    """One target, as it is replayed."""

    autoscaler: str
    """The kind and name of the autoscaler, such as HorizontalPodAutoscaler/shop."""
    manifest: Mapping[str, Any]
    """A CronHPA that does what the autoscaler does."""
    spec: Spec
    """The spec of `manifest`, with the one metric that the load is of."""
    metric: Metric
    series: Series
    environment: Environment
    recorded: PackedPoints
    """The load as it was recorded."""
    recorded_replicas: PackedPoints
    """The replicas that there were; empty if they were not recorded."""
    requests: Mapping[str, int] = {}
    """Of a whole pod, milli-units by resource; those of the environment are of what the metric measures."""
    start_up: StartUpPhases | None = None
    remarks: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.series.namespace}/{self.spec.target.kind}/{self.spec.target.name}"

    @cached_property
    def points(self) -> Points:
        """The load as it was recorded."""
        return self.recorded.points()

    @property
    def replicas(self) -> Points:
        """The replicas that there were."""
        return self.recorded_replicas.points()

    def without_points(self) -> ReportedTarget:
        return replace(self, recorded=PackedPoints.of(()), recorded_replicas=PackedPoints.of(()))


class LeftOut(Struct, frozen=True):
    """An autoscaler that the report does not judge, and why."""

    autoscaler: str
    why: str

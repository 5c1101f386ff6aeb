"""A target with its autoscaler, its recorded load and the start-up times of its pods: all that a report judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.spec import Metric, Spec
from cronhpa.history.database.series import Series
from cronhpa.simulation.load import Load
from cronhpa.simulation.target import Environment

Points = Sequence[tuple[Nanoseconds, float]]


class StartUpPhases(Struct, frozen=True):
    """The medians of the phases of a pod's start, and how many pods were seen to start."""

    pods: int
    scheduling: Nanoseconds
    """From creation to a node."""
    creating: Nanoseconds
    """From the node to running containers: volumes, images, init containers."""
    becoming_ready: Nanoseconds
    """From running containers to Ready."""
    total: Nanoseconds
    """From creation to Ready: the 90th percentile, which the replay uses."""


class ReportedTarget(Struct, frozen=True):
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
    points: Points
    """The load as it was recorded."""
    load: Load
    replicas: Points = ()
    """The replicas that there were; empty if they were not recorded."""
    start_up: StartUpPhases | None = None
    remarks: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.series.namespace}/{self.spec.target.kind}/{self.spec.target.name}"


class LeftOut(Struct, frozen=True):
    """An autoscaler that the report does not judge, and why."""

    autoscaler: str
    why: str

"""An autoscaler and its histories become a target that can be replayed, or a reason why not."""

from __future__ import annotations

from collections.abc import Sequence

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.memory import START_UP_UNKNOWN
from cronhpa.core.model.spec import Metric, Mode
from cronhpa.forecasting.backtest import (
    POINTS_MIN,
    NotRunnableError,
    RequestUnknownError,
    load_of_points,
    loaded_metric,
    name_of,
    stated_capacity,
    with_one,
)
from cronhpa.history.database.series import Series
from cronhpa.reporting.objects import Autoscaler, PodRequests
from cronhpa.reporting.reported_target import LeftOut, PackedPoints, Points, ReportedTarget, StartUpPhases
from cronhpa.simulation.target import Environment

# As `cronhpa backtest`: the age of a metric when it is read, and the time that it is averaged over.
METRIC_DELAY: Nanoseconds = 30 * SECOND
METRIC_WINDOW: Nanoseconds = 60 * SECOND


def metric_of(autoscaler: Autoscaler, requests: PodRequests) -> Metric | LeftOut:
    """The metric whose load is replayed."""
    label = f"{autoscaler.namespace}/{autoscaler.label}"
    try:
        metric = loaded_metric(autoscaler.spec, requests.measured(autoscaler.spec))
    except RequestUnknownError as problem:
        return LeftOut(label, f"{problem}, and its pods state none")
    except NotRunnableError as problem:
        return LeftOut(label, str(problem))
    if metric is None:
        return LeftOut(label, "it has no metric, so nothing tells what one pod can carry")
    return metric


def reported_target(
    autoscaler: Autoscaler,
    metric: Metric,
    requests: PodRequests,
    points: Points,
    replicas: Points = (),
    start_up: StartUpPhases | None = None,
    missing: Sequence[str] = (),
) -> ReportedTarget | LeftOut:
    """points: the load of the metric, in order. replicas: those that there were. missing: what the points lack."""
    label = f"{autoscaler.namespace}/{autoscaler.label}"
    measured = requests.measured(autoscaler.spec)
    capacity = stated_capacity(autoscaler.spec, metric, measured)
    if not capacity:
        return LeftOut(label, f"{name_of(metric)}: its target does not tell what one pod can carry")
    if len(points) < POINTS_MIN:
        return LeftOut(label, f"{name_of(metric)}: there is no load of it")
    try:
        load_of_points(points)
    except ValueError as problem:
        return LeftOut(label, f"{name_of(metric)}: {problem}")
    others = [name_of(other) or "?" for other in autoscaler.spec.metrics if other is not metric]
    remarks = [f"the replay is by {name_of(metric)} alone, without {', '.join(others)}"] if others else []
    if autoscaler.spec.mode is Mode.PREVIEW:
        remarks.append("it is in mode Preview and scales nothing: what it would do is judged")
    return ReportedTarget(
        autoscaler=autoscaler.label,
        manifest=autoscaler.manifest,
        spec=with_one(autoscaler.spec, metric),
        metric=metric,
        series=Series(autoscaler.namespace, autoscaler.name, name_of(metric)),
        environment=Environment(
            capacity=capacity,
            requests=measured,
            start_up=START_UP_UNKNOWN if start_up is None else start_up.total,
            metric_delay=METRIC_DELAY,
            metric_window=METRIC_WINDOW,
        ),
        recorded=PackedPoints.of(points),
        recorded_replicas=PackedPoints.of(replicas),
        requests=requests.whole,
        start_up=start_up,
        remarks=(*missing, *remarks, *autoscaler.remarks),
    )

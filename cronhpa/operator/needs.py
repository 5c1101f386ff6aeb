"""What an object's reconciliation waits for. Objects with different needs are reconciled in different tasks."""

from __future__ import annotations

from enum import Enum

from cronhpa.core.instant import Nanoseconds
from cronhpa.core.spec import CronWindow, ResourceMetric, Spec
from cronhpa.kube.scale import Targets, is_watched
from cronhpa.operator.object_state import ObjectState

# The windows of an object with many schedules, and the first import of public holidays, take long to compute. Several
# such objects in a row would block the event loop for seconds, so more windows than this, and all holidays, are
# computed in a thread. For fewer windows a thread costs more than it saves.
_WINDOWS_IN_LOOP_MAX = 16


class Need(Enum):
    NOTHING = "no metric"
    POD_METRICS = "the namespace's pod metrics"
    OTHERS = "an answer of its own: of a metrics API, about its target, of a write in doubt, of a thread"


def need(state: ObjectState, now: Nanoseconds, targets: Targets) -> Need:
    """What the next reconciliation of an object waits for."""
    if state.spec is None:
        return Need.NOTHING
    if state.uncertain or state.in_doubt or not is_watched(state.spec.target) or takes_long(state, state.spec, now):
        return Need.OTHERS
    # The target may be read by a request, although its kind is watched. Others must not wait for the answer.
    target = None if state.target is None else targets.watched(state.target)
    if state.surplus_since is not None or target is None or not target.is_current:
        return Need.OTHERS
    if not state.spec.metrics:
        return Need.NOTHING
    if all(isinstance(metric, ResourceMetric) for metric in state.spec.metrics):
        return Need.POD_METRICS
    return Need.OTHERS


def takes_long(state: ObjectState, spec: Spec, now: Nanoseconds) -> bool:
    """Whether a decision may block the loop for long: not if all results of its schedules are cached."""
    generation, until = state.quiet
    return has_heavy_schedules(spec) and (generation != state.generation or now >= until)


def has_heavy_schedules(spec: Spec) -> bool:
    """Whether the schedules must be computed in a thread."""
    return len(spec.schedules) > _WINDOWS_IN_LOOP_MAX or any(
        isinstance(schedule.window, CronWindow)
        and any(days is not None and days.holidays for days in (schedule.window.exclude, schedule.window.only))
        for schedule in spec.schedules
    )

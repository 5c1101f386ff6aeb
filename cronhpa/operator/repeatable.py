"""What a turn leaves for the next turns, so that they can repeat its decision (`fast_path`)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from cronhpa.core.decision import Decision
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Pod
from cronhpa.core.observe import active
from cronhpa.core.predictive.floor import forecast_source
from cronhpa.core.record import Record
from cronhpa.core.spec import ResourceMetric
from cronhpa.core.steady import Steady, steady
from cronhpa.history.series import LoadSample, Series
from cronhpa.kube.pod_indexer import Match
from cronhpa.kube.scale import ScaleTarget, WatchedTarget

# (namespace, API group, kind, name) of a scale target.
TargetKey = tuple[str, str, str, str]
# (spec.replicas, status.replicas, active pods) of a target with more active pods than its status.replicas.
Surplus = tuple[int, int, int]


class Seen(Struct, frozen=True):
    """What a turn has seen: the target and its pods."""

    target: ScaleTarget
    match: Match


class Repeatable(Struct, gc=False):
    """
    What the turns of an object repeat.

    is_listed: whether the LIST of the namespace's pod metrics has all its metrics; else each is requested alone.
    load: the index of the metric that is the object's load, and the load's series. highest: the highest load of the
    current minute, not recorded yet. owner_changes: the number of changes of owners and objects at the last search
    for another owner of the target; -1 before.
    """

    steady: Steady
    key: TargetKey
    target: WatchedTarget
    match: Match
    names: tuple[str, ...]
    is_listed: bool
    load: tuple[int, Series] | None
    highest: LoadSample | None = None
    owner_changes: int = -1


def surplus(replicas: int, status_replicas: int, pods: Sequence[Pod]) -> Surplus | None:
    """The counts of a target with more active pods than status.replicas; None otherwise."""
    seen = active(pods)
    return (replicas, status_replicas, seen) if seen > status_replicas else None


def repeatable(
    turn: Record,
    seen: Seen | None,
    decision: Decision,
    memory: Memory,
    name: str,
    key: TargetKey,
    target: WatchedTarget | None,
) -> Repeatable | None:
    """What the next turns may repeat of this one; None if they must be decided. target: as it is now."""
    if seen is None or target is None or target.target is not seen.target:
        return None
    inputs = steady(turn, seen.match.pods, decision, memory)
    if inputs is None:
        return None
    spec = turn.spec
    source = forecast_source(spec)
    of_load = next((index for index, metric in enumerate(spec.metrics) if metric is source), None)
    load = None if source is None or of_load is None else (of_load, Series(spec.namespace, name, source.name))
    names = tuple(pod.name for pod in seen.match.pods)
    is_listed = all(isinstance(metric, ResourceMetric) for metric in spec.metrics)
    return Repeatable(inputs, key, target, seen.match, names, is_listed, load)

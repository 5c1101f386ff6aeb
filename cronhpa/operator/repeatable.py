"""What is kept of a turn whose decision the next turns may repeat (`fast_path`)."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.decision import Decision
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Pod
from cronhpa.core.predictive.floor import forecast_source
from cronhpa.core.record import Record
from cronhpa.core.steady import Steady, steady
from cronhpa.history.series import Series
from cronhpa.kube.scale import ScaleTarget

# (namespace, API group, kind, name) of a scale target.
TargetKey = tuple[str, str, str, str]


class Seen(Struct, frozen=True):
    """What a turn has seen: the target and its pods."""

    target: ScaleTarget
    pods: tuple[Pod, ...]


class Repeatable(Struct, frozen=True, gc=False):
    """
    What the turns of an object repeat.

    key: of the target. load: the index of the metric that is the object's load, and the load's series.
    """

    steady: Steady
    key: TargetKey
    target: ScaleTarget
    names: tuple[str, ...]
    load: tuple[int, Series] | None


def repeatable(
    turn: Record, seen: Seen | None, decision: Decision, memory: Memory, name: str, key: TargetKey | None
) -> Repeatable | None:
    """What the next turns may repeat of this one; None where they are to be decided."""
    known = None if seen is None else steady(turn, seen.pods, decision, memory)
    if known is None or seen is None or key is None:
        return None
    spec = turn.spec
    source = forecast_source(spec)
    of_load = next((index for index, metric in enumerate(spec.metrics) if metric is source), None)
    load = None if source is None or of_load is None else (of_load, Series(spec.namespace, name, source.name))
    return Repeatable(known, key, seen.target, tuple(pod.name for pod in seen.pods), load)

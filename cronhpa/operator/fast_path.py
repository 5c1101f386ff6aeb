"""
The fast path: turns that repeat the last decision are not observed, decided, rendered and compared anew.

Whether a turn repeats it is said by `core/steady` and by what the shell alone knows: spec, status, memory, target and
pods are the very objects that they were, nobody else has the target, and nothing is due besides the decision. A turn
with anything unlike the last one takes the whole way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableSequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cronhpa.core.decision import Withheld
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Absent, Observation
from cronhpa.core.predictive.floor import MILLI
from cronhpa.core.record import Record, encode
from cronhpa.core.spec import ResourceMetric
from cronhpa.core.steady import Repetition, repeat
from cronhpa.history.points import POINT_STEP
from cronhpa.history.series import LoadSample
from cronhpa.kube.metric_values import usage_of
from cronhpa.kube.metrics import PodMetricsByName
from cronhpa.operator.grid import remembered_at
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.object_state import ObjectState
from cronhpa.operator.pending_write import PendingWrite
from cronhpa.operator.repeatable import Repeatable
from cronhpa.operator.said import about
from cronhpa.operator.writer import Writer

if TYPE_CHECKING:
    from cronhpa.operator.reconciler import Cluster

LOG = logging.getLogger(__name__)


class FastPath:
    """
    loads: those that were seen and are not stored yet. checks: whether turns are decided all the same, and compared.

    repeated: turns that were taken; compared, unequal: turns that were compared, and those that differed.
    """

    def __init__(
        self,
        cluster: Cluster,
        inventory: Inventory,
        writer: Writer,
        loads: MutableSequence[LoadSample],
        clock: Callable[[], Nanoseconds],
        *,
        checks: bool = False,
    ) -> None:
        self.checks = checks
        self.repeated = self.compared = self.unequal = 0
        self._cluster = cluster
        self._inventory = inventory
        self._writer = writer
        self._loads = loads
        self._clock = clock

    def may_take(self, state: ObjectState) -> bool:
        """Whether the turn of an object may repeat the last one: whether it is worth a look."""
        return state.said is not None and state.said.repeatable is not None and not self.checks

    def take(self, state: ObjectState, listed: PodMetricsByName | Absent | None) -> bool:
        """
        Takes the turn of an object if it repeats the last one; else nothing has happened.

        listed: the metrics of the namespace's pods; None where no metric is asked for.
        """
        repetition = self._repetition(state, listed, self._clock())
        known = state.said
        if repetition is None or known is None or known.repeatable is None:
            return False
        if known.has_drifted(repetition.metrics, repetition.memory) and self._writer.may_drift(state, repetition.at):
            return False
        now, kept = repetition.now, known.repeatable
        if kept.load is not None:
            index, series = kept.load
            self._loads.append(LoadSample(series, now, repetition.readings[index].load / MILLI))
        if now // POINT_STEP != state.noted.step:
            self._writer.decisions.note_point(state, _record(repetition), repetition.decision)
        state.memory = known.memory = repetition.memory
        known.at = now
        if state.newest is not None:
            state.newest = replace(state.newest, repetition=repetition)
        self.repeated += 1
        return True

    def compare(self, pending: PendingWrite, listed: PodMetricsByName | Absent | None) -> None:
        """Compares a turn that was decided, and is not written yet, with what would have been repeated."""
        state, turn = pending.state, pending.turn
        known = state.said
        repetition = self._repetition(state, listed, turn.now) if turn.memory is state.memory else None
        if repetition is None or known is None:
            return
        self.compared += 1
        memory = state.memory.after(pending.decision, Withheld(), turn.spec, turn.observation)
        told = (repetition.decision, repetition.readings, repetition.memory, known.about, False)
        if told != (pending.decision, turn.observation.readings, memory, pending.about, pending.acts):
            self.unequal += 1
            LOG.error("the fast path differs from what is decided: %s; it says %r", encode(turn), told)

    def _repetition(
        self, state: ObjectState, listed: PodMetricsByName | Absent | None, now: Nanoseconds
    ) -> Repetition | None:
        """The turn of an object at `now`, where it repeats the last one."""
        known = state.said
        if known is None or known.repeatable is None:
            return None
        kept = known.repeatable
        spec = kept.steady.spec
        if (
            state.spec is not spec
            or known.status is not state.status
            or known.memory is not state.memory
            or now < known.at
            # A contest ends by the count that is found at a turn.
            or (state.contest is not None and state.contest.is_open)
            # A change that its history has no room for yet is noted at a later turn.
            or state.noted.left_out
            or state.in_doubt
            or state.uncertain
            or state.checked is None
            or state.checked[1] + spec.options.sync_period <= now
            or not self._is_unchanged(state, kept)
            or known.about != about(state, state.generation, self._owner_problem(state, kept))
        ):
            return None
        usages = _usages(kept, listed)
        if usages is None:
            return None
        return repeat(kept.steady, usages, state.memory, now, remembered_at(state, spec.options.sync_period, now))

    def _is_unchanged(self, state: ObjectState, kept: Repeatable) -> bool:
        """Whether the target and its pods are known, and are the ones that were."""
        cluster, spec, selector = self._cluster, kept.steady.spec, kept.target.selector
        return (
            not isinstance(selector, Absent)
            and cluster.targets.watched(kept.key, spec.target.api_version) is kept.target
            and cluster.pods.matching(spec.namespace, selector) is kept.steady.pods
            and cluster.blindness(state.namespace) is None
        )

    def _owner_problem(self, state: ObjectState, kept: Repeatable) -> str | None:
        return self._cluster.owners.problem(state, self._inventory.on_target(kept.key))


def _usages(kept: Repeatable, listed: PodMetricsByName | Absent | None) -> list[int] | None:
    """The usage of all pods by each metric, milli-units; None where a pod has no sample."""
    if not kept.steady.spec.metrics:
        return []
    if listed is None or isinstance(listed, Absent):
        return None
    usages = []
    for metric in kept.steady.spec.metrics:
        usage = usage_of(metric, kept.names, listed) if isinstance(metric, ResourceMetric) else None
        if usage is None:
            return None
        usages.append(usage)
    return usages


def _record(repetition: Repetition) -> Record:
    """As much of the turn as a point shows."""
    known = repetition.of
    observation = Observation(known.scale, repetition.readings)
    return Record(known.spec, observation, None, repetition.memory, repetition.now)

"""
Which decisions stand: those of which nothing has changed on which they rest (`core/standing`).

Whoever changes spec or status, or counts pods of the object too, sets `LocalState.changed`; another memory ends what
stands (`LocalState.remember`); target, pods and owners tell by `WatchedInputs.is_current`. Here the crowd of the next
start is compared, and usage by its band. Every five minutes each object is decided in any case: that writes numbers
that have drifted, records a point of its past, and bounds what a mistake in here can do.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from cronhpa.core.decide import Decide
from cronhpa.core.model.decision import Withheld
from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.observation import Absent, Observation
from cronhpa.core.model.quantity import MILLI
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record, encode
from cronhpa.core.model.spec import ResourceMetric
from cronhpa.core.standing import Standing, standing_of
from cronhpa.core.sync_grid import caused_at, following
from cronhpa.kube.metrics import PodMetricsByName
from cronhpa.operator.loop.crowds import Crowds
from cronhpa.operator.loop.metric_apis import MetricQueries, are_all_listed
from cronhpa.operator.loop.minute_loads import MinuteLoads
from cronhpa.operator.objects.object_state import ObjectState, WatchedInputs

LOG = logging.getLogger(__name__)

# Each object is decided at least this often, whatever stands.
_FULL_PERIOD = 5 * MINUTE


class StandingDecisions:
    """checks: each decision that stands is made as well, and compared."""

    def __init__(self, loads: MinuteLoads, crowds: Crowds, decide: Decide, *, checks: bool) -> None:
        self.checks = checks
        self.stood = 0
        """The periods for which a decision stood."""
        self.differed = 0
        """Those of them, with `checks`, for which another decision would have been made."""
        self._loads = loads
        self._crowds = crowds
        self._decide = decide
        self._reported_at: Nanoseconds = 0

    def note_if_stands(
        self, state: ObjectState, measured: PodMetricsByName | Observation | Absent | None, now: Nanoseconds
    ) -> bool:
        """
        Whether the decision on an object stands in this period, which is noted then: the one list of conditions.

        measured: the pod metrics of the namespace, or an observation for metrics that they do not have; None for an
        object without metrics.
        """
        standing, inputs = state.local.standing, state.local.inputs
        if standing is None or inputs is None or state.local.changed:
            return False
        if not inputs.is_current or (standing.spec.schedules and self._has_another_crowd(state, now)):
            return False
        if isinstance(measured, Observation):
            usages = standing.usages_of(measured.readings)
        else:
            usages = _listed_usages(standing, inputs, measured, now)
        if usages is None or not standing.covers(usages, now):
            return False
        standing.note_period(usages, now, caused_at(state.namespace, standing.spec.options.sync_period, now))
        self.stood += 1
        if inputs.load is not None:
            index, series = inputs.load
            self._loads.note(state, series, now, usages[index] / MILLI)
        return True

    async def note_if_stands_after(
        self,
        state: ObjectState,
        observation: Observation,
        inputs: WatchedInputs | None,
        queries: MetricQueries,
        now: Nanoseconds,
    ) -> bool:
        """
        As `note_if_stands`, after an observation, of metrics that are not all listed: of others it was asked before.

        With `checks` it is asked here alone, and the decision is made as well, and compared.
        """
        standing, spec, former = state.local.standing, state.served.spec, state.local.inputs
        if standing is None or spec is None or former is None:
            return False
        is_listed = are_all_listed(spec)
        if not self.checks:
            return not is_listed and self.note_if_stands(state, observation, now)
        if inputs is None or former.pod_names != inputs.pod_names:  # of the same pods the target may own others by now
            return False
        measured: PodMetricsByName | Observation | Absent | None = observation
        if is_listed:
            measured = await queries.pod_metrics() if spec.metrics else None
        record = Record(spec, observation, None, state.local.memory, now)
        if not self.note_if_stands(state, measured, now):
            return False
        # What stands lowers nothing: it stands on while it is not known who else scales the target. Made anew it would
        # differ in what it recommends.
        if observation.unseen is None:
            self._compare(state, standing, record)
        return True

    def begin(self, state: ObjectState, reconciliation: Reconciliation) -> Standing | None:
        """How long a decision stands whose reconciliation is remembered."""
        local, inputs = state.local, state.local.inputs
        if inputs is None or not inputs.is_current or local.replica_conflict.is_open:
            return None
        if state.writes.status_unknown:  # it is read again first
            return None
        record, now = reconciliation.record, reconciliation.record.now
        standing = standing_of(record, inputs.pods, reconciliation.decision, reconciliation.memory)
        if standing is not None:
            period = record.spec.options.sync_period
            # Contradictions are looked for a period late: other objects may share the edge.
            standing.until = min(
                standing.until, following(state.uid, _FULL_PERIOD, now), local.conflicts_until + period
            )
        return standing

    def _has_another_crowd(self, state: ObjectState, now: Nanoseconds) -> bool:
        """Whether others have joined or left an object's next start, so that its lead may begin at another time."""
        latest = state.local.latest
        return latest is not None and self._crowds.crowd_of(state.key, now) is not latest.observation.crowd

    def _compare(self, state: ObjectState, standing: Standing, record: Record) -> None:
        """Compares a decision that stands with the one that would be made."""
        decided = self._decide(record.spec, record.observation, record.forecast, record.memory, record.now)
        decision = replace(decided, at=standing.periods[-1])
        memory = record.memory.after(decision, Withheld(), record.spec, record.observation)
        made = (decision, record.observation.readings, memory, False)
        stood = (standing.newest_decision, standing.newest_readings, state.local.memory, decision.rescales)
        if made != stood:
            self.differed += 1
            LOG.error("the decision that stands differs from what is decided: %s; it is %r", encode(record), stood)
        if record.now - self._reported_at >= MINUTE:
            self._reported_at = record.now
            LOG.info("%d decisions that stood were compared, %d differ", self.stood, self.differed)


def _listed_usages(
    standing: Standing, inputs: WatchedInputs, pod_metrics: PodMetricsByName | Absent | None, now: Nanoseconds
) -> tuple[int, ...] | None:
    """The usage of an object's pods by each metric, milli-units; None if one has no sample that counts."""
    if not standing.spec.metrics:
        return ()
    if pod_metrics is None or isinstance(pod_metrics, Absent):
        return None
    usages: list[int] = []
    for metric in standing.spec.metrics:
        if not isinstance(metric, ResourceMetric) or (usage := pod_metrics.usage(metric, inputs.pod_names)) is None:
            return None
        is_starting = now < standing.started and metric.name == "cpu"
        if is_starting and not standing.trusts(pod_metrics.samples(metric, [pod.name for pod in standing.starting])):
            return None
        usages.append(usage)
    return (*usages,)

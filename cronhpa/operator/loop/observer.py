"""Observes one object: its target, its pods and its metrics. What is unknown is `Absent`, with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cronhpa.core.forecasts.floor import forecast_source
from cronhpa.core.metrics.observe import Measurement, active, observe, samples_of
from cronhpa.core.metrics.pod_counts import counts_ready
from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent, Observation, Pod, Scale
from cronhpa.core.model.spec import PodSelection, Spec
from cronhpa.kube.pod_indexer import MatchedPods
from cronhpa.kube.pod_owners import PodOwners
from cronhpa.kube.scale import Targets, is_watched
from cronhpa.operator.loop.crowds import Crowds
from cronhpa.operator.loop.metric_apis import MetricApis, MetricQueries, are_all_listed
from cronhpa.operator.objects.counted_pods import CountedPods
from cronhpa.operator.objects.installations import Installations
from cronhpa.operator.objects.namespace_watches import NamespaceWatches
from cronhpa.operator.objects.object_state import ObjectState, WatchedInputs
from cronhpa.operator.objects.owners import Owners
from cronhpa.operator.objects.vertical_autoscalers import VerticalAutoscalers
from cronhpa.sources.source import MeasuredObject

# Normally watch events of a workload's pods arrive within a second, and its status follows them.
_UNSEEN = 30 * SECOND
# Without counts: each change of the text would be a status write.
UNSEEN = Absent(
    "PodsUnknown",
    "fewer pods are seen than the target says it has, as if a watch had lost some: they are listed again, and the"
    " metrics scale nothing down meanwhile",
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The operator's view of the cluster."""

    serves: Callable[[str], bool]
    """Whether this replica decides for a namespace, and has listed everything that it needs."""
    metrics: MetricApis
    watches: NamespaceWatches
    targets: Targets
    owners: Owners
    installations: Installations
    counted_pods: CountedPods
    pod_owners: PodOwners
    vertical_autoscalers: VerticalAutoscalers


class Observer:
    """is_current: whether a spec is the one that is decided on now."""

    def __init__(self, cluster: Cluster, crowds: Crowds, is_current: Callable[[ObjectState, Spec], bool]) -> None:
        self._cluster = cluster
        self._is_current = is_current
        self._crowds = crowds

    async def observe(
        self, state: ObjectState, spec: Spec, queries: MetricQueries, clock: Callable[[], Nanoseconds]
    ) -> tuple[Observation, Nanoseconds, WatchedInputs | None]:
        """The observation of an object's target, its instant, and what it rests on, if that is watched."""
        target = await self._cluster.targets.read(state.namespace, spec.target, fresh=state.writes.scale_unknown)
        if isinstance(target, Absent):
            return self._unmeasured(spec, target, target, clock())
        scale, selector = target.scale, target.selector
        if isinstance(selector, Absent):
            return self._unmeasured(spec, scale, selector, clock(), selector_problem=selector)
        match = self._cluster.watches.pods.matching(spec.namespace, selector)
        pods = match.pods
        pods_unknown = self._cluster.watches.pods_unknown(state.namespace)
        counted, is_owned = self._cluster.counted_pods, spec.pod_selection is PodSelection.OWNED
        if self._is_current(state, spec):  # else it may be gone, or have another target
            counted.note(state, selector, match)
        if spec.metrics and not is_owned:
            ambiguous = counted.problem(state, scale.selector, match, is_unsure=pods_unknown is not None)
            if ambiguous is not None:
                return self._unmeasured(spec, scale, ambiguous, clock(), pods, selector_problem=ambiguous)
        if is_owned and pods_unknown is None:
            owned = await self._cluster.pod_owners.owned(spec.namespace, spec.target, pods)
            if isinstance(owned, Absent):
                return self._unmeasured(spec, scale, owned, clock(), selector_problem=owned)
            pods = owned
        measured_object = MeasuredObject(spec.namespace, state.name, spec.target, pods, spec.options.sync_period)
        measured = await self._measured(spec, measured_object, queries, scale.selector, pods_unknown)
        if pods_unknown is not None:
            now = clock()
            return observe(spec, scale, pods, measured, now, unseen=pods_unknown), now, None
        if is_owned:
            measured = [samples_of(measurement, pods) for measurement in measured]
        now = clock()
        unseen = self._unseen(state, spec, scale, pods, now) or self._cluster.watches.hpas_unknown(state.namespace)
        inputs = self._inputs(state, spec, scale, match, pods)
        self._crowds.note_pods(state.key, pods, now)
        return observe(spec, scale, pods, measured, now, unseen=unseen), now, inputs

    async def _measured(
        self,
        spec: Spec,
        measured_object: MeasuredObject,
        queries: MetricQueries,
        selector: str,
        pods_unknown: Absent | None,
    ) -> list[Measurement]:
        """The measurement of each metric. While the pods are unknown: of those that need none."""
        # With outdated pods the load would be measured over the wrong number of pods.
        asked = [metric for metric in spec.metrics if pods_unknown is None or not counts_ready(metric)]
        measurements = (queries.measure(metric, measured_object, selector) for metric in asked)
        if len(asked) == 1 or are_all_listed(spec):
            # At most one answer is outstanding, the shared LIST: tasks would only add overhead.
            answers = [await measurement for measurement in measurements]
        else:
            answers = list(await asyncio.gather(*measurements))
        if pods_unknown is None:
            return answers
        left = iter(answers)
        return [pods_unknown if counts_ready(metric) else next(left) for metric in spec.metrics]

    def _unmeasured(
        self,
        spec: Spec,
        scale: Scale | Absent,
        reason: Absent,
        now: Nanoseconds,
        pods: Sequence[Pod] = (),
        selector_problem: Absent | None = None,
    ) -> tuple[Observation, Nanoseconds, None]:
        """The observation of an object whose metrics are all absent, for the same reason."""
        return observe(spec, scale, pods, [reason] * len(spec.metrics), now, selector_problem), now, None

    def _inputs(
        self, state: ObjectState, spec: Spec, scale: Scale, match: MatchedPods, pods: tuple[Pod, ...]
    ) -> WatchedInputs | None:
        """The values on which a decision rests; None if one is not watched, or newer than the observation."""
        key = state.target
        target = None if key is None else self._cluster.targets.watched(key)
        if key is None or target is None or target.read().scale is not scale:
            return None
        source, series = forecast_source(spec), state.load_series
        index = next((index for index, metric in enumerate(spec.metrics) if metric is source), None)
        return WatchedInputs(
            target=target,
            match=match,
            ownership=self._cluster.owners.ownership(key),
            pods=pods,
            pod_names=tuple(pod.name for pod in pods),
            load=None if index is None or series is None else (index, series),
        )

    def _unseen(
        self, state: ObjectState, spec: Spec, scale: Scale, pods: Sequence[Pod], now: Nanoseconds
    ) -> Absent | None:
        """
        Why fewer pods are seen than the target's status states; None if no pod is missing.

        A watch can be frozen, or lose an event, and look alive. The status needs some time to follow deleted pods. Of a
        step of ours that the watch of targets has not told of, the count that was written is believed. Only some kinds
        are checked: others may count something else in their status.
        """
        # A StatefulSet counts the pods that are being deleted until they are gone.
        seen_pods = len(pods) if spec.target.kind == "StatefulSet" else active(pods)
        local, stated = state.local, scale.status_replicas
        watched = None if state.target is None else self._cluster.targets.watched(state.target)
        # A scale that was read since states its own count, which a quota may keep below the written one.
        if watched is not None and watched.is_written and watched.read().scale is scale:
            stated = max(stated, scale.spec_replicas)
        if not is_watched(spec.target) or seen_pods >= stated or not self._cluster.watches.is_counted(state.namespace):
            local.unseen_since = None
            return None
        if local.unseen_since is None or now < local.unseen_since:
            local.unseen_since = now
        is_old = now - local.unseen_since >= _UNSEEN
        if is_old:
            # One of the two views is wrong.
            self._cluster.watches.list_pods_again(state.namespace)
            self._cluster.targets.list_again()
        return UNSEEN if is_old or seen_pods < scale.spec_replicas else None

"""
CronHPAs on different targets that count the same pods hold: `AmbiguousSelector`, as upstream.

Each of them would scale by the load of both targets. The pods that an object counts are those that its target's
selector matched at its newest reconciliation; the upstream compares selectors, so it sees a pod that comes a period
earlier. As upstream, of two new objects the first one may scale once, and of two on one target another rule decides
(`owners`). With `podSelection: Owned` an object counts no pods of others, and neither holds nor is held.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import PodSelection
from cronhpa.kube.pod_indexer import MatchedPods
from cronhpa.operator.objects.object_state import Key, ObjectState, TargetKey
from cronhpa.operator.objects.owners import is_active

_REASON = "AmbiguousSelector"
# Of very many objects that count a pod, so many are kept: each of them finds another one, and so does each further one.
_COUNTERS_MAX = 2


class _Counter(Struct, eq=False):
    """An object that counts pods."""

    state: ObjectState
    target: TargetKey | None
    """Whose pods it counted: the object may have another target by now."""
    labels: tuple[Mapping[str, str], ...]
    """Of those pods. Pods have the same labels, as an object, if they are of one template."""

    def counts(self) -> bool:
        """Whether the object counts them still."""
        spec = self.state.served.readable_spec
        if spec is None or not is_active(self.state) or self.target != self.state.target:
            return False
        return bool(spec.metrics) and spec.pod_selection is PodSelection.ALL


class CountedPods:
    """Which objects count which pods."""

    def __init__(self) -> None:
        self._by_key: dict[Key, _Counter] = {}
        # By the identity of the labels of pods, which the counters keep; of each target one.
        self._by_labels: dict[int, tuple[_Counter, ...]] = {}

    def __len__(self) -> int:
        """How many sets of labels are kept."""
        return len(self._by_labels)

    def note(self, state: ObjectState, match: MatchedPods) -> None:
        """
        Records the pods that the selector of an object's target matches.

        Ends the decisions that stand on the objects that count one of them.
        """
        counter = self._by_key.get(state.key)
        if counter is not None and not (counter.labels is match.labels and counter.counts()):
            self.forget(state)
            counter = None
        if counter is None:
            counter = _Counter(state, state.target, match.labels)
            if not counter.counts():
                return
            self._by_key[state.key] = counter
        alone = (counter,)
        for labels in match.labels:
            counters = self._by_labels.setdefault(id(labels), alone)
            if counter not in counters:
                self._add(counter, labels, counters)

    def _add(self, counter: _Counter, labels: Mapping[str, str], counters: tuple[_Counter, ...]) -> None:
        others = tuple(one for one in counters if one.counts())
        if len(others) < _COUNTERS_MAX and all(one.target != counter.target for one in others):
            self._by_labels[id(labels)] = (*others, counter)
            for one in others:
                one.state.local.changed = True

    def forget(self, state: ObjectState) -> None:
        """The object is gone."""
        counter = self._by_key.pop(state.key, None)
        for labels in () if counter is None else counter.labels:
            left = tuple(one for one in self._by_labels.get(id(labels), ()) if one is not counter)
            if left:
                self._by_labels[id(labels)] = left
            else:
                self._by_labels.pop(id(labels), None)

    def problem(self, state: ObjectState, selector: str, match: MatchedPods, *, is_unsure: bool) -> Absent | None:
        """
        Why an object cannot scale by the pods that its selector matches: another one counts one of them. None if none
        does.

        is_unsure: whether the pods are not known. Then, and in the first reconciliation of an object by this process,
        where the others may not be noted yet, it keeps the problem of its status.
        """
        found = {one.state.key for labels in match.labels for one in self._others(state, labels)}
        if not found:
            return _former_problem(state) if is_unsure or not state.local.resumed else None
        both = " ".join(f"{{{name} {namespace}}}" for namespace, name in sorted((state.key, min(found))))
        return Absent(_REASON, f"pods by selector {selector} are controlled by more than one HPA (e.g. [{both}])")

    def _others(self, state: ObjectState, labels: Mapping[str, str]) -> tuple[_Counter, ...]:
        """The objects on other targets that count the pods with these labels."""
        counters = self._by_labels.get(id(labels), ())
        if len(counters) == 1 and counters[0].state is state:
            return ()
        return tuple(one for one in counters if one.target != state.target and one.counts())


def _former_problem(state: ObjectState) -> Absent | None:
    """The AmbiguousSelector that the status states; None without it."""
    for condition in state.served.status.get("conditions") or ():
        if condition.get("type") == "ScalingActive" and condition.get("reason") == _REASON:
            return Absent(_REASON, str(condition.get("message", "")))
    return None

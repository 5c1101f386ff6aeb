"""
CronHPAs on different targets that count the same pods hold: `AmbiguousSelector`, as upstream.

Each of them would scale by the load of both targets. The pods that an object counts are those that its target's
selector matched at its newest reconciliation; two that shared a pod once are told by their selectors from then on. As
upstream, of two new objects the first one may scale once. Of two objects on one target another rule decides (`owners`).
With `podSelection: Owned` an object counts no pods of others, and neither holds nor is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from msgspec import Struct

from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import PodSelection
from cronhpa.kube.label_selector import Selector
from cronhpa.kube.pod_indexer import MatchedPods
from cronhpa.operator.objects.object_state import Key, ObjectState, TargetKey
from cronhpa.operator.objects.owners import is_active

_REASON = "AmbiguousSelector"
# Of very many objects that count a pod, so many are kept: each of them finds another one, and so does each further one.
_COUNTERS_MAX = 8
# With how many pods, of those whose labels differ, the selector of a former rival is compared.
_COMPARED_MAX = 20

# Of a text of a status that is compared: it is cut where it is long.
_TOLD_MAX = 1000


class _Counter(Struct, eq=False):
    """An object that counts pods."""

    state: ObjectState
    target: TargetKey | None
    """Whose pods it counted: the object may have another target by now."""
    selector: Selector
    labels: tuple[Mapping[str, str], ...]
    """Of those pods among whose counters it is. Pods of one template have the same labels, as an object."""
    rival: Key | None = None
    """The object on another target that was last found to count one of its pods."""

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

    def note(self, state: ObjectState, selector: Selector, match: MatchedPods) -> None:
        """
        Records the pods that the selector of an object's target matches.

        Ends the decisions that stand on the objects that count one of them.
        """
        former = self._by_key.get(state.key)
        is_same = former is not None and former.labels is match.labels and former.selector == selector
        if former is not None and is_same and former.counts():
            return
        self.forget(state)
        counter = _Counter(state, state.target, selector, match.labels)
        if not counter.counts():
            return
        if former is not None:
            counter.rival = former.rival
        self._by_key[state.key] = counter
        alone = (counter,)
        for at, labels in enumerate(match.labels):
            counters = self._by_labels.setdefault(id(labels), alone)
            if counters is not alone and not self._add(counter, labels, counters):
                counter.labels = match.labels[:at]  # so it tries again at its next reconciliation
                break

    def _add(self, counter: _Counter, labels: Mapping[str, str], counters: tuple[_Counter, ...]) -> bool:
        """Whether there is a place for it."""
        others = tuple(one for one in counters if one.counts())
        if len(others) >= _COUNTERS_MAX or any(one.target == counter.target for one in others):
            return False
        self._by_labels[id(labels)] = (*others, counter)
        for one in others:
            one.state.local.changed = True
        return True

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
        pods = f"pods by selector {selector} are controlled by"
        rival = self._rival(state, match)
        if rival is None:
            return _former_problem(state, pods) if is_unsure or not state.local.resumed else None
        both = " ".join(f"{{{name} {namespace}}}" for namespace, name in sorted((state.key, rival)))
        return Absent(_REASON, f"{pods} more than one HPA (e.g. [{both}])")

    def _rival(self, state: ObjectState, match: MatchedPods) -> Key | None:
        """An object on another target that counts one of these pods: the former one, if it still does."""
        counter = self._by_key.get(state.key)
        former = None if counter is None or counter.rival is None else self._by_key.get(counter.rival)
        if former is not None and _is_rival(former, state):
            compared = islice(match.labels, _COMPARED_MAX)
            # Its own pods of now may not be noted yet: its period may be an hour.
            if any(former.selector.matches(labels) for labels in compared):
                return former.state.key
        for labels in match.labels:
            for one in self._by_labels.get(id(labels), ()):
                if _is_rival(one, state):
                    if counter is not None:
                        counter.rival = one.state.key
                    return one.state.key
        return None


def _is_rival(counter: _Counter, state: ObjectState) -> bool:
    """Whether a counter is of an object on another target, and counts still."""
    return counter.target != state.target and counter.counts()


def _former_problem(state: ObjectState, pods: str) -> Absent | None:
    """The AmbiguousSelector that the status states of these pods; None without it."""
    for condition in state.served.status.get("conditions") or ():
        if condition.get("type") == "ScalingActive" and condition.get("reason") == _REASON:
            message = str(condition.get("message", ""))
            return Absent(_REASON, message) if message.startswith(pods[:_TOLD_MAX]) else None
    return None

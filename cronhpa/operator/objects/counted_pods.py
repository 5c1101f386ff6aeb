"""
CronHPAs on different targets that count the same pods hold: `AmbiguousSelector`, as upstream.

Each of them would scale by the load of both targets. The pods that an object counts are those that its target's
selector matched at its newest reconciliation. Two objects that once shared a pod are compared by their selectors
afterwards, because with a long period the recorded pods are out of date. As upstream, of two new objects the first one
may scale once. `owners` decides between objects on one target. With `podSelection: Owned` an object counts no pods of
others, and neither holds nor is held.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.api.ambiguous_selector import REASON, ambiguous_selector, objects_named_in
from cronhpa.api.status_text import condition_of
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import PodSelection
from cronhpa.kube.label_selector import Selector
from cronhpa.kube.pod_indexer import MatchedPods
from cronhpa.operator.objects.object_state import Key, ObjectState, TargetKey
from cronhpa.operator.objects.owners import is_active

# Objects that are recorded of a pod. Each finds another one there, and so does each further object that counts the pod.
_ENTRIES_MAX = 8
# Pods that differ in their labels, the newest ones, with which the selector of a former partner is compared.
_COMPARED_MAX = 100


class _Entry(Struct, eq=False):
    """An object, and the pods that it counts."""

    state: ObjectState
    target: TargetKey | None
    """Whose pods it counted: the object may have another target by now."""
    selector: Selector
    labels: tuple[Mapping[str, str], ...] = ()
    """The labels of those pods under which it is recorded. Pods of one template share one mapping."""
    partner: Key | None = None
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
        self._by_key: dict[Key, _Entry] = {}
        # By the identity of the labels of pods, which the entries keep. Of each target there is one entry.
        self._by_labels: dict[int, tuple[_Entry, ...]] = {}

    def __len__(self) -> int:
        """How many sets of labels are kept."""
        return len(self._by_labels)

    def note(self, state: ObjectState, selector: Selector, match: MatchedPods) -> None:
        """
        Records the pods that the selector of an object's target matches.

        Ends the standing decisions of other objects that count one of these pods.
        """
        former, partner = self._by_key.get(state.key), None
        if former is not None and former.selector == selector:
            if former.labels is match.labels and former.counts():
                return
            partner = former.partner
        self.forget(state)
        entry = _Entry(state, state.target, selector, partner=partner)
        if not entry.counts():
            return
        self._by_key[state.key] = entry
        alone, recorded = (entry,), []
        for labels in match.labels:
            self._forget_former(labels)
            others = self._by_labels.get(id(labels), ())
            if len(others) >= _ENTRIES_MAX:
                break
            if any(one.target == entry.target for one in others):
                continue
            self._by_labels[id(labels)] = (*others, entry) if others else alone
            recorded.append(labels)
            for one in others:
                one.state.local.changed = True
        # Where one is missing, it is tried again at the next reconciliation.
        entry.labels = match.labels if len(recorded) == len(match.labels) else (*recorded,)

    def forget(self, state: ObjectState) -> None:
        """Removes what is recorded of an object."""
        entry = self._by_key.pop(state.key, None)
        for labels in () if entry is None else entry.labels:
            left = tuple(one for one in self._by_labels[id(labels)] if one is not entry)
            if left:
                self._by_labels[id(labels)] = left
            else:
                del self._by_labels[id(labels)]

    def problem(self, state: ObjectState, selector: str, match: MatchedPods, *, is_unsure: bool) -> Absent | None:
        """
        Why an object cannot scale by the pods that its selector matches: another one counts one of them. None if none
        does.

        is_unsure: whether the pods are not known. Then the object with which it shared some last counts them still. In
        the first reconciliation of an object by this process, where the others may not be recorded yet, the problem of
        its status stays.
        """
        partner = self._partner(state, match, is_unsure=is_unsure)
        if partner is None:
            return None if state.local.resumed else self._former_problem(state)
        return ambiguous_selector(selector, (state.key, partner))

    def _partner(self, state: ObjectState, match: MatchedPods, *, is_unsure: bool) -> Key | None:
        """An object on another target that counts one of these pods: the former one, if it still does."""
        entry = self._by_key.get(state.key)
        former = None if entry is None or entry.partner is None else self._by_key.get(entry.partner)
        if former is not None and _is_other(former, state):
            newest = match.labels[-_COMPARED_MAX:]
            if is_unsure or any(former.selector.matches(labels) for labels in newest):
                return former.state.key
        for labels in match.labels:
            for one in self._by_labels.get(id(labels), ()):
                if _is_other(one, state):
                    if entry is not None:
                        entry.partner = one.state.key
                    return one.state.key
        return None

    def _former_problem(self, state: ObjectState) -> Absent | None:
        """The AmbiguousSelector that the status states, whose other object becomes the partner; None without it."""
        condition = condition_of(state.served.status, "ScalingActive")
        if condition.get("reason") != REASON:
            return None
        message = str(condition.get("message", ""))
        entry = self._by_key.get(state.key)
        if entry is not None:
            entry.partner = next((key for key in objects_named_in(message) if key != state.key), None)
        return Absent(REASON, message)

    def _forget_former(self, labels: Mapping[str, str]) -> None:
        """Forgets objects that count the pods with these labels no longer, and may not be reconciled themselves."""
        for one in self._by_labels.get(id(labels), ()):
            if not one.counts():
                self.forget(one.state)  # else its own next reconciliation would take it for recorded


def _is_other(entry: _Entry, state: ObjectState) -> bool:
    """Whether an entry is of an object on another target, and counts still."""
    return entry.target != state.target and entry.counts()

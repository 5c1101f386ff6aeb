"""
Selectors that match each other's pods: the metrics of no such object are believed, as upstream (`AmbiguousSelector`).

Two autoscalers that count the same pods would each scale by the load of both targets. As upstream, an object's selector
is known from its first reconciliation on, and overlap is judged by the pods there are, not by the selectors. Of two
objects on one target the younger one holds (`owners`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from cronhpa.core.model.observation import Absent
from cronhpa.kube.label_selector import Selector
from cronhpa.kube.pod_indexer import MatchedPods
from cronhpa.operator.objects.object_state import Key, ObjectState, TargetKey

_REASON = "AmbiguousSelector"
# Very many pods whose labels differ, or selectors that match none of an object's pods, must not hold up the others: so
# many sets of labels are compared at a time, and so many times is a selector compared with one. It takes up to 5 ms.
_LABELS_MAX, _COMPARED_MAX = 500, 1000
# A label that a pod must have, and its value, which is None for any.
_Label = tuple[str, str | None]
# Of a selector that asks for no label: no label has an empty key.
_NO_LABEL: _Label = ("", None)


class _Registered(Struct):
    state: ObjectState
    target: TargetKey | None
    """Whose selector it is: the object may have another one by now."""
    selector: Selector
    labels: tuple[_Label, ...]
    """Each pod that the selector matches has one of these."""


_ByKey = dict[Key, _Registered]


class RegisteredSelectors:
    """The selectors of the active CronHPAs with metrics."""

    def __init__(self) -> None:
        self._by_key: _ByKey = {}
        # By namespace, key and value of a label.
        self._by_label: dict[str, dict[str, dict[str | None, _ByKey]]] = {}

    @property
    def count(self) -> int:
        return len(self._by_key)

    def register(self, state: ObjectState, selector: Selector, match: MatchedPods) -> None:
        """
        Records the selector of an object. match: the pods that it matches.

        A decision that stands on an object that counts such a pod, too, ends.
        """
        before = self._by_key.get(state.key)
        if before is not None and (before.state, before.target, before.selector) == (state, state.target, selector):
            return
        self.forget(state)
        by_label = self._by_label.setdefault(state.namespace, {})
        labels = min(_choices(selector), key=lambda one: _count(by_label, one))
        registered = self._by_key[state.key] = _Registered(state, state.target, selector, labels)
        for key, value in labels:
            by_label.setdefault(key, {}).setdefault(value, {})[state.key] = registered
        for rival in self._rivals(state, match):
            rival.local.changed = True

    def forget(self, state: ObjectState) -> None:
        """The object is gone, or scales nothing by metrics any more."""
        registered = self._by_key.pop(state.key, None)
        if registered is None:
            return
        by_label = self._by_label[state.namespace]
        for key, value in registered.labels:
            del by_label[key][value][state.key]
            if not by_label[key][value]:
                del by_label[key][value]
            if not by_label[key]:
                del by_label[key]
        if not by_label:
            del self._by_label[state.namespace]

    def problem(self, state: ObjectState, selector: str, match: MatchedPods) -> Absent | None:
        """
        Why an object cannot measure the pods that its selector matches: another one on another target counts one of
        them, too. None if none does.

        Until a new process has seen the other objects it believes what the status says.
        """
        rival = min((rival.key for rival in self._rivals(state, match)), default=None)
        if rival is None:
            return None if state.local.resumed else _former_problem(state)
        both = " ".join(f"{{{name} {namespace}}}" for namespace, name in sorted((state.key, rival)))
        return Absent(_REASON, f"pods by selector {selector} are controlled by more than one HPA (e.g. [{both}])")

    def _rivals(self, state: ObjectState, match: MatchedPods) -> Iterator[ObjectState]:
        """The objects on other targets that count one of these pods, some of them more than once."""
        target = state.target
        for labels, registered in islice(self._candidates(state.namespace, match), _COMPARED_MAX):
            is_other = registered.target != target and registered.target == registered.state.target
            if is_other and registered.selector.matches(labels):
                yield registered.state

    def _candidates(self, namespace: str, match: MatchedPods) -> Iterator[tuple[Mapping[str, str], _Registered]]:
        """The labels of these pods, each with the selectors that may match a pod with them."""
        by_label = self._by_label.get(namespace, {})
        for labels in islice(match.labels, _LABELS_MAX):
            for key, by_value in by_label.items():
                if key not in labels and key:
                    continue
                for value in {labels.get(key), None}:
                    for registered in by_value.get(value, {}).values():
                        yield labels, registered


def _count(by_label: Mapping[str, Mapping[str | None, _ByKey]], labels: Iterable[_Label]) -> int:
    """How many selectors are found by these labels."""
    return sum(len(by_label.get(key, {}).get(value, ())) for key, value in labels)


def _choices(selector: Selector) -> Iterable[tuple[_Label, ...]]:
    """By which labels the pods of a selector can be found: by those of one requirement."""
    wanted = [one for one in selector.requirements if one.operator == "in"]
    if wanted:
        return (tuple((one.key, value) for value in dict.fromkeys(one.values)) for one in wanted)
    some = [one.key for one in selector.requirements if one.operator == "exists"]
    return (((key, None),) for key in some) if some else ((_NO_LABEL,),)


def _former_problem(state: ObjectState) -> Absent | None:
    """What the status says of the selector."""
    for condition in state.served.status.get("conditions") or ():
        if condition.get("type") == "ScalingActive" and condition.get("reason") == _REASON:
            return Absent(_REASON, str(condition.get("message", "")))
    return None

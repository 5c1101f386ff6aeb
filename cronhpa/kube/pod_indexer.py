"""
An index of pods by the labels that selectors ask for, so that a selector examines only the pods that share one of them.

Pods have more labels than selectors ask for, so only the keys that a selector has asked for are indexed. Names are kept
as the keys of a dict: a small dict takes less memory than a set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from cronhpa.core.model.observation import Pod
from cronhpa.kube.label_selector import REQUIREMENTS_MAX, Selector

# How many label keys are indexed in a namespace: no fewer than one selector may have. How many selectors' matches are
# kept for one label: a target has one selector, but a custom resource may state another one each time.
_KEYS_KEPT = REQUIREMENTS_MAX
_MATCHES_KEPT = 100


class _Entry(Struct, gc=False):
    pod: Pod
    labels: Mapping[str, str]


class MatchedPods(Struct, gc=False):
    """The pods that a selector matches."""

    pods: tuple[Pod, ...]
    labels: tuple[Mapping[str, str], ...] = ()
    """The labels of those pods; those that pods of one template share are here once."""
    is_current: bool = True
    """False once a pod, or the set of them, may have changed."""


class _Labelled(Struct, gc=False):
    """The names of the pods with a label."""

    names: dict[str, None] = field(default_factory=dict)
    matched: dict[Selector, MatchedPods] = field(default_factory=dict)
    """What selectors that ask for it matched, until such a pod changes."""


class PodIndexer:
    """Pods by namespace and by their labels of each key that a selector has asked for."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, _Entry]] = defaultdict(dict)
        # By namespace, key and value of a label.
        self._by_label: dict[str, dict[str, dict[str, _Labelled]]] = {}
        # By namespace and what a pod's name begins with: the name of a pod that was probably made by the same template.
        self._templates: dict[str, dict[str, str]] = defaultdict(dict)

    def put(self, namespace: str, labels: Mapping[str, str], pod: Pod) -> None:
        before = self._entries[namespace].get(pod.name)
        if before is not None:
            pod = _with_first_ready(before.pod, pod)
        sibling = before or self._sibling(namespace, pod.name)
        if sibling is not None:
            # Most pods are made by a template: those of one template share their labels and containers.
            if sibling.labels == labels:
                labels = sibling.labels
            if sibling.pod.containers == pod.containers:
                pod = replace(pod, containers=sibling.pod.containers)
        if before is not None and before.labels is labels and before.pod == pod:
            return  # listed again, or changed in nothing that counts: what was decided over it stands
        if before is not None and before.labels is not labels:
            self.drop(namespace, pod.name)
        self._entries[namespace][pod.name] = _Entry(pod, labels)
        self._templates[namespace].setdefault(_template(pod.name), pod.name)
        for key, by_value in self._by_label.get(namespace, {}).items():
            if key in labels:
                labelled = by_value.get(labels[key])
                if labelled is None:
                    labelled = by_value[labels[key]] = _Labelled()
                labelled.names[pod.name] = None
                _outdate(labelled.matched)

    def _sibling(self, namespace: str, name: str) -> _Entry | None:
        """A pod that was probably made by the same template; else the newest one, whose containers may be equal."""
        entries = self._entries[namespace]
        sibling = self._templates[namespace].get(_template(name)) or next(reversed(entries), None)
        return None if sibling is None else entries.get(sibling)

    def drop(self, namespace: str, name: str) -> None:
        entries = self._entries.get(namespace, {})
        entry = entries.pop(name, None)
        if entry is None:
            return
        template = _template(name)
        if self._templates[namespace].get(template) == name:
            del self._templates[namespace][template]
        for key, by_value in self._by_label.get(namespace, {}).items():
            labelled = by_value.get(entry.labels[key]) if key in entry.labels else None
            if labelled is not None:
                _outdate(labelled.matched)
                labelled.names.pop(name, None)
                if not labelled.names:
                    del by_value[entry.labels[key]]
        if not entries:
            del self._entries[namespace], self._templates[namespace]
            self._by_label.pop(namespace, None)

    def names(self) -> set[tuple[str, str]]:
        return {(namespace, name) for namespace, entries in self._entries.items() for name in entries}

    def count(self) -> int:
        return sum(map(len, self._entries.values()))

    def matching(self, namespace: str, selector: Selector) -> MatchedPods:
        """The pods of a namespace that a selector matches, in arbitrary order."""
        entries = self._entries.get(namespace)
        if not entries:
            return MatchedPods((), is_current=False)
        labels = [
            self._with_key(namespace, requirement.key).get(requirement.values[0])
            for requirement in selector.requirements
            if requirement.operator == "in" and len(requirement.values) == 1
        ]
        if not labels:
            unkept = _match(entry for entry in entries.values() if selector.matches(entry.labels))
            unkept.is_current = False
            return unkept
        labelled = [pods for pods in labels if pods is not None]
        if len(labelled) < len(labels):
            return MatchedPods((), is_current=False)
        # A pod that matches has all of these labels. So each change of such a pod outdates the first label's matches.
        matched = labelled[0].matched
        match = matched.get(selector)
        if match is None:
            if len(matched) == _MATCHES_KEPT:
                _outdate(matched)
            candidates = (entries[name] for name in min((pods.names for pods in labelled), key=len))
            if len(selector.requirements) > 1:
                candidates = (entry for entry in candidates if selector.matches(entry.labels))
            match = matched[selector] = _match(candidates)
        return match

    def _with_key(self, namespace: str, key: str) -> dict[str, _Labelled]:
        """The pods with a label of this key, by its value."""
        by_key = self._by_label.setdefault(namespace, {})
        by_value = by_key.pop(key, None)
        if by_value is not None:
            by_key[key] = by_value  # the newest again: a new key of the same selector must not push this one out
        else:
            if len(by_key) == _KEYS_KEPT:
                for labelled in by_key.pop(next(iter(by_key))).values():
                    _outdate(labelled.matched)
            by_value = by_key[key] = {}
            for name, entry in self._entries[namespace].items():
                if key in entry.labels:
                    by_value.setdefault(entry.labels[key], _Labelled()).names[name] = None
        return by_value


def _template(name: str) -> str:
    """What the names of pods of one template have in common: `shop-5d5f` of `shop-5d5f-abcde`, `db` of `db-0`."""
    return name.rpartition("-")[0]


def _outdate(matched: dict[Selector, MatchedPods]) -> None:
    for match in matched.values():
        match.is_current = False
    matched.clear()


def _match(entries: Iterable[_Entry]) -> MatchedPods:
    matched = [*entries]
    labels = {id(entry.labels): entry.labels for entry in matched}
    return MatchedPods(tuple([entry.pod for entry in matched]), (*labels.values(),))


def _with_first_ready(before: Pod, pod: Pod) -> Pod:
    """The pod with its first Ready time: losing readiness and getting it back is not a start."""
    if before.created != pod.created:  # a StatefulSet creates another pod of the same name
        return pod
    first = before.first_ready
    if first is None and before.ready == "True" and before.ready_since != pod.ready_since:
        first = before.ready_since
    return pod if first is None else replace(pod, first_ready=first)

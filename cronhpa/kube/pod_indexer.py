"""An index of pods by label, so that a selector examines only the pods that share one of its labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.observation import Pod
from cronhpa.kube.label_selector import Selector

# Selectors whose matches are kept for one label: a target has one, and a custom resource may state another each time.
_MATCHES_KEPT = 100


class _Entry(Struct, gc=False):
    pod: Pod
    labels: Mapping[str, str]


class PodIndexer:
    """Pods by namespace and by each of their labels, so that a selector examines only a few pods."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, _Entry]] = defaultdict(dict)
        self._by_label: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        # What selectors that ask for a label matched, until a pod with that label changes.
        self._matched: dict[tuple[str, str, str], dict[Selector, tuple[Pod, ...]]] = {}

    def put(self, namespace: str, labels: Mapping[str, str], pod: Pod) -> None:
        before = self._entries[namespace].get(pod.name)
        if before is not None:
            pod = _with_first_ready(before.pod, pod)
        sibling = before or self._sibling(namespace, labels)
        if sibling is not None:
            # Most pods are made by a template: one object for all of them, a kilobyte less for each.
            if sibling.labels == labels:
                labels = sibling.labels
            if sibling.pod.containers == pod.containers:
                pod = replace(pod, containers=sibling.pod.containers)
        if before is None or before.labels is not labels:
            self.drop(namespace, pod.name)
            for key, value in labels.items():
                self._by_label[namespace, key, value].add(pod.name)
        self._entries[namespace][pod.name] = _Entry(pod, labels)
        self._forget_matches(namespace, labels)

    def _forget_matches(self, namespace: str, labels: Mapping[str, str]) -> None:
        for key, value in labels.items():
            self._matched.pop((namespace, key, value), None)

    def _sibling(self, namespace: str, labels: Mapping[str, str]) -> _Entry | None:
        """A pod that shares the rarest of these labels."""
        sets = [names for item in labels.items() if (names := self._by_label.get((namespace, *item)))]
        if not sets:
            return None
        rarest = min(sets, key=len)
        return self._entries[namespace][next(iter(rarest))]

    def drop(self, namespace: str, name: str) -> None:
        entries = self._entries.get(namespace, {})
        entry = entries.pop(name, None)
        if entry is None:
            return
        if not entries:
            del self._entries[namespace]
        self._forget_matches(namespace, entry.labels)
        for key, value in entry.labels.items():
            names = self._by_label[namespace, key, value]
            names.discard(name)
            if not names:
                del self._by_label[namespace, key, value]

    def names(self) -> set[tuple[str, str]]:
        return {(namespace, name) for namespace, entries in self._entries.items() for name in entries}

    def count(self) -> int:
        return sum(map(len, self._entries.values()))

    def matching(self, namespace: str, selector: Selector) -> tuple[Pod, ...]:
        """The pods of a namespace that a selector matches, in arbitrary order."""
        entries = self._entries.get(namespace)
        if not entries:
            return ()
        asked = [
            (namespace, requirement.key, requirement.values[0])
            for requirement in selector.requirements
            if requirement.operator == "in" and len(requirement.values) == 1
        ]
        if not asked:
            return _matched(entries.values(), selector)
        if any(label not in self._by_label for label in asked):
            return ()
        # Whoever matches has every label that is asked for: a change of any such pod is one of a pod with the first.
        known = self._matched.setdefault(asked[0], {})
        pods = known.get(selector)
        if pods is None:
            if len(known) == _MATCHES_KEPT:
                known.clear()
            candidates = min((self._by_label[label] for label in asked), key=len)
            pods = known[selector] = _matched((entries[name] for name in candidates), selector)
        return pods


def _matched(entries: Iterable[_Entry], selector: Selector) -> tuple[Pod, ...]:
    return tuple(entry.pod for entry in entries if selector.matches(entry.labels))


def _with_first_ready(before: Pod, pod: Pod) -> Pod:
    """The pod with its first Ready time: losing readiness and getting it back is not a start."""
    if before.created != pod.created:  # a StatefulSet creates another pod of the same name
        return pod
    first = before.first_ready
    if first is None and before.ready == "True" and before.ready_since != pod.ready_since:
        first = before.ready_since
    return pod if first is None else replace(pod, first_ready=first)

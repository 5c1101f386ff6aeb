"""An index of pods by label, so that a selector examines only the pods that share one of its labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.observation import Pod
from cronhpa.kube.label_selector import Selector


class _Entry(Struct, gc=False):
    pod: Pod
    labels: Mapping[str, str]


class PodIndexer:
    """Pods by namespace and by each of their labels, so that a selector examines only a few pods."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, _Entry]] = defaultdict(dict)
        self._by_label: dict[tuple[str, str, str], set[str]] = defaultdict(set)

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
        candidates: set[str] | None = None
        for requirement in selector.requirements:
            if requirement.operator == "in" and len(requirement.values) == 1:
                names = self._by_label.get((namespace, requirement.key, requirement.values[0]), set())
                if candidates is None or len(names) < len(candidates):
                    candidates = names
        candidate_entries = entries.values() if candidates is None else (entries[name] for name in candidates)
        return tuple(entry.pod for entry in candidate_entries if selector.matches(entry.labels))


def _with_first_ready(before: Pod, pod: Pod) -> Pod:
    """The pod with its first Ready time: losing readiness and getting it back is not a start."""
    if before.created != pod.created:  # a StatefulSet creates another pod of the same name
        return pod
    first = before.first_ready
    if first is None and before.ready == "True" and before.ready_since != pod.ready_since:
        first = before.ready_since
    return pod if first is None else replace(pod, first_ready=first)

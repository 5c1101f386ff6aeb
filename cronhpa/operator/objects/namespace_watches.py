"""The watches of pods and of HorizontalPodAutoscalers: a pair of them for each watched namespace, or one for all."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from cronhpa.core.model.observation import Absent
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.informer import Informer
from cronhpa.kube.pod_indexer import PodIndexer
from cronhpa.kube.pods import RawPod, excess, pod_from
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.objects.owners import Hpa

LOG = logging.getLogger(__name__)

# A watch is told of a version each minute.
_HEARD_SECONDS = 90.0
_HPAS_UNKNOWN = Absent(
    "OwnersUnknown",
    "the HorizontalPodAutoscalers cannot be listed or watched, and one of them may scale the target too: the metrics"
    " scale nothing down meanwhile; let the operator list them, and see its log",
)


class _Pair(NamedTuple):
    pods: Informer[RawPod]
    hpas: Informer[Hpa]


class NamespaceWatches:
    """
    namespaces: none for all of them. hpa_changed(namespace, name, hpa): None for one that is deleted. restored: as of
    an Informer.
    """

    def __init__(
        self,
        client: Client,
        namespaces: Iterable[str],
        scope: ShardScope,
        hpa_changed: Callable[[str, str, Hpa | None], None],
        restored: Callable[[], None],
    ) -> None:
        self.pods = PodIndexer()
        # Pods that are too large to be counted; each is logged once.
        self._uncounted: set[tuple[str, str]] = set()
        # By namespace; under "" for all of them.
        self._pairs: dict[str, _Pair] = {}
        for namespace in namespaces or ("",):
            within = ("namespaces", namespace) if namespace else ()
            pods = path_of("api", "v1", *within, "pods")
            hpas = path_of("apis", "autoscaling", "v2", *within, "horizontalpodautoscalers")
            self._pairs[namespace] = _Pair(
                Informer(client, pods, RawPod, self._on_pod, keep=False, scope=scope, restored=restored),
                Informer(client, hpas, Hpa, hpa_changed, keep=False, scope=scope, restored=restored),
            )

    @property
    def informers(self) -> list[Informer[Any]]:
        return [informer for pair in self._pairs.values() for informer in pair]

    @property
    def is_any_listed(self) -> bool:
        """Whether one namespace was listed: the others may be unreadable."""
        return any(all(informer.synced.is_set() for informer in pair) for pair in self._pairs.values())

    @property
    def is_any_served(self) -> bool:
        """Whether decisions may be made in one namespace."""
        return any(map(self.are_served, self._pairs))

    def are_served(self, namespace: str) -> bool:
        """
        Whether decisions may be made in a namespace: its pods and HorizontalPodAutoscalers were listed.

        A list that fails for ever must not end all scaling: once it is overdue, decisions go on without it. Pods that
        are unknown hold the count, and HorizontalPodAutoscalers that are unknown hold scale-downs by metrics.
        """
        pair = self._of(namespace)
        return pair is not None and all(informer.synced.is_set() or informer.is_overdue for informer in pair)

    @property
    def listed_scope(self) -> int:
        """
        The oldest version of the scope in which a list was begun, without lists that are overdue.

        An overdue list counts as long as what is known is believed: it may have brought a part of the new namespaces.
        """
        counting = [one.listed_scope for one in self.informers if one.is_current or not one.is_overdue]
        return min(counting, default=sys.maxsize)

    def doubt_hpas(self) -> None:
        """
        Where HorizontalPodAutoscalers cannot be believed, a namespace counts as listed after their next list: so where
        this process was frozen, and its watch told nothing.
        """
        for pair in self._pairs.values():
            pair.hpas.doubt(_HEARD_SECONDS)

    def pods_unknown(self, namespace: str) -> Absent | None:
        """Why the pods of a namespace are no longer known; None while they are known."""
        pair = self._of(namespace)
        if pair is None or pair.pods.is_current:
            return None
        # Without a number of seconds: each change of the text would be a status write.
        return Absent("PodsUnknown", f"the pods cannot be listed or watched any more: {pair.pods.problem}")

    def hpas_unknown(self, namespace: str) -> Absent | None:
        """Why the HorizontalPodAutoscalers of a namespace are not known, or no longer; None while they are known."""
        pair = self._of(namespace)
        return None if pair is None or pair.hpas.is_current else _HPAS_UNKNOWN

    def list_pods_again(self, namespace: str) -> None:
        """Lists the pods of a namespace again: its watch may have lost some."""
        pair = self._of(namespace)
        if pair is not None:
            pair.pods.list_again()

    def is_counted(self, namespace: str) -> bool:
        """Whether no pod of a namespace is too large to be counted."""
        return not any(of == namespace for of, _ in self._uncounted)

    def _of(self, namespace: str) -> _Pair | None:
        return self._pairs.get(namespace) or self._pairs.get("")

    def _on_pod(self, namespace: str, name: str, raw: RawPod | None) -> None:
        problem = None if raw is None else excess(raw)
        if problem is not None and (namespace, name) not in self._uncounted:
            LOG.warning("pod %s/%s is not counted: it has %s", namespace, name, problem)
            self._uncounted.add((namespace, name))
        if problem is None:
            self._uncounted.discard((namespace, name))
        if raw is None or problem is not None:
            self.pods.drop(namespace, name)
        else:
            self.pods.put(namespace, raw.metadata.labels or {}, pod_from(raw))

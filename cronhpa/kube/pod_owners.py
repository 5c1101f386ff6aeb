"""
Which pods a target owns: `podSelection: Owned`.

A pod names its controller in ownerReferences. A Deployment's pods name a ReplicaSet, and that one names the Deployment.
So a controller that can stand between is looked up once, by a list of one object: the right to list its kind is enough.
Names are compared, not uids: a target that was deleted and made anew adopts what it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from msgspec import Struct

from cronhpa.core.model.observation import Absent, Pod
from cronhpa.core.model.spec import TargetRef
from cronhpa.kube.client import Client
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.owner_references import OwnerReference, controller_of
from cronhpa.ports.fair_places import FairPlaces

# A ReplicaSet seldom changes its owner. Of 10,000 targets this asks for six ReplicaSets a second.
_KEEP_SECONDS = 1800.0
# 400 bytes each.
_KEPT_MAX = 50_000
# In total, and of one namespace, or of all whose reads take longer than _SLOW_SECONDS: a pod may name any kind.
_READS_AT_ONCE, _READS_OF_ONE = 8, 4
_SLOW_SECONDS = 5.0
# Pod, ReplicaSet, Deployment, and what owns that.
_LEVELS = 4
_REPLICA_SET = ("apps", "ReplicaSet")
# The kinds that stand between these kinds and their pods. A pod with another controller is not theirs; for other kinds
# of targets each controller is looked up.
_BETWEEN = {
    ("apps", "Deployment"): {_REPLICA_SET},
    ("apps", "StatefulSet"): set[tuple[str, str]](),
    _REPLICA_SET: set[tuple[str, str]](),
    ("", "ReplicationController"): set[tuple[str, str]](),
    ("argoproj.io", "Rollout"): {_REPLICA_SET},
}


class _Meta(Struct, frozen=True, rename="camel"):
    name: str = ""
    owner_references: tuple[OwnerReference, ...] | None = None


class _Controlled(Struct, frozen=True):
    metadata: _Meta = _Meta()


class _ControlledList(Struct, frozen=True):
    items: tuple[_Controlled, ...] = ()


class PodOwners:
    """The controllers of the controllers of pods, as they were looked up."""

    def __init__(self, client: Client, discovery: Discovery) -> None:
        self._client = client
        self._discovery = discovery
        # By namespace and controller: when it was looked up, and its own controller.
        self._kept: dict[tuple[str, str], tuple[float, str]] = {}
        self._reads = FairPlaces(_READS_AT_ONCE, _READS_OF_ONE, _SLOW_SECONDS)

    async def owned(self, namespace: str, target: TargetRef, pods: Sequence[Pod]) -> tuple[Pod, ...] | Absent:
        """The pods that a target owns, directly or through other controllers; absent while that cannot be told."""
        goal = f"{target.api_version}/{target.kind}/{target.name}"
        belongs: dict[str, bool] = {}
        for controller in {pod.controller for pod in pods}:
            try:
                belongs[controller] = await self._leads_to(namespace, controller, goal)
            except ClusterError as error:
                return Absent(
                    "PodOwnersUnknown",
                    f"podSelection is Owned, and the owner of {_kind_and_name(controller)} cannot be read: "
                    f"{error.message}; let the operator list this kind, or set podSelection to All",
                )
        if all(belongs.values()):
            return tuple(pods)
        return tuple(pod for pod in pods if belongs[pod.controller])

    async def _leads_to(self, namespace: str, controller: str, goal: str) -> bool:
        between = _BETWEEN.get(_kind_of(goal))
        for _ in range(_LEVELS):
            if not controller:
                return False
            if _is_same(controller, goal):
                return True
            if between is not None and _kind_of(controller) not in between:
                return False
            controller = await self._controller_of(namespace, controller)
        return False

    async def _controller_of(self, namespace: str, controller: str) -> str:
        now = asyncio.get_running_loop().time()
        cached = self._kept.get((namespace, controller))
        if cached is not None and now - cached[0] < _KEEP_SECONDS:
            return cached[1]
        api_version, kind, name = controller.rsplit("/", 2)
        try:
            resource = await self._discovery.resource(api_version, kind)
        except ClusterError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return ""  # no such kind: whoever made the pod can have written anything
            raise
        async with self._reads.place(namespace):
            one = {"fieldSelector": f"metadata.name={name}"}
            answer = await self._client.get(resource.path(namespace), _ControlledList, one)
        for item in answer.items:
            if item.metadata.name == name:
                found = controller_of(item.metadata.owner_references)
                self._kept.pop((namespace, controller), None)
                while len(self._kept) >= _KEPT_MAX:
                    del self._kept[next(iter(self._kept))]
                self._kept[namespace, controller] = now, found
                return found
        return ""  # it is gone, and its pods are about to be


def _kind_of(controller: str) -> tuple[str, str]:
    """Group and kind."""
    api_version, kind, _ = controller.rsplit("/", 2)
    return api_version.rpartition("/")[0], kind


def _is_same(one: str, other: str) -> bool:
    """Whether two controllers are the same in any version of their group."""
    return _kind_of(one) == _kind_of(other) and one.rpartition("/")[2] == other.rpartition("/")[2]


def _kind_and_name(controller: str) -> str:
    return "/".join(controller.rsplit("/", 2)[1:])

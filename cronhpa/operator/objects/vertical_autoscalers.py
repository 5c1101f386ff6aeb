"""
VerticalPodAutoscalers that change the requests by which a utilization is computed.

Utilization is usage divided by requests: each change of the requests moves the count although the load is the same.
They are listed every five minutes, and only while an object has a target of type Utilization; a cluster without their
CRD answers that there are none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from http import HTTPStatus

import msgspec
from msgspec import Struct

from cronhpa.core.model.spec import ResourceMetric, Spec
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.pods import ObjectMeta
from cronhpa.operator.objects.object_state import ObjectState, TargetKey, api_group

LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 300.0
# Before the first list, and between two looks for an object with such a target.
_PAUSE_SECONDS = 20.0
# VPA changes running pods in these modes. In Initial and Off it does not.
_CHANGING = {"Auto", "Recreate", "InPlaceOrRecreate"}
_BOTH = ("cpu", "memory")
_EVERY = "*"


class _Ref(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class _UpdatePolicy(Struct, frozen=True, rename="camel"):
    update_mode: str | None = None


class _ContainerPolicy(Struct, frozen=True, rename="camel"):
    container_name: str = _EVERY
    mode: str = "Auto"
    controlled_resources: tuple[str, ...] | None = None

    def changes(self, resource: str) -> bool:
        resources = _BOTH if self.controlled_resources is None else self.controlled_resources
        return self.mode != "Off" and resource in resources


class _ResourcePolicy(Struct, frozen=True, rename="camel"):
    container_policies: tuple[_ContainerPolicy, ...] | None = None


class _VpaSpec(Struct, frozen=True, rename="camel"):
    target_ref: _Ref | None = None
    update_policy: _UpdatePolicy | None = None
    resource_policy: _ResourcePolicy | None = None


class Vpa(Struct, frozen=True):
    """A VerticalPodAutoscaler."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _VpaSpec = _VpaSpec()

    @property
    def mode(self) -> str:
        policy = self.spec.update_policy
        return (policy.update_mode if policy is not None else None) or "Auto"

    def changes(self, metric: ResourceMetric) -> bool:
        """Whether it changes the requests of a metric's resource, of one container where the metric is of one."""
        if self.mode not in _CHANGING:
            return False
        policies = (self.spec.resource_policy and self.spec.resource_policy.container_policies) or ()
        by_container = {policy.container_name: policy for policy in policies}
        others = by_container.pop(_EVERY, _ContainerPolicy())
        if metric.container is not None:
            return by_container.get(metric.container, others).changes(metric.name)
        # The names of the other containers are not known here. A pod has some, unless each has a policy of its own.
        return any(policy.changes(metric.name) for policy in (others, *by_container.values()))


class VerticalAutoscalers:
    """namespaces: those to list; none: the whole cluster. objects: all objects."""

    def __init__(self, client: Client, namespaces: Iterable[str], objects: Iterable[ObjectState]) -> None:
        self._client = client
        self._namespaces = tuple(namespaces) or ("",)
        self._objects = objects
        # By namespace of the list.
        self._by_target: dict[str, dict[TargetKey, Vpa]] = {}
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Lists them from time to time, until cancelled."""
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            specs = (state.served.spec for state in self._objects)
            if any(spec is not None and any(utilizations(spec)) for spec in specs):
                for namespace in self._namespaces:
                    await self._list(namespace)
                await asyncio.sleep(_LOOK_SECONDS - _PAUSE_SECONDS)

    def problem(self, target: TargetKey, spec: Spec) -> str:
        """The VerticalPodAutoscaler that changes what a utilization of the spec is divided by; "" if none does."""
        for listed in self._by_target.values():
            vpa = listed.get(target)
            changed = [] if vpa is None else [metric.name for metric in utilizations(spec) if vpa.changes(metric)]
            if vpa is not None and changed:
                return (
                    f"VerticalPodAutoscaler {vpa.metadata.name} (updateMode {vpa.mode}) changes the requests of "
                    f"{', '.join(dict.fromkeys(changed))}, by which the utilization is computed: the replicas follow "
                    "its changes as if they were load; take them out of its controlledResources, or give the metric a "
                    "target of type AverageValue"
                )
        return ""

    async def _list(self, namespace: str) -> None:
        within = ("namespaces", namespace) if namespace else ()
        path = path_of("apis", "autoscaling.k8s.io", "v1", *within, "verticalpodautoscalers")
        listed: dict[TargetKey, Vpa] = {}
        try:
            async for items, _ in self._client.pages(path):
                for item in items:
                    self._take(item, listed)
        except ClusterError as error:
            # Not installed. Else what was known stays: a right may be missing, or the server busy.
            if error.status == HTTPStatus.NOT_FOUND:
                self._by_target.pop(namespace, None)
            elif self._told.get(namespace) != error.message:
                self._told[namespace] = error.message
                LOG.warning("VerticalPodAutoscalers cannot be listed, and none is reported: %s", error.message)
            return
        self._by_target[namespace] = listed

    def _take(self, item: msgspec.Raw, listed: dict[TargetKey, Vpa]) -> None:
        try:
            vpa = msgspec.json.decode(item, type=Vpa)
        except msgspec.MsgspecError as error:
            LOG.debug("a VerticalPodAutoscaler cannot be read: %s", error)
            return
        ref = vpa.spec.target_ref
        if ref is not None and vpa.mode in _CHANGING:
            listed[vpa.metadata.namespace, api_group(ref.api_version), ref.kind, ref.name] = vpa


def utilizations(spec: Spec) -> Iterator[ResourceMetric]:
    """The metrics with a target of type Utilization."""
    for metric in spec.metrics:
        if isinstance(metric, ResourceMetric) and metric.target.average_value is None:
            yield metric

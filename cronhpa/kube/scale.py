"""
Scale targets: read from watches where their kind is watched, through the scale subresource where it is not, and always
written through it.

A write carries the resource version that the decision saw, so it can never overwrite what somebody did since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.observation import Absent, Scale
from cronhpa.core.spec import TargetRef
from cronhpa.kube.client import Client, ClusterError
from cronhpa.kube.discovery import Discovery, Resource
from cronhpa.kube.pods import Meta
from cronhpa.kube.selector_text import selector_text
from cronhpa.kube.watch import View

_CONFLICT = 409
_ATTEMPTS = 3
# Kinds whose own object says all that their scale says.
WATCHED = {
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "ReplicaSet"),
    ("", "v1", "ReplicationController"),
}


def is_watched(ref: TargetRef) -> bool:
    """Whether a target is read from a watch, without a request of its own."""
    group, _, version = ref.api_version.rpartition("/")
    return (group, version, ref.kind) in WATCHED


class _WorkloadSpec(Struct, frozen=True):
    replicas: int | None = None
    selector: Any = None


class _WorkloadStatus(Struct, frozen=True):
    replicas: int = 0


class Workload(Struct, frozen=True):
    """A Deployment, StatefulSet, ReplicaSet or ReplicationController."""

    metadata: Meta = Meta()
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()


class _ScaleSpec(Struct, frozen=True):
    replicas: int = 0


class _ScaleStatus(Struct, frozen=True):
    replicas: int = 0
    selector: str = ""


class _Scale(Struct, frozen=True):
    """No field may be missing: an empty answer must not look like a target at zero."""

    metadata: Meta
    spec: _ScaleSpec
    status: _ScaleStatus


class Targets:
    """
    changed(namespace, group, kind, name) is called when a watched target comes or goes. A change of its replicas waits
    for the next turn, as in the upstream: were it to bring a turn of its own, every write would, and the rate limits,
    which count turns, would limit nothing.
    """

    def __init__(
        self,
        client: Client,
        discovery: Discovery,
        changed: Callable[[str, str, str, str], None],
        namespaces: tuple[str, ...],
    ) -> None:
        self._client = client
        self._discovery = discovery
        self._changed = changed
        self._namespaces = namespaces or ("",)
        self._views: dict[tuple[Resource, str], View[Workload]] = {}
        self._present: set[tuple[str, str, str, str]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def views(self) -> list[View[Workload]]:
        return list(self._views.values())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def read(self, namespace: str, ref: TargetRef, *, fresh: bool = False) -> Scale | Absent:
        """The target's scale, or the reason that it is absent. fresh: asks the API server, whatever is cached."""
        try:
            resource = await self._discovery.resource(ref.api_version, ref.kind)
            view = self._view(resource, ref.kind, namespace)
            if fresh or view is None or not view.is_current:
                return _scale(await self._get(resource, namespace, ref.name))
        except ClusterError as error:
            return Absent("FailedGetScale", error.message)
        workload = view.objects.get((namespace, ref.name))
        if workload is None:
            return Absent("FailedGetScale", f'{resource.full_name} "{ref.name}" not found')
        return _scale_of(workload)

    async def write(self, namespace: str, ref: TargetRef, seen: Scale, replicas: int) -> None:
        """
        Sets the target's replicas, if they are still what the decision saw.

        Raises ClusterError: status 409 when somebody changed them since, and this decision is void. An error for which
        `is_ambiguous` may have come after the write was done.
        """
        resource = await self._discovery.resource(ref.api_version, ref.kind)
        version = seen.resource_version
        if not version:
            raise ClusterError(_CONFLICT, "Conflict", "the scale has no resource version to write against")
        for _ in range(_ATTEMPTS):
            body: dict[str, Any] = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
            try:
                written = await self._client.merge_patch(f"{resource.path(namespace, ref.name)}/scale", body, _Scale)
            except ClusterError as error:
                if error.status != _CONFLICT:
                    raise
                now = await self._get(resource, namespace, ref.name)
                if now.spec.replicas != seen.spec_replicas:
                    text = f"the replicas were changed from {seen.spec_replicas} to {now.spec.replicas} meanwhile"
                    raise ClusterError(_CONFLICT, "Conflict", text) from error
                version = now.metadata.resource_version
                continue
            self._note(resource, namespace, ref.name, written)
            return
        raise ClusterError(_CONFLICT, "Conflict", f"the target changed {_ATTEMPTS} times while it was being scaled")

    async def _get(self, resource: Resource, namespace: str, name: str) -> _Scale:
        return await self._client.get(f"{resource.path(namespace, name)}/scale", _Scale)

    def _note(self, resource: Resource, namespace: str, name: str, written: _Scale) -> None:
        """Caches our own write: the next reconciliation must not act on a scale that the watch has not updated yet."""
        view = self._views.get((resource, namespace if self._namespaces != ("",) else ""))
        known = view.objects.get((namespace, name)) if view else None
        if view is not None and known is not None:
            meta = replace(known.metadata, resource_version=written.metadata.resource_version)
            view.note(replace(known, metadata=meta, spec=replace(known.spec, replicas=written.spec.replicas)))

    def _view(self, resource: Resource, kind: str, namespace: str) -> View[Workload] | None:
        if (resource.group, resource.version, kind) not in WATCHED:
            return None
        scope = namespace if self._namespaces != ("",) else ""
        view = self._views.get((resource, scope))
        if view is None:
            path = (
                f"{resource.root}/namespaces/{scope}/{resource.name}" if scope else f"{resource.root}/{resource.name}"
            )
            view = View(
                self._client,
                path,
                Workload,
                lambda ns, name, item: self._on_change(view, (ns, resource.group, kind, name), item),
            )
            self._views[resource, scope] = view
            self._tasks.append(asyncio.create_task(view.run(), name=f"watch {path}"))
        return view

    def _on_change(self, view: View[Workload] | None, key: tuple[str, str, str, str], item: Workload | None) -> None:
        if (item is not None) == (key in self._present):
            return
        if item is None:
            self._present.discard(key)
        else:
            self._present.add(key)
        # What the first list holds was there before, and who asked for it was told: it brings nobody a second turn.
        if view is not None and view.synced.is_set():
            self._changed(*key)


def _scale(item: _Scale) -> Scale:
    return Scale(item.spec.replicas, item.status.replicas, item.status.selector, item.metadata.resource_version)


def _scale_of(item: Workload) -> Scale:
    wanted = 1 if item.spec.replicas is None else item.spec.replicas
    return Scale(
        wanted, item.status.replicas, workload_selector_text(item.spec.selector), item.metadata.resource_version
    )


def workload_selector_text(selector: Any) -> str:
    """A workload's selector as its scale states it."""
    if not isinstance(selector, dict):
        return ""
    labels = selector.get("matchLabels")
    if labels is None and "matchExpressions" not in selector:
        labels = selector  # a ReplicationController's selector is the bare map
    expressions = selector.get("matchExpressions") or ()
    return selector_text(
        (labels or {}).items(), ((item["key"], item["operator"], item.get("values") or ()) for item in expressions)
    )

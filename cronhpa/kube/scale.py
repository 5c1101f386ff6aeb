"""
Scale targets: the common kinds are read from informers, others through the scale subresource. All of them are written
through the scale subresource.

A write carries the resource version that the decision saw, so it can never overwrite somebody else's later change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.observation import Absent, Scale
from cronhpa.core.model.spec import TargetRef
from cronhpa.kube.client import Client
from cronhpa.kube.discovery import Discovery, Resource
from cronhpa.kube.errors import ClusterError, is_missing
from cronhpa.kube.informer import Informer
from cronhpa.kube.label_selector import REQUIREMENTS_MAX, SELECTOR_LENGTH_MAX, Selector, select, selector_text
from cronhpa.kube.managed_fields import replicas_manager
from cronhpa.kube.pods import ObjectMeta
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.ports.fair_places import FairPlaces

LOG = logging.getLogger(__name__)

_CONFLICT = 409
# Whoever writes the target's status in the seconds after a step makes a write conflict. After so long the decision is
# old. On a busy API server three attempts took 12 s, and the next reconciliation as long.
_ATTEMPT_SECONDS = 30.0
# Pauses between two attempts, each twice as long as the one before: whoever writes a target all the time gets some 35
# attempts within those seconds, where it were hundreds a second.
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.02, 1.0
# Reads of targets, each by a request of its own: of all kinds that are not watched; of one kind, or of all whose reads
# take longer than _SLOW_SECONDS; and of a kind in one namespace, or in all where they do. Writes share the client's
# places with them.
_UNWATCHED, _OF_KIND, _OF_NAMESPACE = 32, 16, 12
_SLOW_SECONDS = 5.0
# A selector of the longest accepted text is shorter than this as JSON, with quotes and braces.
_SELECTOR_JSON_MAX = 8 * SELECTOR_LENGTH_MAX
# Kinds whose objects contain everything that their scale contains.
WATCHED = {
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "ReplicaSet"),
    ("", "v1", "ReplicationController"),
}


def is_watched(ref: TargetRef) -> bool:
    """Whether a target is read from an informer, without a request of its own."""
    group, _, version = ref.api_version.rpartition("/")
    return (group, version, ref.kind) in WATCHED


class _WorkloadSpec(Struct, frozen=True):
    replicas: int | None = None
    selector: msgspec.Raw = msgspec.Raw(b"null")


class _WorkloadStatus(Struct, frozen=True, rename="camel"):
    replicas: int = 0
    ready_replicas: int = 0


class Workload(Struct, frozen=True):
    """A Deployment, StatefulSet, ReplicaSet or ReplicationController."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()


class ScaleTarget(Struct, frozen=True):
    """The scale of a target, and the selector of its pods or why it is unusable."""

    scale: Scale
    selector: Selector | Absent
    ready: int | None = None
    """The number of Ready pods, as the target's controller states it; None for a target that is not watched."""


class WatchedTarget(Struct):
    """A target as seen by its informer."""

    replicas: int
    status_replicas: int
    ready_replicas: int
    version: str
    selector: bytes | None
    """The selector as JSON; None if it is too long to be read."""
    informer: Informer[Workload] | None = None
    target: ScaleTarget | None = None
    """Made at the first read; it keeps its parsed selector until the selector changes."""
    is_newest: bool = True
    """True until the informer sees another version."""
    is_written: bool = False
    """Whether a write of ours made it and its watch has not told of it yet: its status is that of before."""

    @property
    def is_current(self) -> bool:
        """Whether the target is still like this."""
        return self.is_newest and self.informer is not None and self.informer.is_current

    def is_like(self, other: WatchedTarget) -> bool:
        """Whether another one states the same."""
        return (self.version, self.replicas, self.status_replicas, self.ready_replicas, self.selector) == (
            other.version,
            other.replicas,
            other.status_replicas,
            other.ready_replicas,
            other.selector,
        )

    def read(self) -> ScaleTarget:
        if self.target is None:
            text = too_long() if self.selector is None else workload_selector_text(msgspec.json.decode(self.selector))
            selector = select(text) if isinstance(text, str) else text
            scale = self._scale("" if isinstance(text, Absent) else text)
            self.target = ScaleTarget(scale, selector, self.ready_replicas)
        return self.target

    def after(self, before: WatchedTarget | None) -> WatchedTarget:
        """This version of a target, with the parsed selector of the version before if the selector is the same."""
        if before is not None and before.target is not None and before.selector == self.selector:
            self.target = replace(
                before.target, scale=self._scale(before.target.scale.selector), ready=self.ready_replicas
            )
        return self

    def _scale(self, selector: str) -> Scale:
        return Scale(self.replicas, self.status_replicas, selector, self.version)


class _ScaleSpec(Struct, frozen=True):
    replicas: int = 0


class _ScaleStatus(Struct, frozen=True):
    replicas: int = 0
    selector: str = ""


class _Scale(Struct, frozen=True):
    """No field may be missing: an empty answer must not look like a target at zero."""

    metadata: ObjectMeta
    spec: _ScaleSpec
    status: _ScaleStatus


class Targets:
    """
    changed(namespace, group, kind, name) is called when a watched target is created or deleted. A change of its
    replicas waits for the next reconciliation, as upstream: rate policies count reconciliations, and if each write
    caused one, they would limit nothing. restored: as of an Informer.
    """

    def __init__(
        self,
        client: Client,
        discovery: Discovery,
        changed: Callable[[str, str, str, str], None],
        namespaces: tuple[str, ...],
        scope: ShardScope | None = None,
        restored: Callable[[], None] = lambda: None,
    ) -> None:
        self._scope = scope or ShardScope()
        self._restored = restored
        self._client = client
        self._discovery = discovery
        self._changed = changed
        self._namespaces = namespaces or ("",)
        self._informers: dict[tuple[Resource, str], Informer[Workload]] = {}
        self._seen: dict[tuple[str, str, str, str], WatchedTarget] = {}
        self._tasks: list[asyncio.Task[None]] = []
        # A kind whose reads hang delays no target of another, nor does a namespace those of the same kind.
        self._of_kind: dict[Resource, FairPlaces] = {}
        self._unwatched = FairPlaces(_UNWATCHED, _OF_KIND, _SLOW_SECONDS)

    @property
    def informers(self) -> list[Informer[Workload]]:
        return list(self._informers.values())

    def list_again(self) -> None:
        """Lists the targets again: a watch may have lost some."""
        for informer in self.informers:
            informer.list_again()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def watch(self, targets: Iterable[tuple[str, TargetRef]], seconds: float) -> None:
        """
        Begins to watch the kinds of these targets (namespace, reference), and waits this long for their lists.

        Until its kind is listed, each target is read by a request of its own.
        """
        for namespace, ref in {(namespace, replace(ref, name="")) for namespace, ref in targets if is_watched(ref)}:
            try:
                self._informer(await self._discovery.resource(ref.api_version, ref.kind), ref.kind, namespace)
            except ClusterError as error:
                LOG.warning("targets of kind %s are read one by one for now: %s", ref.kind, error.message)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for informer in self.informers:
                    await informer.synced.wait()

    async def read(self, namespace: str, ref: TargetRef, *, fresh: bool = False) -> ScaleTarget | Absent:
        """The target, or why it is absent. fresh: read it from the API server, whatever is cached."""
        try:
            resource = await self._discovery.resource(ref.api_version, ref.kind)
            informer = self._informer(resource, ref.kind, namespace)
            if fresh or informer is None or not informer.is_current:
                async with self._reading(resource, namespace, is_watched=informer is not None):
                    return _scale_target(await self._get(resource, namespace, ref.name))
            target = self._seen.get((namespace, resource.group, ref.kind, ref.name))
            if target is None:
                return Absent("FailedGetScale", f'{resource.full_name} "{ref.name}" not found', is_gone=True)
            return target.read()
        except ClusterError as error:
            return Absent("FailedGetScale", error.message, is_gone=is_missing(error))

    def ready(self, namespace: str, ref: TargetRef) -> int | None:
        """The number of ready pods that a watched target states; None for a target that is not watched."""
        target = self._seen.get((namespace, ref.api_version.rpartition("/")[0], ref.kind, ref.name))
        return None if target is None else target.ready_replicas

    def watched(self, key: tuple[str, str, str, str]) -> WatchedTarget | None:
        """The target (namespace, group, kind, name) as its informer knows it; None for one that is not watched."""
        return self._seen.get(key)

    async def write(
        self,
        namespace: str,
        ref: TargetRef,
        decided_upon: Scale,
        replicas: int,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        Sets the target's replicas, if they are still the ones that the decision saw.

        is_current: whether the decision holds still, asked before each further attempt.
        Raises ClusterError: status 409 if somebody changed them since, so that the decision is void. After an error
        that `is_ambiguous`, the write may have been done.
        """
        resource = await self._discovery.resource(ref.api_version, ref.kind)
        version = decided_upon.resource_version
        if not version:
            raise ClusterError(_CONFLICT, "Conflict", "the scale has no resource version to write against")
        loop, attempts = asyncio.get_running_loop(), 0
        until = loop.time() + _ATTEMPT_SECONDS
        while not attempts or (loop.time() < until and is_current()):
            attempts += 1
            body: dict[str, Any] = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
            try:
                written = await self._client.merge_patch(f"{resource.path(namespace, ref.name)}/scale", body, _Scale)
            except ClusterError as error:
                if error.status != _CONFLICT:
                    raise
                # Before the read: the write follows it at once.
                await asyncio.sleep(min(_PAUSE_SECONDS * 2 ** (attempts - 1), _PAUSE_SECONDS_MAX))
                now = await self._get(resource, namespace, ref.name)
                if now.spec.replicas != decided_upon.spec_replicas:
                    # The watch may have lost that change: the next reconciliation must not decide on the replicas of
                    # before it.
                    self._note(resource, namespace, ref, now, now.status.replicas)
                    text = (
                        f"the replicas were changed from {decided_upon.spec_replicas} to {now.spec.replicas} meanwhile"
                    )
                    raise ClusterError(_CONFLICT, "Conflict", text) from error
                if now.metadata.resource_version == version:
                    raise  # nobody changed it: an admission webhook, say, refuses it by this code
                version = now.metadata.resource_version
                continue
            self._note(resource, namespace, ref, written)
            return
        raise ClusterError(_CONFLICT, "Conflict", f"the target changed {attempts} times while it was being scaled")

    async def other_manager(self, namespace: str, ref: TargetRef) -> str:
        """The newest field manager of the target's replicas that is not this operator; "" if none is stated."""
        try:
            resource = await self._discovery.resource(ref.api_version, ref.kind)
            async with self._reading(resource, namespace, is_watched=is_watched(ref)):
                return await replicas_manager(self._client, resource.path(namespace), ref.name)
        except ClusterError as error:
            LOG.info("the field managers of %s/%s cannot be read: %s", namespace, ref.name, error.message)
            return ""

    @asynccontextmanager
    async def _reading(self, resource: Resource, namespace: str, *, is_watched: bool) -> AsyncIterator[None]:
        """Around a read."""
        of_kind = self._of_kind.get(resource)
        if of_kind is None:
            of_kind = self._of_kind[resource] = FairPlaces(_OF_KIND, _OF_NAMESPACE, _SLOW_SECONDS)
        of_all = nullcontext() if is_watched else self._unwatched.place(resource.full_name)
        async with of_kind.place(namespace), of_all:
            yield

    async def _get(self, resource: Resource, namespace: str, name: str) -> _Scale:
        return await self._client.get(f"{resource.path(namespace, name)}/scale", _Scale)

    def _note(
        self, resource: Resource, namespace: str, ref: TargetRef, scale: _Scale, status_replicas: int | None = None
    ) -> None:
        """
        Caches our own write, or what was read: the next reconciliation must not act on a scale that the watch has not
        updated yet. status_replicas: None for a write, whose answer still states the number of before.
        """
        informer = self._informers.get((resource, self._scope_of(namespace)))
        key = (namespace, resource.group, ref.kind, ref.name)
        before, version = self._seen.get(key), scale.metadata.resource_version
        if (
            informer is not None
            and before is not None
            and before.version != version  # else its watch has told of it already
            and informer.note(ObjectMeta(ref.name, namespace, resource_version=version))
        ):
            before.is_newest = False
            status = before.status_replicas if status_replicas is None else status_replicas
            ready, selector = before.ready_replicas, before.selector
            is_written = status_replicas is None
            target = WatchedTarget(
                scale.spec.replicas, status, ready, version, selector, informer, is_written=is_written
            )
            self._seen[key] = target.after(before)

    def _scope_of(self, namespace: str) -> str:
        return namespace if self._namespaces != ("",) else ""

    def _informer(self, resource: Resource, kind: str, namespace: str) -> Informer[Workload] | None:
        if (resource.group, resource.version, kind) not in WATCHED:
            return None
        scope = self._scope_of(namespace)
        informer = self._informers.get((resource, scope))
        if informer is None:
            path = f"{resource.root}/{f'namespaces/{scope}/' if scope else ''}{resource.name}"
            informer = Informer(
                self._client,
                path,
                Workload,
                lambda ns, name, workload: self._on_change(informer, (ns, resource.group, kind, name), workload),
                keep=False,
                scope=self._scope,
                restored=self._restored,
            )
            self._informers[resource, scope] = informer
            self._tasks.append(asyncio.create_task(informer.run(), name=f"watch {path}"))
        return informer

    def _on_change(
        self, informer: Informer[Workload] | None, key: tuple[str, str, str, str], workload: Workload | None
    ) -> None:
        before, target = self._seen.get(key), None if workload is None else _watched(workload, informer)
        if before is not None and target is not None and before.is_like(target):
            before.is_written = False
            return  # listed again: what was decided over it stands
        if before is not None:
            before.is_newest = False
            del self._seen[key]
        if target is not None:
            self._seen[key] = target.after(before)
        if (workload is None) == (before is None):
            return
        # The targets of the first list existed before: the reconciliation that asked for them reads them anyway.
        if informer is not None and informer.synced.is_set():
            self._changed(*key)


def _scale(scale: _Scale) -> Scale:
    return Scale(scale.spec.replicas, scale.status.replicas, scale.status.selector, scale.metadata.resource_version)


def _scale_target(stated: _Scale) -> ScaleTarget:
    scale = _scale(stated)
    return ScaleTarget(scale, select(scale.selector))


def _watched(workload: Workload, informer: Informer[Workload] | None) -> WatchedTarget:
    wanted = 1 if workload.spec.replicas is None else workload.spec.replicas
    selector = bytes(workload.spec.selector)
    short_selector = None if len(selector) > _SELECTOR_JSON_MAX else selector
    status = workload.status
    version = workload.metadata.resource_version
    return WatchedTarget(wanted, status.replicas, status.ready_replicas, version, short_selector, informer)


def workload_selector_text(selector: Any) -> str | Absent:
    """
    A workload's selector as its scale states it: requirements sorted by label, joined by commas.

    Absent for a selector with more requirements than are read.
    """
    if not isinstance(selector, dict):
        return ""
    labels = selector.get("matchLabels")
    if labels is None and "matchExpressions" not in selector:
        labels = selector  # a ReplicationController's selector is the bare map
    expressions = selector.get("matchExpressions") or ()
    if len(labels or ()) + len(expressions) > REQUIREMENTS_MAX:
        return too_long()
    return selector_text(
        (labels or {}).items(),
        ((expression["key"], expression["operator"], expression.get("values") or ()) for expression in expressions),
    )


def too_long() -> Absent:
    """The reason why a workload's selector is not read."""
    return Absent(
        "InvalidSelector",
        f"the target's selector has more than {REQUIREMENTS_MAX} requirements or {SELECTOR_LENGTH_MAX} characters, "
        "which is as much as is read: select its pods by fewer labels",
    )

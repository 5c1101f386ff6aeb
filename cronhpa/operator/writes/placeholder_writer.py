"""
Keeps placeholders for the pods of coming rises: as many as are missing, until the real pods are there.

A CapacityBuffer beside the object, which a node autoscaler reads; or a Deployment of low priority in one namespace of
the operator's own. Not in that of the object: there it would use up the quota of the real pods, and whoever may create
Deployments in all namespaces may run anything anywhere.

Nothing waits for placeholders. What fails is a condition of the object and a line of the log, once a rise, with what to
do, and is tried again. Where the setting is turned off, so are the rights: what was made goes with the chart's Role or
ClusterRole, which owns it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

from cronhpa.api.identity import API_VERSION, GROUP, KIND
from cronhpa.core.model.decision import DecisionKind
from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.reconciliation import PlaceholderProblem
from cronhpa.core.placeholders import pods_at_once, pods_to_come, shares
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.clock import Clock
from cronhpa.kube.discovery import Discovery, Resource
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.lease import LeaseName
from cronhpa.kube.placeholder_pods import Kin, TemplatedWorkload, placeholder_spec, takes_room
from cronhpa.kube.pods import ObjectMeta
from cronhpa.kube.scale import Targets
from cronhpa.operator.loop.cooperative_yield import CooperativeYield
from cronhpa.operator.objects.object_state import Key, ObjectState, api_group
from cronhpa.operator.writes.placeholder_settings import PlaceholderSettings
from cronhpa.ports.fair_places import FairPlaces

LOG = logging.getLogger(__name__)

BUFFER_GROUP, BUFFER_KIND = "autoscaling.x-k8s.io", "CapacityBuffer"
INSTALLATION = f"{GROUP}/placeholders-of"
"""Label: a digest of the Lease of the installation that made a placeholder."""
OBJECT = f"{GROUP}/placeholder-for"
"""Annotation: the namespace and name of the CronHPA."""

# A pod that finds no room preempts a placeholder, which then asks for a node of its own: it goes before that.
_LOOK_SECONDS = 1.0
# Objects that need none are passed by in turns: 5,000 of them would take 8 % of a core.
_TURNS = 5
# Of a core, at most: beyond it looks are rarer, and placeholders late. 5,000 objects that need none take 2 %.
_CPU_SHARE = 0.1
# They are listed when another number is needed; and so often while there are some, or while there are none.
_LIST_SECONDS, _LIST_NONE_SECONDS = 5.0, 60.0
_GONE_SECONDS = 60.0
# A placeholder that somebody deletes is made again no sooner.
_AGAIN_SECONDS = 60.0
# Of one object; beyond them all are logged again.
_LINES_MAX = 20
# Concurrent writes: in total, and of one namespace, or of all whose writes take longer than _SLOW_SECONDS, such as by
# an admission webhook. A look waits so long for those that are under way.
_WRITES_AT_ONCE, _WRITES_OF_ONE = 16, 8
_SLOW_SECONDS = 5.0
_WRITES_SECONDS = 1.0
_DEPLOYMENTS = Resource("apps", "v1", "deployments")
_ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles")
_CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles")
# Of a CapacityBuffer: what its controller says of it.
_BUFFER_READY = "ReadyForProvisioning"
_NO_ROOM = (
    "the cluster has no room, and gets none in time: raise placeholders.nodeStartupSeconds, or see what keeps its nodes"
    " few"
)


class _Meta(ObjectMeta, frozen=True, rename="camel"):
    annotations: dict[str, str] | None = None


class _Spec(Struct, frozen=True):
    replicas: int | None = None


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(Struct, frozen=True, rename="camel"):
    ready_replicas: int = 0
    conditions: tuple[_Condition, ...] = ()


class Placeholder(Struct, frozen=True):
    """A CapacityBuffer or a Deployment as the API serves it."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def key(self) -> Key | None:
        """The object that it is for; None if it does not say so."""
        namespace, slash, name = (self.metadata.annotations or {}).get(OBJECT, "").partition("/")
        return (namespace, name) if slash else None


class _Templates(Struct, frozen=True):
    items: tuple[TemplatedWorkload, ...] = ()


class _Identified(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class UnfitError(Exception):
    """No placeholder can be made for a target."""


class PlaceholderWriter:
    """
    serves(namespace): whether this replica decides for a namespace now. lease: of the installation.

    namespaces: in which there may be CapacityBuffers; none: all.
    """

    def __init__(  # noqa: PLR0913 - its parts by their names
        self,
        client: Client,
        discovery: Discovery,
        targets: Targets,
        serves: Callable[[str], bool],
        clock: Clock,
        *,
        settings: PlaceholderSettings,
        lease: LeaseName | None,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._client, self._discovery, self._targets = client, discovery, targets
        self._serves, self._clock, self._settings = serves, clock, settings
        self._namespaces = tuple(namespaces) or ("",)
        self._installation = blake2b(
            "/".join(() if lease is None else (lease.namespace, lease.name)).encode(), digest_size=8
        ).hexdigest()
        # The objects that ask for placeholders, kept up to date by the controller: no look passes all objects.
        self.objects: dict[Key, ObjectState] = {}
        self._is_asked = asyncio.Event()
        self._made_at: dict[Key, float] = {}
        # Those that were made and not removed: one that is missing was deleted by somebody.
        self._made: set[Key] = set()
        # Placeholders and how many of them run, as seen at the look before this one.
        self._seen: dict[Key, tuple[int, int]] = {}
        # The lines that were logged, by object; of a kind of placeholders under an empty namespace.
        self._told: dict[Key, set[str]] = {}
        self._listed_at: float | None = None
        # When it was found last that the API serves CapacityBuffers.
        self._buffers_at = -math.inf
        # How many were needed at the last list; whether there were any then, or were to be.
        self._wanted: dict[Key, int] = {}
        self._has_some = True
        # Those that needed none at their last look, and the number of this look.
        self._quiet: set[Key] = set()
        self._turn = 0
        self._yield = CooperativeYield()
        # The CPU time of the last count.
        self._spent = 0.0
        # The writes under way, and those that wait for a place.
        self._writes: dict[Key, asyncio.Task[None]] = {}
        self._places = FairPlaces(_WRITES_AT_ONCE, _WRITES_OF_ONE, _SLOW_SECONDS)

    def note(self, state: ObjectState) -> None:
        """An object asks for placeholders from now on."""
        self.objects[state.key] = state
        self._is_asked.set()

    async def run(self) -> None:
        """Looks at all objects from time to time, until cancelled."""
        try:
            while True:
                await self._pause()
                try:
                    await self.look()
                except Exception:
                    LOG.exception("placeholders: it is tried again")
        finally:
            writes = [*self._writes.values()]
            for write in writes:
                write.cancel()
            await asyncio.gather(*writes, return_exceptions=True)

    async def _pause(self) -> None:
        """Until the next look: with no object that asks for placeholders there are only those that others left."""
        await asyncio.sleep(max(_LOOK_SECONDS, self._spent / _CPU_SHARE))
        if not self.objects:
            self._is_asked.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self._settings.kinds == "none" else _LIST_SECONDS):
                    await self._is_asked.wait()

    async def look(self) -> None:
        """Makes, resizes and removes placeholders."""
        seconds = self._clock.monotonic()
        asking = {key: state for key, state in self.objects.items() if self._serves(state.namespace)}
        for known in (self._made_at, self._seen, self._told):
            for key in [key for key in known if key not in asking and key[0]]:
                known.pop(key)
        if self._settings.kinds == "none":
            for key in asking:
                self._tell(
                    key,
                    "Off",
                    "there are none: CRONHPA_PLACEHOLDERS is none: set it, or placeholders.kinds of the chart",
                )
            return
        self._made &= asking.keys()
        self._quiet &= asking.keys()
        wanted = await self._count(asking, self._clock.now())
        pause = _LIST_SECONDS if self._has_some else _LIST_NONE_SECONDS
        is_recent = self._listed_at is not None and seconds - self._listed_at < pause
        if is_recent and wanted == self._wanted:
            return
        self._listed_at, self._wanted, self._has_some = seconds, wanted, bool(wanted)
        try:
            buffers = await self._buffers()
        except ClusterError:
            self._has_some = True  # unknown: it is tried again soon
            return
        if self._settings.kinds in {"auto", "Deployment"}:
            await self._keep(_DEPLOYMENTS, {} if buffers else wanted, asking, seconds)
        if buffers:
            await self._keep(buffers, wanted, asking, seconds)

    async def _count(self, asking: Mapping[Key, ObjectState], now: Nanoseconds) -> dict[Key, int]:
        """How many placeholders each object needs now, cut to the limit of all that this replica serves."""
        missing, at_once = dict[Key, int](), dict[Key, int]()
        self._turn = (self._turn + 1) % _TURNS
        self._spent = 0.0
        for key, state in asking.items():
            if key in self._quiet and crc32(key[1].encode()) % _TURNS != self._turn:
                continue
            await self._yield.step()
            latest, target = state.local.latest, state.target
            if latest is None or target is None or not _is_decided(state) or state.local.other_operator:
                continue
            seen = self._targets.watched(target)
            replicas = latest.decision.current if seen is None else seen.replicas
            begun = time.thread_time()
            if count := pods_to_come(latest, replicas, now):
                missing[key] = count
                at_once[key] = pods_at_once(latest, state.local.remembered, replicas, now)
                self._quiet.discard(key)
            else:
                self._quiet.add(key)
            self._spent += time.thread_time() - begun
        wanted = shares(missing, self._settings.most)
        for key, count in missing.items():
            if count > wanted.get(key, 0):
                limit = f"CRONHPA_PLACEHOLDER_MAX={self._settings.most}"
                text = f"some of its pods to come have none: all objects of a replica have {limit}: raise it"
                self._tell(key, "LimitReached", text)
            else:
                self._settle(key, "LimitReached")
        # After the shares: what one gives free is no room for placeholders of another.
        return {key: left for key, count in wanted.items() if (left := count - at_once[key]) > 0}

    async def _buffers(self) -> Resource | None:
        """The resource of CapacityBuffers; None where they are not used. Raises ClusterError while nobody knows."""
        if self._settings.kinds == "Deployment":
            return None
        try:
            found = await self._discovery.resource_in(BUFFER_GROUP, BUFFER_KIND)
        except ClusterError as error:
            is_missing = error.status == HTTPStatus.NOT_FOUND
            if self._settings.kinds == "CapacityBuffer" or not is_missing:
                text = f"there are none: {error.message}: install its CRD"
                self._tell(("", BUFFER_KIND), "NotServed", text)
            # A server that starts, and has not read its kinds yet, may say 404, too.
            is_gone = is_missing and self._clock.monotonic() - self._buffers_at >= _GONE_SECONDS
            if self._settings.kinds == "auto" and not is_gone:
                raise  # Deployments beside them would be the same room twice
            return None
        self._buffers_at = self._clock.monotonic()
        return found

    async def _keep(
        self, resource: Resource, wanted: Mapping[Key, int], asking: Mapping[Key, ObjectState], seconds: float
    ) -> None:
        """Brings the placeholders of one kind to the wanted numbers."""
        try:
            present = await self._list(resource)
        except ClusterError as error:
            self._has_some = True  # unknown: it is tried again soon
            text = f"they cannot be listed: {error.message}: give the operator that right"
            self._tell(("", resource.full_name), "NotListed", text)
            return
        self._told.pop(("", resource.full_name), None)
        for key, placeholder in present.items():
            if key in wanted or not self._serves(key[0]):
                continue
            self._has_some = True
            state = asking.get(key)
            if state is not None and not _is_decided(state) and not state.local.other_operator:
                continue  # what another process made stays until this one knows
            self._told.pop(key, None)  # each rise has its own lines
            self._made.discard(key)
            if placeholder.spec.replicas == 0 or resource is not _DEPLOYMENTS:
                self._begin(key, partial(self._remove, resource, placeholder), lambda: True)
            else:
                self._note_room(key, placeholder, 0, resource, seconds)
                # Their room is free at once; pods of a deleted Deployment stay until the garbage collector comes.
                self._begin(key, partial(self._resize, resource, placeholder, 0), lambda: True)
        for key, count in wanted.items():
            self._reach(resource, key, present.get(key), count, asking[key], seconds)
        if self._writes:
            self._has_some = True  # what is written late is soon looked at again
            await asyncio.wait(self._writes.values(), timeout=_WRITES_SECONDS)

    def _reach(
        self,
        resource: Resource,
        key: Key,
        present: Placeholder | None,
        count: int,
        state: ObjectState,
        seconds: float,
    ) -> None:
        """Brings the placeholder of an object that needs some to its number."""

        def is_needed() -> bool:
            return self._wanted.get(key) == count and self.objects.get(key) is state

        if present is not None:
            self._note_room(key, present, count, resource, seconds)
            if present.spec.replicas != count:
                self._begin(key, partial(self._resize, resource, present, count), is_needed)
            return
        is_due = seconds - self._made_at.get(key, seconds - _AGAIN_SECONDS) >= _AGAIN_SECONDS
        if is_due and self._begin(key, partial(self._make, resource, state, count), is_needed):
            self._made_at[key] = seconds

    async def _list(self, resource: Resource) -> dict[Key, Placeholder]:
        """The placeholders of this installation, by their objects."""
        is_own = {"labelSelector": f"{INSTALLATION}={self._installation}"}
        within = (self._settings.namespace,) if resource is _DEPLOYMENTS else self._namespaces
        found: dict[Key, Placeholder] = {}
        for namespace in within:
            path = resource.path(namespace) if namespace else resource.root + path_of(resource.name)
            async for items, _ in self._client.pages(path, is_own):
                for item in items:
                    try:
                        placeholder = msgspec.json.decode(item, type=Placeholder)
                    except msgspec.MsgspecError as error:
                        LOG.debug("%s: one cannot be read: %s", resource.full_name, error)
                        continue
                    key, meta = placeholder.key, placeholder.metadata
                    # Whoever copies label and annotation of another's has not its name in its namespace.
                    if key is not None and (meta.namespace, meta.name) == self._place(resource, key):
                        found[key] = placeholder
        return found

    async def _make(self, resource: Resource, state: ObjectState, count: int) -> None:
        make = self._deployment if resource is _DEPLOYMENTS else self._buffer
        body = await make(resource, state, count)
        await self._client.create(resource.path(body["metadata"]["namespace"]), body, Placeholder)
        if state.key in self._made:
            text = "somebody deleted them while they were needed: they are made again once a minute; see who does"
            self._tell(state.key, "Deleted", text)
        else:
            self._made.add(state.key)
            self._settle(state.key, "Deleted", "NoRoom", "NotWritten", "NoTemplate", "NotListed", "NotServed")
        LOG.info("%s/%s: %d placeholders for the pods of the next rise (%s)", *state.key, count, resource.full_name)

    async def _resize(self, resource: Resource, placeholder: Placeholder, count: int) -> None:
        path = resource.path(placeholder.metadata.namespace, placeholder.metadata.name)
        await self._client.merge_patch(path, {"spec": {"replicas": count}}, Placeholder)

    async def _remove(self, resource: Resource, placeholder: Placeholder) -> None:
        meta = placeholder.metadata
        options = {"propagationPolicy": "Background", "preconditions": {"uid": meta.uid}}
        await self._client.delete(resource.path(meta.namespace, meta.name), options)

    def _begin(self, key: Key, write: Callable[[], Awaitable[None]], is_needed: Callable[[], bool]) -> bool:
        """Begins a write, unless one of the same object is under way. is_needed: asked once there is a place for it."""
        if key in self._writes:
            return False
        task = self._writes[key] = asyncio.create_task(self._try(key, write, is_needed))
        task.add_done_callback(lambda _: self._writes.pop(key))
        return True

    async def _try(self, key: Key, write: Callable[[], Awaitable[None]], is_needed: Callable[[], bool]) -> None:
        """Does a write. A failure of it is logged once, and no other object waits for it."""
        try:
            async with self._places.place(key[0]):
                if self._serves(key[0]) and is_needed():
                    await write()
                else:
                    self._made_at.pop(key, None)
        except UnfitError as problem:
            self._tell(key, "NoTemplate", str(problem))
        except ClusterError as error:
            if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                advice = "the pods will wait for nodes; see docs/how-to/nodes-before-pods.md"
                self._tell(key, "NotWritten", f"they cannot be written: {error.message}: {advice}")
        except Exception:
            LOG.exception("placeholders of %s/%s: it is tried again", *key)

    def _note_room(self, key: Key, placeholder: Placeholder, count: int, resource: Resource, seconds: float) -> None:
        """
        Warns of placeholders without a node, once a rise: once a node should have been there, and when the first real
        pods take their places.
        """
        if resource is not _DEPLOYMENTS:
            self._note_refusal(key, placeholder)
            return
        replicas, ready = placeholder.spec.replicas or 0, placeholder.status.ready_replicas
        # As they were before the pods came: those that gave way to pods have no node any more.
        before = self._seen.get(key)
        if count >= replicas:
            self._seen[key] = (replicas, ready)
            state, made_at = self.objects.get(key), self._made_at.get(key)
            spec = None if state is None else state.served.spec
            room = None if spec is None else spec.room
            if room is None or made_at is None:
                return
            is_late = seconds - made_at > room.node_start_up / SECOND
            if is_late and ready < replicas and before == (replicas, ready):
                text = f"some have had no node for longer than nodeStartupSeconds: {_NO_ROOM}"
                self._tell(key, "NoRoom", text)
            elif ready >= replicas > 0:
                self._settle(key, "NoRoom")
            return
        self._seen.pop(key, None)
        if before is not None and before[0] > before[1]:
            text = f"{before[0] - before[1]} of {before[0]} had no node when the pods came: {_NO_ROOM}"
            self._tell(key, "NoRoom", text)

    def _note_refusal(self, key: Key, buffer: Placeholder) -> None:
        """Tells what the autoscaler of nodes says against a CapacityBuffer."""
        ready = next((one for one in buffer.status.conditions if one.type == _BUFFER_READY), None)
        if ready is not None and ready.status == "False":
            text = f"the autoscaler of nodes does not take the CapacityBuffer: {ready.message or 'it does not say why'}"
            self._tell(key, "BufferRefused", text)
        elif ready is not None:
            self._settle(key, "BufferRefused")

    def _settle(self, key: Key, *reasons: str) -> None:
        """Ends a problem of an object, if it is one of these."""
        state = self.objects.get(key)
        problem = None if state is None else state.local.placeholder_problem
        if state is not None and problem is not None and problem.reason in reasons:
            state.local.placeholder_problem, state.local.changed = None, True

    def _tell(self, key: Key, reason: str, text: str) -> None:
        """
        Logs a line about an object, once a rise, and keeps it for the object's conditions.

        Of a kind of placeholders, for all objects that need some.
        """
        problem = PlaceholderProblem(reason, f"placeholders: {text}")
        for named in (key,) if key[0] else self._wanted:
            state = self.objects.get(named)
            if state is not None and state.local.placeholder_problem != problem:
                state.local.placeholder_problem, state.local.changed = problem, True
        lines = self._told.setdefault(key, set())
        if text not in lines:
            if len(lines) >= _LINES_MAX:
                lines.clear()
            lines.add(text)
            LOG.warning("placeholders of %s: %s", "/".join(key).lstrip("/"), text)

    # --- what is made --------------------------------------------------------------------------------------------

    def _place(self, resource: Resource, key: Key) -> tuple[str, str]:
        """The namespace and the name of an object's placeholder."""
        digest = blake2b("/".join((self._installation, *key)).encode(), digest_size=10).hexdigest()
        return self._settings.namespace if resource is _DEPLOYMENTS else key[0], f"placeholder-{digest}"

    def _meta(self, resource: Resource, state: ObjectState) -> dict[str, Any]:
        namespace, name = self._place(resource, state.key)
        return {
            "name": name,
            "namespace": namespace,
            "labels": {INSTALLATION: self._installation, "app.kubernetes.io/managed-by": "cronhpa"},
            "annotations": {OBJECT: "/".join(state.key)},
        }

    async def _buffer(self, resource: Resource, state: ObjectState, count: int) -> dict[str, Any]:
        spec = state.served.spec
        assert spec is not None
        # Not both: what has two owners stays until both are gone.
        owner = await self._role(self._settings.buffer_owner, "" if "" in self._namespaces else state.namespace)
        owner = owner or {"apiVersion": API_VERSION, "kind": KIND, "name": state.name, "uid": state.uid}
        ref = {"apiGroup": api_group(spec.target.api_version), "kind": spec.target.kind, "name": spec.target.name}
        return {
            "apiVersion": f"{resource.group}/{resource.version}",
            "kind": BUFFER_KIND,
            "metadata": {**self._meta(resource, state), "ownerReferences": [owner]},
            "spec": {"scalableRef": ref, "replicas": count},
        }

    async def _deployment(self, resource: Resource, state: ObjectState, count: int) -> dict[str, Any]:
        meta = self._meta(resource, state)
        owner = await self._role(self._settings.owner, self._settings.namespace)
        labels = {**meta["labels"], "app.kubernetes.io/name": "placeholder", OBJECT: meta["name"]}
        spec = await self._pod_spec(state, {OBJECT: meta["name"]})
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**meta, "ownerReferences": [owner]} if owner else meta,
            "spec": {
                "replicas": count,
                "revisionHistoryLimit": 0,
                "selector": {"matchLabels": {OBJECT: meta["name"]}},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }

    async def _role(self, name: str, namespace: str) -> dict[str, Any]:
        """
        The owner reference to the role of these rights; {} where no setting names one, or it is not there.

        namespace: "" for a ClusterRole.
        """
        if not name:
            return {}
        kind = "Role" if namespace else "ClusterRole"
        path = _ROLES.path(namespace, name) if namespace else _CLUSTER_ROLES.root + path_of(_CLUSTER_ROLES.name, name)
        try:
            role = await self._client.get(path, _Identified)
        except ClusterError as error:
            LOG.warning("the placeholders outlive their setting: %s %s cannot be read: %s", kind, name, error.message)
            return {}
        return {"apiVersion": f"{_ROLES.group}/v1", "kind": kind, "name": name, "uid": role.metadata.uid}

    async def _pod_spec(self, state: ObjectState, own: Mapping[str, str]) -> dict[str, Any]:
        """own: the labels of the placeholders."""
        spec = state.served.spec
        assert spec is not None
        target = spec.target
        resource = await self._discovery.resource(target.api_version, target.kind)
        # A list of one object, as the operator has the right to list targets already.
        one = {"fieldSelector": f"metadata.name={target.name}"}
        listed = await self._client.get(resource.path(state.namespace), _Templates, one)
        found = next((item.spec.template for item in listed.items if item.metadata.name == target.name), None)
        if found is None or not found.spec.containers:
            raise UnfitError(f"there are none: {resource.full_name} {target.name} has no template of its pods")
        if not takes_room(found.spec):
            raise UnfitError(
                "there are none: its pods request neither cpu nor memory, so that they need no room: state "
                "requests in their template"
            )
        kin = Kin(state.namespace, found.metadata.labels or {}, own)
        return placeholder_spec(found.spec, self._settings.image, self._settings.priority_class, kin)


def _is_decided(state: ObjectState) -> bool:
    """Whether this process has decided about an object whose target it could read, or saw to be gone."""
    latest = state.local.latest
    if latest is None:
        return False
    failure = latest.decision.failure
    return latest.decision.kind is not DecisionKind.UNREACHABLE or (failure is not None and failure.is_gone)

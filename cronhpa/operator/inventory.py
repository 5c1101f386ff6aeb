"""
The CronHPA objects as last seen, with what is remembered of each. kopf is hidden behind this file.

kopf logs in and watches; it gets `on.event` alone, so it writes nothing: no finalizer, no annotation. It is supervised:
when its watch fails for good, scaling goes on with what is known, and a new one is started. A list of our own, now and
again, finds what a broken watch has missed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import kopf
import msgspec
from kubernetes.client import Configuration

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.api.parse import SpecError, parse_spec
from cronhpa.api.status_memory import read_memory
from cronhpa.core.instant import parse_instant
from cronhpa.core.memory import Memory
from cronhpa.core.spec import ControllerOptions
from cronhpa.kube.client import UNREADABLE, Client, ClusterError, bearer_token, path_of
from cronhpa.operator.cooperative_yield import CooperativeYield
from cronhpa.operator.delaying_queue import Key
from cronhpa.operator.object_state import ObjectState, TargetKey

LOG = logging.getLogger(__name__)

_SWEEP_SECONDS = 300.0
# Of a text that anybody may have written a line of log is told.
_TOLD_MAX = 300
_RESTART_SECONDS = 5.0


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    name: str
    namespace: str
    uid: str
    creation_timestamp: str
    resource_version: str = "0"
    generation: int = 0


class _Listed(msgspec.Struct):
    items: list[dict[str, Any]]


class Inventory:
    """changed(key) is called for an object that came or whose spec changed, gone(state) for one that went."""

    def __init__(
        self, defaults: ControllerOptions, changed: Callable[[Key], None], gone: Callable[[ObjectState], None]
    ) -> None:
        self.items: dict[Key, ObjectState] = {}
        self.seen = asyncio.Event()
        self.restarts = 0
        # What the last sweep found: whether the objects can be listed, and whether the API knows no such kind.
        self._listable = asyncio.Event()
        self._unserved = asyncio.Event()
        self._sweep_soon = asyncio.Event()
        self._defaults = defaults
        self._changed = changed
        self._gone = gone
        self._by_namespace: dict[str, dict[Key, ObjectState]] = defaultdict(dict)
        self._by_target: dict[TargetKey, dict[Key, ObjectState]] = defaultdict(dict)
        self._yield = CooperativeYield()
        self._deleted: set[str] = set()
        self._list_versions: dict[str, int] = {}

    def __iter__(self) -> Iterator[ObjectState]:
        return iter(tuple(self.items.values()))

    def in_namespace(self, namespace: str) -> tuple[ObjectState, ...]:
        return tuple(self._by_namespace.get(namespace, {}).values())

    def on_target(self, target: TargetKey) -> tuple[ObjectState, ...]:
        """The objects whose target this is."""
        return tuple(self._by_target.get(target, {}).values())

    def put(self, body: Mapping[str, Any]) -> None:
        """
        Takes over an object as the API serves it, unless something newer of it is known.

        Raises ValueError, KeyError or TypeError for a body that is no object of the API.
        """
        meta = msgspec.convert(plain(body["metadata"]), _Meta)
        version = int(meta.resource_version) if meta.resource_version.isdecimal() else 0
        key = (meta.namespace, meta.name)
        state = self.items.get(key)
        if meta.uid in self._deleted or (state is not None and version < state.version):
            return
        if state is None or state.uid != meta.uid:
            if state is not None:
                self.drop(key)
            state = ObjectState(*key, meta.uid, parse_instant(meta.creation_timestamp))
            self.items[key] = self._by_namespace[meta.namespace][key] = state
        if version > state.version:
            # What the API holds is what the next patch is made against, whoever wrote it.
            status = body.get("status")
            state.status = plain(status) if isinstance(status, Mapping) else {}
            state.version = version
        if meta.generation == state.generation:
            return
        is_new = state.generation < 0
        state.generation = meta.generation
        before = state.target
        self._parse(state, body)
        if is_new:
            remembered = read_memory(state.status, self._defaults)
            state.memory = remembered.memory
            if remembered.problem is not None:
                LOG.warning(
                    "status.memory of %s/%s is damaged, and begun anew with the current count: %s",
                    *state.key,
                    repr(remembered.problem[:_TOLD_MAX])[1:-1],
                )
        self._index(state, before)
        if self._is_retargeted(state, before):
            # What is remembered is of the other target: seeded anew.
            state.memory = Memory()
        self._changed(key)

    def _parse(self, state: ObjectState, body: Mapping[str, Any]) -> None:
        """The spec, or what is wrong with it: whatever a user got past the API server stays that object's problem."""
        state.spec, state.problems = None, ()
        try:
            state.spec = parse_spec(plain(body.get("spec") or {}), state.namespace, self._defaults)
        except SpecError as error:
            state.problems = tuple(str(problem) for problem in error.problems)
        except Exception as error:
            LOG.exception("the spec of %s/%s cannot be read", *state.key)
            state.problems = (f"spec: {type(error).__name__}: {error}",)

    def _index(self, state: ObjectState, before: TargetKey | None) -> None:
        if before is not None and before != state.target:
            self._unindex(state.key, before)
        if state.target is not None:
            self._by_target[state.target][state.key] = state

    def _unindex(self, key: Key, target: TargetKey) -> None:
        self._by_target[target].pop(key, None)
        if not self._by_target[target]:
            del self._by_target[target]

    def _is_retargeted(self, state: ObjectState, before: TargetKey | None) -> bool:
        if state.spec is None:
            return False
        if before is None:  # it was edited while no operator ran, or while its spec could not be read
            told = f"{state.spec.target.kind}/{state.spec.target.name}"
            return bool(state.status.get("target", told) != told)
        return before != state.target

    def drop(self, key: Key, uid: str | None = None) -> None:
        """Forgets an object; the one with this uid, where one is named."""
        state = self.items.get(key)
        if state is None or (uid is not None and state.uid != uid):
            return
        del self.items[key]
        del self._by_namespace[state.namespace][key]
        if not self._by_namespace[state.namespace]:
            del self._by_namespace[state.namespace]
        if state.target is not None:
            self._unindex(key, state.target)
        self._gone(state)

    async def watch(self, configuration: Configuration, namespaces: tuple[str, ...]) -> None:
        """
        Watches until cancelled.

        kopf looks for the kind once, as it starts: begun without the CRD, it would watch nothing for ever. So it is
        begun when a list succeeded and the API tells of the kind, and ended when a list says that the kind is gone.
        """
        while True:
            await self._listable.wait()
            try:
                await self._watch_once(configuration, namespaces)
                LOG.warning("the watch of CronHPA objects ended; it is started again")
            except asyncio.CancelledError:
                raise
            except Exception:
                LOG.exception("the watch of CronHPA objects failed; scaling goes on, the watch is started again")
            self.restarts += 1
            # What is deleted until the next watch begins brings no event, and a kind that is gone no watch.
            self._listable.clear()
            self._sweep_soon.set()
            await asyncio.sleep(_RESTART_SECONDS)

    async def _watch_once(self, configuration: Configuration, namespaces: tuple[str, ...]) -> None:
        registry = kopf.OperatorRegistry()
        loop = asyncio.get_running_loop()

        @kopf.on.login(registry=registry)
        def login(**_: Any) -> kopf.ConnectionInfo:
            return connection(configuration)

        @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
        async def event(event: kopf.RawEvent, **_: Any) -> None:  # not async, kopf would pass it to a thread each time
            loop.call_soon_threadsafe(self._take, event["type"], event["object"])

        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.networking.error_backoffs = [1, 2, 3, 5, 8, *[10] * 500]
        settings.networking.request_timeout = 30
        stop = threading.Event()
        operator = kopf.operator(
            registry=registry,
            settings=settings,
            clusterwide=not namespaces,
            namespaces=namespaces,
            standalone=True,
            stop_flag=stop,
        )
        # In a thread of its own: its first list of many objects takes seconds of CPU that no decision waits for, and
        # only in the main thread does it take over the signals that end us.
        ended: asyncio.Future[None] = loop.create_future()

        async def watching() -> None:
            try:
                await operator
            finally:
                # kopf waits for the flag in a thread, and asyncio.run for that thread: else a failure never gets out.
                stop.set()

        def watch() -> None:
            error: BaseException | None = None
            try:
                asyncio.run(watching())
            except BaseException as caught:  # noqa: BLE001 - whatever ends it is told to the supervisor
                error = caught
            with suppress(RuntimeError):  # the loop may be gone by now
                loop.call_soon_threadsafe(_settle, ended, error)

        threading.Thread(target=watch, name="kopf", daemon=True).start()
        unserved = asyncio.ensure_future(self._unserved.wait())
        try:
            await asyncio.wait((ended, unserved), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                ended.result()
        finally:
            unserved.cancel()
            ended.cancel()
            stop.set()

    def _take(self, kind: str | None, body: Mapping[str, Any]) -> None:
        """One event. The type tells a deletion; all else, the first list with no type too, is the object as it is."""
        try:
            meta = body["metadata"]
            if kind == "DELETED":
                # A list that is under way may still hold it.
                self._deleted.add(meta["uid"])
                self.drop((meta["namespace"], meta["name"]), meta["uid"])
            else:
                self.put(body)
        except (KeyError, TypeError, ValueError):
            LOG.exception("an event of a CronHPA cannot be read and is skipped")

    async def sweep(self, client: Client, namespaces: tuple[str, ...]) -> None:
        """
        Lists the objects at once and then now and again, until cancelled.

        What was deleted while the watch was broken produces no event; and a first list of our own is there in
        milliseconds.
        """
        while True:
            failed = unserved = False
            for namespace in namespaces or ("",):
                try:
                    await self._sweep_once(client, namespace)
                except ClusterError as error:
                    failed = True
                    unserved |= error.status == HTTPStatus.NOT_FOUND
                    where = f"namespace {namespace}" if namespace else "all namespaces"
                    LOG.warning("list of the CronHPA objects of %s: %s", where, error.message)
                except Exception:
                    failed = True
                    LOG.exception("the list of CronHPA objects failed; it is tried again")
            # Where some namespaces cannot be read, the others are not kept waiting.
            if not failed or self.items:
                self.seen.set()
            served = not failed and (self._listable.is_set() or await _is_discovered(client))
            (self._listable.set if served else self._listable.clear)()
            (self._unserved.set if unserved else self._unserved.clear)()
            with suppress(TimeoutError):
                async with asyncio.timeout(_SWEEP_SECONDS if served else _RESTART_SECONDS):
                    await self._sweep_soon.wait()
            self._sweep_soon.clear()

    async def _sweep_once(self, client: Client, namespace: str) -> None:
        """One list of a namespace, or of all; drops what it does not hold any more."""
        known = {state.uid for state in (self.in_namespace(namespace) if namespace else self)}
        self._deleted.clear()
        seen: set[str] = set()
        scope = ("namespaces", namespace) if namespace else ()
        first = True
        async for page, version in client.pages(path_of("apis", GROUP, VERSION, *scope, PLURAL)):
            if first:
                self._note_list(namespace, int(version) if version.isdecimal() else 0)
                first = False
            try:
                bodies = msgspec.json.decode(page, type=_Listed).items
            except UNREADABLE as error:
                raise ClusterError(0, "Malformed", f"the list cannot be read: {error}") from error
            for body in bodies:
                await self._yield.take()
                try:
                    seen.add(body["metadata"]["uid"])
                    self.put(body)
                except (KeyError, TypeError, ValueError):
                    LOG.exception("a CronHPA of a list cannot be read and is skipped")
        for state in self.in_namespace(namespace) if namespace else self:
            if state.uid in known and state.uid not in seen:
                self.drop(state.key, state.uid)

    def _note_list(self, namespace: str, version: int) -> None:
        """A store that was restored from a backup has older versions than we know: they are the truth now."""
        if version < self._list_versions.get(namespace, 0):
            LOG.warning("the API's store went back to version %d: the objects are taken anew", version)
            for state in self.in_namespace(namespace) if namespace else self:
                state.version = -1
        self._list_versions[namespace] = version


class _Named(msgspec.Struct):
    name: str = ""


class _Groups(msgspec.Struct):
    groups: list[_Named] = []


class _Kinds(msgspec.Struct):
    resources: list[_Named] = []


async def _is_discovered(client: Client) -> bool:
    """Whether the API tells of the kind to who asks what it serves: seconds after it serves a new one."""
    try:
        groups = await client.get("/apis", _Groups)
        kinds = await client.get(path_of("apis", GROUP, VERSION), _Kinds)
    except ClusterError as error:
        LOG.warning("what the API serves cannot be read: %s", error.message)
        return False
    return any(one.name == GROUP for one in groups.groups) and any(one.name == PLURAL for one in kinds.resources)


def _settle(ended: asyncio.Future[None], error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(RuntimeError(f"kopf ended with {type(error).__name__}: {error}"))


def connection(configuration: Configuration) -> kopf.ConnectionInfo:
    """The credentials in kopf's terms, read anew at each login."""
    token = bearer_token(configuration)
    return kopf.ConnectionInfo(
        server=str(configuration.host),
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        scheme="Bearer" if token else None,
        token=token.removeprefix("Bearer ") if token else None,
    )


def plain(value: Any) -> Any:
    """kopf's read-only mappings as plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value

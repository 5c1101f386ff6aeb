"""
The CronHPA objects as last seen, with what is remembered of each. kopf is hidden behind this file.

kopf logs in and watches; it gets `on.event` alone, so it writes nothing: no finalizer, no annotation. It is supervised:
when its watch fails for good, scaling goes on with what is known, and a new one is started.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import kopf
import msgspec
from kubernetes.client import Configuration

from cronhpa.api.parse import SpecError, parse_memory, parse_spec
from cronhpa.api.render import Status
from cronhpa.core.instant import Nanoseconds, parse_instant
from cronhpa.core.memory import Memory
from cronhpa.core.spec import Spec, Tuning
from cronhpa.kube.client import Client, ClusterError, bearer_token
from cronhpa.operator.due import Key

LOG = logging.getLogger(__name__)

GROUP, VERSION, PLURAL = "cronhpa.io", "v1alpha1", "cronhpas"
_SWEEP_SECONDS = 300.0
_RESTART_SECONDS = 5.0


class Item:
    """One object. `status` is what the API is known to hold, `memory` what this process knows beyond it."""

    __slots__ = (
        "created",
        "generation",
        "memory",
        "name",
        "namespace",
        "next_edge",
        "problems",
        "resumed",
        "spec",
        "status",
        "uid",
        "written",
    )

    def __init__(self, namespace: str, name: str, uid: str, created: Nanoseconds, status: Status) -> None:
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.created = created
        self.generation = -1
        self.spec: Spec | None = None
        self.problems: tuple[str, ...] = ()
        self.status = status
        self.memory: Memory = parse_memory(status)
        self.resumed = False
        self.written: Nanoseconds = 0
        self.next_edge: Nanoseconds | None = None

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


class _Listed(msgspec.Struct):
    items: list[dict[str, Any]]


class Inventory:
    """changed(key) is called for an object that came or whose spec changed, gone(key) for one that went."""

    def __init__(self, defaults: Tuning, changed: Callable[[Key], None], gone: Callable[[Key], None]) -> None:
        self.items: dict[Key, Item] = {}
        self.seen = asyncio.Event()
        self.restarts = 0
        self._defaults = defaults
        self._changed = changed
        self._gone = gone

    def __iter__(self) -> Iterator[Item]:
        return iter(tuple(self.items.values()))

    def put(self, body: Mapping[str, Any]) -> None:
        """Takes over an object as the API serves it."""
        meta = body["metadata"]
        key = (meta["namespace"], meta["name"])
        item = self.items.get(key)
        if item is None or item.uid != meta["uid"]:
            created = parse_instant(meta["creationTimestamp"])
            item = Item(*key, meta["uid"], created, plain(body.get("status") or {}))
            self.items[key] = item
        generation = int(meta.get("generation", 0))
        if generation <= item.generation:
            return
        before = item.spec
        item.generation = generation
        try:
            item.spec, item.problems = parse_spec(plain(body.get("spec") or {}), item.namespace, self._defaults), ()
        except SpecError as error:
            item.spec, item.problems = None, tuple(str(problem) for problem in error.problems)
        if before is not None and item.spec is not None and before.target != item.spec.target:
            # What is remembered is of the other target: seeded anew.
            item.memory = Memory()
        self._changed(key)

    def drop(self, key: Key, uid: str | None = None) -> None:
        item = self.items.get(key)
        if item is not None and (uid is None or item.uid == uid):
            del self.items[key]
            self._gone(key)

    async def watch(self, configuration: Configuration, namespaces: tuple[str, ...]) -> None:
        """Watches until cancelled."""
        while True:
            try:
                await self._watch_once(configuration, namespaces)
                LOG.warning("the watch of CronHPA objects ended; it is started again")
            except asyncio.CancelledError:
                raise
            except Exception:
                LOG.exception("the watch of CronHPA objects failed; scaling goes on, the watch is started again")
            self.restarts += 1
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

        def watch() -> None:
            error: Exception | None = None
            try:
                asyncio.run(operator)
            except Exception as caught:  # noqa: BLE001 - whatever ends it is told to the supervisor
                error = caught
            with suppress(RuntimeError):  # the loop may be gone by now
                loop.call_soon_threadsafe(_settle, ended, error)

        threading.Thread(target=watch, name="kopf", daemon=True).start()
        try:
            await ended
        finally:
            stop.set()

    def _take(self, kind: str | None, body: Mapping[str, Any]) -> None:
        """One event. The type tells a deletion; all else, the first list with no type too, is the object as it is."""
        try:
            meta = body["metadata"]
            if kind == "DELETED":
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
            try:
                await self._sweep_once(client, namespaces)
                self.seen.set()
                await asyncio.sleep(_SWEEP_SECONDS)
            except ClusterError as error:
                LOG.warning("list of CronHPA objects: %s", error.message)
                await asyncio.sleep(_RESTART_SECONDS)

    async def _sweep_once(self, client: Client, namespaces: tuple[str, ...]) -> None:
        known = {item.uid for item in self}
        seen: set[str] = set()
        for namespace in namespaces or ("",):
            scope = f"namespaces/{namespace}/" if namespace else ""
            async for page, _ in client.pages(f"/apis/{GROUP}/{VERSION}/{scope}{PLURAL}"):
                try:
                    bodies = msgspec.json.decode(page, type=_Listed).items
                except msgspec.DecodeError as error:
                    raise ClusterError(0, "Malformed", f"the list cannot be read: {error}") from error
                for body in bodies:
                    seen.add(body["metadata"]["uid"])
                    self.put(body)
        for item in self:
            if item.uid in known and item.uid not in seen:
                self.drop(item.key, item.uid)


def _settle(ended: asyncio.Future[None], error: Exception | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


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
    """kopf's read-only views as plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value

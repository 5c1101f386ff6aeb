"""
The plant: a world of pods under loads (world.py), told through a real aggregated metrics.k8s.io API (metrics_api.py).

It watches the pods, closes a window every so often and publishes it some time later, as kubelet and metrics-server do.
Scaling therefore changes what is measured: a closed loop.

Beside it stand the custom and the external metrics API (values_api.py), each registered with the first value that a
test gives it, so that who needs neither does not wait for them.

The world and the APIs are two things: `stop_serving` takes the APIs away and the world goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
import traceback
from collections import deque
from typing import TYPE_CHECKING, Any, Self, TypeVar

import aiohttp
import msgspec
import trustme

from cronhpa.core.model.instant import SECOND, Nanoseconds
from testbed.client import Client, Expired, NotFound
from testbed.loads import Constant, Load
from testbed.metrics_api import GROUP, VERSION, Fault, MetricsApi
from testbed.values_api import CUSTOM, EXTERNAL, EXTERNAL_VERSION, Series, ValuesApi
from testbed.world import Sample, SeenPod, Target, World

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

__all__ = ["CUSTOM", "EXTERNAL", "RESOURCE", "Fault", "Plant", "PlantError", "Target"]

RESOURCE = GROUP
API_SERVICE = f"{VERSION}.{GROUP}"
OWNER = {"app.kubernetes.io/managed-by": "cronhpa-testbed"}
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_SERVICE = "cronhpa-plant"
_AVAILABLE_WITHIN_S = 30
_POLL_S = 0.05
_WATCH_AGAIN_S = 0.2
_CALL_S = 60
_T = TypeVar("_T")


class PlantError(Exception):
    """The plant cannot register, or its thread ended; the text says why."""


class Plant:
    """
    The world and its metrics API, in a thread of its own.

    kubeconfig: who may watch pods and register an APIService: admin_kubeconfig of a ControlPlane.
    window: what a sample averages, and the time between two. delay: how old a sample is when it is first answered.
    address, host: where the API listens, and the name by which the cluster's API server reaches it.
    custom_version: of custom.metrics.k8s.io; the other one is v1beta1.

    `with Plant(plane.admin_kubeconfig) as plant:` returns when the API server passes requests on to it, and removes
    what was registered at the end. Raises PlantError where somebody else answers for metrics.k8s.io already.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *,
        window: Nanoseconds = 15 * SECOND,
        delay: Nanoseconds = 10 * SECOND,
        address: str = "127.0.0.1",
        host: str = "localhost",
        namespace: str = "kube-system",
        custom_version: str = "v1beta2",
    ) -> None:
        self._kubeconfig, self._window, self._delay = kubeconfig, window, delay
        self._address, self._host, self._namespace = address, host, namespace
        self._world = World(time.time_ns())
        self._values = ValuesApi(self._world.pods_now, self._named_by_hpas)
        self._metrics = MetricsApi(self._values.routes())
        self._versions = {RESOURCE: VERSION, CUSTOM: custom_version, EXTERNAL: EXTERNAL_VERSION}
        self._registered = [RESOURCE]
        # Windows that are closed and not old enough to be answered: (when they are, samples), oldest first.
        self._pending: deque[tuple[Nanoseconds, list[Sample]]] = deque()
        self._client: Client | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="plant", daemon=True)
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: str | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._call(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def add_target(
        self,
        namespace: str,
        labels: Mapping[str, str],
        load: Load | float,
        *,
        resource: str = "cpu",
        container: str | None = None,
        limit: float | None = None,
    ) -> Target:
        """
        Put a load on the pods of a namespace that carry all of `labels`, from now on.

        load: cores, or bytes for resource="memory", of all pods together. container: None is the first of the pod.
        limit: the most that one pod can use; None is no limit.
        """
        if not labels:
            raise ValueError("labels: at least one is needed, a pod's targets are found by it")
        target = Target(namespace, dict(labels), _load(load), resource, container, limit)

        async def add() -> None:
            self._world.add(target, time.time_ns())

        self._call(add())
        return target

    def remove_target(self, target: Target) -> None:
        """Take a load away; its pods idle."""

        async def remove() -> None:
            self._world.remove(target)

        self._call(remove())

    def set_load(self, target: Target, load: Load | float) -> None:
        """Another load from this instant on: a step, a constant, a trace."""

        async def change() -> None:
            target.advance(time.time_ns())
            target.load = _load(load)

        self._call(change())

    def set_pods_metric(
        self,
        namespace: str,
        labels: Mapping[str, str],
        metric: str,
        load: Load | float | None,
        *,
        series: Mapping[str, str] | None = None,
    ) -> None:
        """
        What the ready pods with these labels share of a metric from now on: custom.metrics.k8s.io, `pods/*/metric`.

        series: labels of the series, for metric selectors. load: None takes the series away.
        """
        subject = tuple(sorted(labels.items()))
        self._set(CUSTOM, self._values.of_pods, Series(namespace, metric, subject, _ordered(series)), load)

    def set_object_metric(
        self,
        namespace: str,
        resource: str,
        name: str,
        metric: str,
        load: Load | float | None,
        *,
        series: Mapping[str, str] | None = None,
    ) -> None:
        """
        What a metric of an object is from now on: custom.metrics.k8s.io, `services/front/metric`.

        resource: "services", "ingresses.networking.k8s.io"; "namespaces", with the namespace as `name`, for itself.
        """
        series_key = Series(namespace, metric, (resource, name), _ordered(series))
        self._set(CUSTOM, self._values.of_objects, series_key, load)

    def set_external_metric(
        self, namespace: str, metric: str, load: Load | float | None, *, series: Mapping[str, str] | None = None
    ) -> None:
        """What an external metric is from now on; several series are several items of the answer."""
        self._set(EXTERNAL, self._values.external, Series(namespace, metric, None, _ordered(series)), load)

    def serve_only_for_hpas(self, namespace: str) -> None:
        """External metrics of a namespace are there only while an HPA names them, as some adapters have it."""

        async def change() -> None:
            self._values.only_for_hpas.add(namespace)

        self._call(change())

    async def _named_by_hpas(self, namespace: str) -> set[str]:
        assert self._client
        path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
        items = msgspec.json.decode(await self._client.request("GET", path))["items"]
        metrics = [metric for listed_item in items for metric in listed_item["spec"].get("metrics") or ()]
        return {metric["external"]["metric"]["name"] for metric in metrics if metric["type"] == "External"}

    def silence(self, namespace: str, names: Iterable[str]) -> None:
        """No API tells anything of these pods of a namespace from its next window on, and of all others again."""
        silent = {(namespace, name) for name in names}

        async def change() -> None:
            self._world.silent = {silenced for silenced in self._world.silent if silenced[0] != namespace} | silent

        self._call(change())

    def seen_pods(self) -> list[SeenPod]:
        """The pods as the API server told of them last."""

        async def look() -> list[SeenPod]:
            return [pod.seen for pod in self._world.pods.values()]

        return self._call(look())

    @property
    def targets(self) -> list[Target]:
        """Every load and, as `ready`, by how many pods it is shared now."""
        return self._world.targets

    @property
    def fault(self) -> Fault | None:
        """The wrong answer that is given; None: right ones. May be set at any time."""
        return self._metrics.fault

    @fault.setter
    def fault(self, fault: Fault | None) -> None:
        self._metrics.fault = fault

    @contextlib.contextmanager
    def failing(self, fault: Fault, api: str = RESOURCE) -> Iterator[None]:
        """Answer wrongly inside the block. api: RESOURCE, CUSTOM or EXTERNAL."""
        self.set_fault(fault, api)
        try:
            yield
        finally:
            self.set_fault(None, api)

    def set_fault(self, fault: Fault | None, api: str = RESOURCE, namespace: str = "") -> None:
        """The wrong answer of one of the APIs from now on, to all or about one namespace; None: right ones."""
        if api == RESOURCE and not namespace:
            self.fault = fault
            return
        faults: dict[Any, Fault] = self._metrics.faults_in if api == RESOURCE else self._values.faults
        key = namespace if api == RESOURCE else (api, namespace)
        if fault is None:
            faults.pop(key, None)
        else:
            faults[key] = fault

    def stop_serving(self) -> None:
        """The metrics APIs are gone, connections and all; they stay registered and the world goes on."""
        self._call(self._metrics.close())

    def start_serving(self) -> None:
        """The metrics APIs are back; returns when the API server passes requests on to them again."""
        self._call(self._serve())

    def reset(self) -> None:
        """No targets, no values, no fault, APIs that are there: what the next test may expect."""
        self.fault = None

        async def clear() -> None:
            self._values.clear()
            self._metrics.faults_in.clear()
            self._world.silent.clear()

        self._call(clear())
        for target in self.targets:
            self.remove_target(target)
        self.start_serving()

    def _set(self, api: str, values: dict[Series, Load], series: Series, load: Load | float | None) -> None:
        async def change() -> None:
            if load is None:
                values.pop(series, None)
                return
            values[series] = _load(load)
            if api not in self._registered:
                assert self._client
                await self._refuse_foreign(self._client, api)
                self._registered.append(api)
                await self._register(self._client, [api])
                await self._wait_until_available(self._client, api)

        self._call(change())

    def _call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        if self._failure:
            coroutine.close()
            raise PlantError(f"the plant's thread ended:\n{self._failure}")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_S)

    def _end(self) -> None:
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_CALL_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> None:
        self._client = Client(self._kubeconfig)
        await self._refuse_foreign(self._client, RESOURCE)
        listed = asyncio.Event()
        for work in (self._watch(self._client, listed), self._tick()):
            task = asyncio.ensure_future(work)
            task.add_done_callback(self._note_failure)
            self._tasks.append(task)
        await self._serve()
        await listed.wait()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client:
            # Where the API server is gone, so is what was registered.
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                if self._metrics.port:
                    await self._deregister(self._client)
            await self._client.close()
        await self._metrics.close()

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._failure = "".join(traceback.format_exception(error))

    async def _tick(self) -> None:
        """Close a window every `window` and publish it `delay` later."""
        closes = self._world.opened + self._window
        while True:
            due = min(closes, self._pending[0][0]) if self._pending else closes
            await asyncio.sleep(max(due - time.time_ns(), 0) / SECOND)
            now = time.time_ns()
            if now >= closes:
                self._pending.append((now + self._delay, self._world.close_window(now)))
                closes = max(closes + self._window, now)
            while self._pending and self._pending[0][0] <= now:
                _, samples = self._pending.popleft()
                self._metrics.publish(sample for sample in samples if sample.pod.uid in self._world.pods)

    async def _watch(self, client: Client, listed: asyncio.Event) -> None:
        while True:
            try:
                version = await self._list(client)
                listed.set()
                while True:
                    version = await self._follow(client, version)
            except (aiohttp.ClientError, TimeoutError, Expired):
                # A restarted API server, a version that is too old: list anew. What is missing then is forgotten.
                await asyncio.sleep(_WATCH_AGAIN_S)

    async def _list(self, client: Client) -> str:
        answer = _POD_LIST.decode(await client.request("GET", "/api/v1/pods"))
        for uid in self._world.pods.keys() - {pod.metadata.uid for pod in answer.items}:
            self._forget(uid)
        for pod in answer.items:
            self._world.observe(_seen(pod), time.time_ns())
        return answer.metadata.resource_version

    async def _follow(self, client: Client, version: str) -> str:
        """Watch from a version on until the API server ends the watch; the version that was reached."""
        async for line in client.watch("/api/v1/pods", version):
            event = _EVENT.decode(line)
            if event.type == "ERROR":
                raise Expired
            if event.type == "BOOKMARK":  # a version and no pod: its spec.containers is null
                version = _NEWS.decode(event.object).metadata.resource_version
                continue
            pod = _POD.decode(event.object)
            version = pod.metadata.resource_version
            if event.type == "DELETED":
                self._forget(pod.metadata.uid)
            else:
                self._world.observe(_seen(pod), time.time_ns())
        return version

    def _forget(self, uid: str) -> None:
        self._world.forget(uid, time.time_ns())
        self._metrics.drop(uid)

    async def _serve(self) -> None:
        assert self._client
        if not self._metrics.is_open:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            trustme.CA().issue_cert(self._host).configure_cert(tls)
            await self._metrics.open(self._address, tls)
            await self._register(self._client, self._registered)
            for api in self._registered:
                await self._wait_until_available(self._client, api)

    def _api_service(self, api: str) -> str:
        return f"{self._versions[api]}.{api}"

    async def _refuse_foreign(self, client: Client, api: str) -> None:
        name = self._api_service(api)
        with contextlib.suppress(NotFound):
            decoded = msgspec.json.decode(await client.request("GET", f"{_API_SERVICES}/{name}"))
            if OWNER.items() - decoded["metadata"].get("labels", {}).items():
                raise PlantError(
                    f"{name} is registered in this cluster already, and two cannot answer for one API: "
                    "use a cluster without metrics-server and without adapters"
                )

    async def _register(self, client: Client, apis: Iterable[str]) -> None:
        service = {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": _SERVICE, "namespace": self._namespace, "labels": OWNER},
            "spec": {
                "type": "ExternalName", "externalName": self._host, "ports": [{"port": self._metrics.port}],
            },
        }  # fmt: skip
        await client.apply(f"/api/v1/namespaces/{self._namespace}/services/{_SERVICE}", service)
        for api in apis:
            name = self._api_service(api)
            api_service = {
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {
                    "name": name, "labels": OWNER,
                    # The API server looks for an API every 30 s, and when its object changes, as by this.
                    "annotations": {"testbed.cronhpa.io/served-since": str(time.time_ns())},
                },
                "spec": {
                    "group": api, "version": self._versions[api], "groupPriorityMinimum": 100, "versionPriority": 100,
                    "insecureSkipTLSVerify": True,
                    "service": {"name": _SERVICE, "namespace": self._namespace, "port": self._metrics.port},
                },
            }  # fmt: skip
            await client.apply(f"{_API_SERVICES}/{name}", api_service)

    async def _wait_until_available(self, client: Client, api: str) -> None:
        deadline = time.monotonic() + _AVAILABLE_WITHIN_S
        answer = "no answer yet"
        while time.monotonic() < deadline:
            try:
                # The condition may still be that of before: only an answer through the API server proves it.
                await client.request("GET", f"/apis/{api}/{self._versions[api]}")
            except aiohttp.ClientError as error:
                answer = str(error)
            else:
                return
            await asyncio.sleep(_POLL_S)
        raise PlantError(f"{self._api_service(api)} was not available within {_AVAILABLE_WITHIN_S} s: {answer}")

    async def _deregister(self, client: Client) -> None:
        paths = [f"{_API_SERVICES}/{self._api_service(api)}" for api in self._registered]
        for path in (*paths, f"/api/v1/namespaces/{self._namespace}/services/{_SERVICE}"):
            with contextlib.suppress(NotFound):
                await client.request("DELETE", path)


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    uid: str = ""
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Container(msgspec.Struct):
    name: str


class _PodSpec(msgspec.Struct, frozen=True):
    containers: list[_Container] = []


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: list[_Condition] = []


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _PodList(msgspec.Struct):
    metadata: _Metadata
    items: list[_Pod]


class _News(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_POD = msgspec.json.Decoder(_Pod)
_NEWS = msgspec.json.Decoder(_News)
_POD_LIST = msgspec.json.Decoder(_PodList)
_EVENT = msgspec.json.Decoder(_Event)


def _seen(pod: _Pod) -> SeenPod:
    running = pod.status.phase == "Running"
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)
    return SeenPod(
        uid=pod.metadata.uid,
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        labels=pod.metadata.labels,
        containers=tuple(container.name for container in pod.spec.containers),
        running=running,
        # A pod that is being deleted is no endpoint of its service any more, ready or not.
        ready=running and ready and not pod.metadata.deletion_timestamp,
        ip=pod.status.pod_ip,
    )


def _load(load: Load | float) -> Load:
    return Constant(float(load)) if isinstance(load, int | float) else load


def _ordered(labels: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((labels or {}).items()))

"""
Real HTTP servers as pods: at the IP of each running pod, on loopback, a page with what the pod does now.

The pods are the plant's, so their IPs must be this machine's: ControlPlane(pod_network="127.64.0.0/10").
At 127.0.0.1 stands one page with the loads of all workloads, as an ingress tells them to a Prometheus.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from testbed.loads import Load
    from testbed.plant import Plant
    from testbed.world import SeenPod

METRIC = "http_requests_in_flight"
INGRESS_METRIC = "ingress_requests_in_flight"
_LOOK_S = 0.2
_INGRESS = "127.0.0.1"

Workload = tuple[str, str]


class PodPages:
    """
    `with PodPages(plant) as pages:` serves until the end of the block, in a thread of its own.

    loads: requests in flight by namespace and label app, shared alike by the ready pods. requests: answered so far.
    """

    def __init__(self, plant: Plant) -> None:
        self.loads: dict[Workload, Load] = {}
        self.requests = 0
        self._plant = plant
        with socket.create_server((_INGRESS, 0)) as free:
            self.port = free.getsockname()[1]
        self._pods: dict[str, SeenPod] = {}
        self._ready: Counter[Workload] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), name="pod pages")
        self._stop = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        servers = {_INGRESS: await self._open(_INGRESS, self._ingress_page)}
        while not self._stop.is_set():
            self._note(await asyncio.to_thread(self._plant.seen_pods))
            for ip in self._pods.keys() - servers.keys():
                servers[ip] = await self._open(ip, lambda ip=ip: self._page(ip))
            for ip in servers.keys() - self._pods.keys() - {_INGRESS}:
                servers.pop(ip).close()
            await asyncio.sleep(_LOOK_S)
        for server in servers.values():
            server.close()

    def _note(self, pods: Iterable[SeenPod]) -> None:
        self._pods = {pod.ip: pod for pod in pods if pod.ip and pod.running}
        self._ready = Counter(_workload(pod) for pod in self._pods.values() if pod.ready)

    async def _open(self, ip: str, page: Callable[[], str]) -> asyncio.Server:
        return await self._loop.create_server(lambda: _Answers(self, page), ip, self.port)

    def _page(self, ip: str) -> str:
        pod = self._pods.get(ip)
        load = None if pod is None else self.loads.get(_workload(pod))
        share = 0.0
        if pod is not None and load is not None and pod.ready:
            share = load.at(time.time_ns()) / max(self._ready[_workload(pod)], 1)
        return f"# TYPE {METRIC} gauge\n{METRIC} {share}\n"

    def _ingress_page(self) -> str:
        now = time.time_ns()
        lines = [
            f'{INGRESS_METRIC}{{namespace="{namespace}",deployment="{name}"}} {load.at(now)}'
            for (namespace, name), load in list(self.loads.items())
        ]
        return "\n".join([f"# TYPE {INGRESS_METRIC} gauge", *lines, ""])


def _workload(pod: SeenPod) -> Workload:
    return pod.namespace, pod.labels.get("app", "")


class _Answers(asyncio.Protocol):
    """Every request of a connection is answered with the page; aiohttp's server would take five times the CPU."""

    def __init__(self, pages: PodPages, page: Callable[[], str]) -> None:
        self._pages, self._page = pages, page
        self._transport: asyncio.Transport | None = None
        self._begun = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        *requests, self._begun = (self._begun + data).split(b"\r\n\r\n")
        for _ in requests:
            self._pages.requests += 1
            body = self._page().encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n\r\n"
            self._transport.write(head.encode() + body)

"""
metrics.k8s.io/v1beta1 as metrics-server answers it, and, where a test asks for it, as a broken one does.

Owns the wire format and the faults. What is answered comes from plant.py through `publish` and `drop`.
"""

from __future__ import annotations

import asyncio
import enum
import math
import re
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from cronhpa.core.model.instant import SECOND, format_instant
from testbed.selector import parse_selector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from ssl import SSLContext

    from testbed.world import Sample

GROUP, VERSION = "metrics.k8s.io", "v1beta1"


class Fault(enum.Enum):
    """A wrong answer to every request for pod metrics. Discovery stays right, so the API stays registered."""

    EMPTY = "no items"
    NAN = "NaN"
    INFINITE = "Inf"
    NEGATIVE = "-250m"
    GARBAGE = "12 apples"
    SERVER_ERROR = "HTTP 500"
    MALFORMED = "half a JSON document"
    HANGING = "no answer until the fault is lifted"
    FROZEN = "the last sample, older and older"


_QUANTITY_FAULTS = {Fault.NAN, Fault.INFINITE, Fault.NEGATIVE, Fault.GARBAGE}
_QUANTITY = re.compile(rb'(?<="cpu":)"[^"]*"|(?<="memory":)"[^"]*"|(?<="value":)"[^"]*"')
_POLL_S = 0.05


class MetricsApi:
    """
    The HTTPS server. Everything runs in one event loop.

    others: routes of the other metrics APIs, answered at the same port.
    """

    def __init__(self, others: Sequence[web.RouteDef] = ()) -> None:
        self._others = others
        self.fault: Fault | None = None
        self.faults_in: dict[str, Fault] = {}
        """Of single namespaces."""
        self.port = 0
        """Chosen at the first `open`, the same at each later one."""
        self._samples: dict[str, Sample] = {}
        self._items: dict[str, bytes] = {}
        self._bodies: dict[tuple[str | None, str], bytes] = {}
        self._runner: web.AppRunner | None = None

    @property
    def is_open(self) -> bool:
        return self._runner is not None

    async def open(self, address: str, tls: SSLContext) -> None:
        application = web.Application()
        base = f"/apis/{GROUP}/{VERSION}"
        application.add_routes(
            [
                web.get("/apis", constant(_GROUPS)),
                web.get(f"/apis/{GROUP}", constant(_GROUPS["groups"][0])),
                web.get(base, constant(_RESOURCES)),
                web.get(f"{base}/pods", self._answer_list),
                web.get(f"{base}/namespaces/{{namespace}}/pods", self._answer_list),
                web.get(f"{base}/namespaces/{{namespace}}/pods/{{name}}", self._answer_pod),
                *self._others,
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, address, self.port, ssl_context=tls, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening and cut the connections that are open."""
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    def publish(self, samples: Iterable[Sample]) -> None:
        """Answer with these from now on, and with no others."""
        if self.fault is not Fault.FROZEN:
            self._samples = {sample.pod.uid: sample for sample in samples}
            self._items = {uid: _item(sample) for uid, sample in self._samples.items()}
            self._bodies.clear()

    def drop(self, uid: str) -> None:
        """A pod is gone: metrics-server answers for the pods of its own watch only."""
        if self._samples.pop(uid, None):
            del self._items[uid]
            self._bodies.clear()

    async def _answer_list(self, request: web.Request) -> web.StreamResponse:
        namespace, selector = request.match_info.get("namespace"), request.query.get("labelSelector", "")
        return await self._answer(namespace, lambda: self._body(namespace, selector))

    async def _answer_pod(self, request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        pods = ((uid, sample.pod) for uid, sample in self._samples.items())
        uid = next((uid for uid, pod in pods if pod.name == name and pod.namespace == namespace), None)
        if uid is None:
            return status(404, "NotFound", f'podmetrics.metrics.k8s.io "{namespace}/{name}" not found')
        body = b'{"kind":"PodMetrics","apiVersion":"metrics.k8s.io/v1beta1",' + self._items[uid][1:]
        return await self._answer(namespace, lambda: body)

    async def _answer(self, namespace: str | None, right: Callable[[], bytes]) -> web.StreamResponse:
        return await answer(lambda: self.fault or self.faults_in.get(namespace or ""), right, _list([]))

    def _body(self, namespace: str | None, selector: str) -> bytes:
        """The list of a namespace, or of all; made once and kept until a pod goes or new samples come."""
        body = self._bodies.get((namespace, selector))
        if body is None:
            wanted = parse_selector(selector)
            body = self._bodies[namespace, selector] = _list(
                [
                    self._items[uid]
                    for uid, sample in self._samples.items()
                    if (namespace is None or sample.pod.namespace == namespace)
                    and all(requirement(sample.pod.labels) for requirement in wanted)
                ]
            )
        return body


_GROUP_VERSION = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
_GROUPS: dict[str, Any] = {
    "kind": "APIGroupList",
    "apiVersion": "v1",
    "groups": [
        {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": GROUP,
            "versions": [_GROUP_VERSION],
            "preferredVersion": _GROUP_VERSION,
        }
    ],
}
_RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    ],
}


async def answer(fault: Callable[[], Fault | None], right: Callable[[], bytes], empty: bytes) -> web.StreamResponse:
    """
    What `right` gives, or what the fault of this moment makes of it; FROZEN is the business of whoever has samples.

    A ValueError of `right` becomes a 400, a LookupError a 404.
    """
    while fault() is Fault.HANGING:  # noqa: ASYNC110 - tests set the fault from another thread
        await asyncio.sleep(_POLL_S)
    present = fault()
    if present is Fault.SERVER_ERROR:
        return status(500, "InternalError", "the plant was told to answer so")
    try:
        body = empty if present is Fault.EMPTY else right()
    except ValueError as error:
        return status(400, "BadRequest", str(error))
    except LookupError as error:
        return status(404, "NotFound", str(error.args[0]))
    if present is Fault.MALFORMED:
        body = body[: len(body) // 2]
    if present in _QUANTITY_FAULTS:
        body = _QUANTITY.sub(f'"{present.value}"'.encode(), body)
    return web.Response(body=body, content_type="application/json")


def constant(document: object) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    body = msgspec.json.encode(document)

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    return answer


def _list(items: list[bytes]) -> bytes:
    head = b'{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":['
    return head + b",".join(items) + b"]}"


def _item(sample: Sample) -> bytes:
    pod, stamp = sample.pod, format_instant(sample.instant)
    return msgspec.json.encode(
        {
            "metadata": {
                "name": pod.name, "namespace": pod.namespace, "creationTimestamp": stamp, "labels": pod.labels,
            },
            "timestamp": stamp,
            "window": f"{sample.window / SECOND:.3f}".rstrip("0").rstrip(".") + "s",
            "containers": [
                {"name": name, "usage": _quantities(usage)} for name, usage in sample.usage.items()
            ],
        }
    )  # fmt: skip


def _quantities(usage: Mapping[str, float]) -> dict[str, str]:
    """As metrics-server writes them: cpu in nanocores, memory in kibibytes."""
    return {"cpu": f"{round(usage['cpu'] * 1e9)}n", "memory": f"{math.ceil(usage['memory'] / 1024)}Ki"}


def status(code: int, reason: str, message: str) -> web.Response:
    document = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    }  # fmt: skip
    return web.Response(status=code, body=msgspec.json.encode(document), content_type="application/json")

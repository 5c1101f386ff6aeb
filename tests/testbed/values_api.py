"""
custom.metrics.k8s.io and external.metrics.k8s.io as adapters answer them, with the values that tests state.

Owns their wire format. A value is what its load is at the instant of the question: no window, no delay.
What is asked of them is what k8s.io/metrics asks: pkg/client/custom_metrics and pkg/client/external_metrics.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from cronhpa.core.model.instant import Nanoseconds, format_instant
from testbed.loads import Load
from testbed.metrics_api import Fault, answer
from testbed.selector import parse_selector
from testbed.world import PodNow

CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
EXTERNAL_VERSION = "v1beta1"

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Series:
    """
    One series of a metric.

    subject: what it is of: labels of pods; (resource, name) of an object; None for an external metric.
    labels: the series' own, which a metric selector chooses by.
    """

    namespace: str
    metric: str
    subject: tuple[tuple[str, str], ...] | tuple[str, str] | None
    labels: tuple[tuple[str, str], ...]

    def answers(self, namespace: str, metric: str, selector: str) -> bool:
        labels = dict(self.labels)
        wanted = parse_selector(selector)
        return (self.namespace, self.metric) == (namespace, metric) and all(matches(labels) for matches in wanted)


class ValuesApi:
    """
    Both APIs. pods: those that are there now.

    named_by_hpas: the external metrics that the HPAs of a namespace name now.

    A pods metric's load is shared by the ready pods; a running pod that is not ready has the value 0, as a program
    that nobody asks yet, and a pod that does not run has none.
    """

    def __init__(
        self,
        pods: Callable[[], Iterable[PodNow]],
        named_by_hpas: Callable[[str], Awaitable[AbstractSet[str]]],
    ) -> None:
        self.faults: dict[tuple[str, str], Fault] = {}
        """By API group and namespace; "" is all of them."""
        self.of_pods: dict[Series, Load] = {}
        self.of_objects: dict[Series, Load] = {}
        self.external: dict[Series, Load] = {}
        self.only_for_hpas: set[str] = set()
        """Namespaces whose external metrics are there only while an HPA names them, as kube-metrics-adapter does."""
        self._pods = pods
        self._named_by_hpas = named_by_hpas

    def clear(self) -> None:
        for values in (self.faults, self.of_pods, self.of_objects, self.external):
            values.clear()
        self.only_for_hpas.clear()

    def routes(self) -> list[web.RouteDef]:
        answers = []
        for version in CUSTOM_VERSIONS:
            base = f"/apis/{CUSTOM}/{version}"
            objects = f"{base}/namespaces/{{namespace}}"
            answers += [
                web.get(base, partial(self._list_resources, CUSTOM, version)),
                web.get(f"{objects}/pods/*/{{metric}}", partial(self._answer_pods, version)),
                # The client asks this for the kind Namespace: "metrics" stands where a resource would.
                web.get(f"{objects}/metrics/{{metric}}", partial(self._answer_object, version)),
                web.get(f"{objects}/{{resource}}/{{name}}/{{metric}}", partial(self._answer_object, version)),
            ]
        base = f"/apis/{EXTERNAL}/{EXTERNAL_VERSION}"
        answers.append(web.get(base, partial(self._list_resources, EXTERNAL, EXTERNAL_VERSION)))
        answers.append(web.get(f"{base}/namespaces/{{namespace}}/{{metric}}", self._answer_external))
        return answers

    def _fault(self, api: str, request: web.Request) -> Fault | None:
        return self.faults.get((api, "")) or self.faults.get((api, request.match_info["namespace"]))

    async def _list_resources(self, group: str, version: str, _request: web.Request) -> web.StreamResponse:
        if group == EXTERNAL:
            names, kind = {series.metric for series in self.external}, "ExternalMetricValueList"
        else:
            names, kind = {f"pods/{series.metric}" for series in self.of_pods}, "MetricValueList"
            names |= {f"{_object(series)[0]}/{series.metric}" for series in self.of_objects}
        resources = [
            {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
            for name in sorted(names)
        ]
        listed = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}"}
        return web.json_response(listed | {"resources": resources})

    async def _answer_pods(self, version: str, request: web.Request) -> web.StreamResponse:
        def right() -> bytes:
            namespace, metric, now = request.match_info["namespace"], request.match_info["metric"], time.time_ns()
            values: dict[str, tuple[PodNow, float]] = {}
            asked = parse_selector(request.query.get("labelSelector", ""))
            for series, load in _found(self.of_pods, request, "metricLabelSelector", f"{metric} for pods"):
                pods = [pod for pod in self._pods() if _is_of(pod, namespace, series)]
                ready = sum(pod.ready for pod in pods)
                for pod in pods:
                    if pod.running and all(matches(pod.seen.labels) for matches in asked):
                        _, other = values.get(pod.seen.uid, (pod, 0.0))
                        values[pod.seen.uid] = (pod, other + (load.at(now) / ready if pod.ready else 0.0))
            items = [
                _custom(version, metric, now, value, kind="Pod", name=pod.seen.name, namespace=namespace)
                for pod, value in values.values()
                if not pod.silent
            ]
            return _custom_list(version, items)

        return await answer(lambda: self._fault(CUSTOM, request), right, _custom_list(version, []))

    async def _answer_object(self, version: str, request: web.Request) -> web.StreamResponse:
        def right() -> bytes:
            namespace, metric, now = request.match_info["namespace"], request.match_info["metric"], time.time_ns()
            resource = request.match_info.get("resource", "namespaces")
            name = request.match_info.get("name", namespace)
            loads = {series: load for series, load in self.of_objects.items() if series.subject == (resource, name)}
            wanted = f"{metric} for {resource} {name}"
            items = [
                _custom(version, metric, now, load.at(now), kind=resource, name=name, namespace=namespace)
                for _, load in _found(loads, request, "metricLabelSelector", wanted)
            ]
            return _custom_list(version, items)

        return await answer(lambda: self._fault(CUSTOM, request), right, _custom_list(version, []))

    async def _answer_external(self, request: web.Request) -> web.StreamResponse:
        namespace = request.match_info["namespace"]
        named = await self._named_by_hpas(namespace) if namespace in self.only_for_hpas else None

        def right() -> bytes:
            metric, now = request.match_info["metric"], time.time_ns()
            if named is not None and metric not in named:
                raise LookupError(f"the server could not find the metric {metric}: no HPA names it")
            items = [
                {
                    "metricName": metric,
                    "metricLabels": dict(series.labels),
                    "timestamp": format_instant(now),
                    "value": _quantity(load.at(now)),
                }
                for series, load in _found(self.external, request, "labelSelector", metric)
            ]
            return _external_list(items)

        return await answer(lambda: self._fault(EXTERNAL, request), right, _external_list([]))


def _found(
    loads: Mapping[Series, Load], request: web.Request, selector: str, wanted: str
) -> Iterator[tuple[Series, Load]]:
    """The series that a request means. Raises LookupError where no series at all has the metric, as adapters do."""
    namespace, metric = request.match_info["namespace"], request.match_info["metric"]
    if not any(series.answers(namespace, metric, "") for series in loads):
        raise LookupError(f"the server could not find the metric {wanted}")
    text = request.query.get(selector, "")
    return ((series, load) for series, load in loads.items() if series.answers(namespace, metric, text))


def _is_of(pod: PodNow, namespace: str, series: Series) -> bool:
    assert series.subject is not None
    labels = pod.seen.labels
    labels_of_pods: Any = series.subject
    return pod.seen.namespace == namespace and all(labels.get(key) == value for key, value in labels_of_pods)


def _object(series: Series) -> tuple[str, str]:
    assert series.subject is not None
    resource, name = series.subject
    assert isinstance(resource, str)
    assert isinstance(name, str)
    return resource, name


def _quantity(value: float) -> str:
    return f"{round(value * 1000)}m"


def _custom(
    version: str, metric: str, now: Nanoseconds, value: float, *, kind: str, name: str, namespace: str
) -> dict[str, Any]:
    """v1beta1 names the metric in a text of its own and calls the window `window`; none is stated here."""
    metric_value = {
        "describedObject": {"kind": kind, "namespace": namespace, "name": name, "apiVersion": "/v1"},
        "timestamp": format_instant(now),
        "value": _quantity(value),
    }
    named = {"metricName": metric} if version == "v1beta1" else {"metric": {"name": metric}}
    return metric_value | named


def _custom_list(version: str, items: list[dict[str, Any]]) -> bytes:
    head = {"kind": "MetricValueList", "apiVersion": f"{CUSTOM}/{version}", "metadata": {}}
    return msgspec.json.encode(head | {"items": items})


def _external_list(items: list[dict[str, Any]]) -> bytes:
    head = {"kind": "ExternalMetricValueList", "apiVersion": f"{EXTERNAL}/{EXTERNAL_VERSION}", "metadata": {}}
    return msgspec.json.encode(head | {"items": items})

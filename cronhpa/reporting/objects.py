"""Kubernetes objects in, autoscalers out: what scales each target, what its pods request, how fast they start."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.api.explained.explanation import hidden_sources
from cronhpa.api.identity import GROUP, KIND
from cronhpa.api.parse import SpecError, parse_spec
from cronhpa.core.model.instant import Nanoseconds, parse_duration, parse_instant
from cronhpa.core.model.quantity import parse_milli
from cronhpa.core.model.spec import ControllerOptions, Spec
from cronhpa.core.schedules.calendar_days import without_calendars
from cronhpa.migration.convert import REFUSED, Document, convert
from cronhpa.migration.documents.document import Remark
from cronhpa.reporting.reported_target import LeftOut, StartUpPhases

Json = Mapping[str, Any]
TargetKey = tuple[str, str, str]
"""Namespace, kind and name of a target."""

_STARTS_MIN = 3
_PERCENTILE = 90
# A pod that became Ready an hour after its creation was repaired; it says nothing of a start.
_START_MAX: Nanoseconds = 3600 * 10**9
# As the kubelet tells it: `Successfully pulled image "shop:2" in 12.5s (13s including waiting).`
_PULL_TIME = re.compile(r'" in ([0-9][0-9.a-zµ]*)(?: \(([0-9][0-9.a-zµ]*) including)?')
_NO_PULL = "already present"


class Autoscaler(Struct, frozen=True):
    """An autoscaler, as the CronHPA that does the same."""

    label: str
    """Kind and name, such as ScaledObject/shop."""
    namespace: str
    name: str
    manifest: Json
    spec: Spec
    queries: Mapping[str, str] = {}
    """PromQL by metric, of triggers that state their own."""
    remarks: tuple[str, ...] = ()
    """What the CronHPA does not do as the autoscaler does."""

    @property
    def target(self) -> TargetKey:
        return self.namespace, self.spec.target.kind, self.spec.target.name


def autoscalers_of(documents: Sequence[Json], now: Nanoseconds) -> tuple[list[Autoscaler], list[LeftOut]]:
    """The autoscalers among the objects, by namespace and name, and those that have no CronHPA that does the same."""
    ours = [body for body in documents if _kind(body) == (GROUP, KIND)]
    others = [body for body in documents if _kind(body) != (GROUP, KIND)]
    # By its place: in two namespaces there may be two of one kind and name.
    conversion = convert([Document(str(place), body) for place, body in enumerate(others)], now=now)
    remarks: dict[str, list[Remark]] = {}
    for remark in conversion.remarks:
        remarks.setdefault(remark.source, []).append(remark)
    counts = Counter(source for source, _ in conversion.origins)
    queries = {
        name: str(definition["prometheus"]["query"]).replace("$$", "$")
        for name, definition in conversion.sources.items()
        if "query" in (definition.get("prometheus") or {})
    }
    found: list[Autoscaler] = []
    left_out: list[LeftOut] = []
    names: set[tuple[str, str]] = set()
    for manifest, (source, origin) in (
        *((body, ("", "")) for body in ours),
        *zip(conversion.manifests, conversion.origins, strict=True),
    ):
        namespace = manifest["metadata"].get("namespace") or "default"
        name = str(manifest["metadata"].get("name") or "?")
        label = origin or f"{KIND}/{name}"
        if counts[source] > 1:  # one object that scales several workloads
            ref = manifest["spec"]["scaleTargetRef"]
            label = f"{ref['kind']}/{ref['name']}"
        if (namespace, label) in names:
            left_out.append(LeftOut(f"{namespace}/{label}", "another one of its name is judged"))
            continue
        names.add((namespace, label))
        try:
            spec = parse_spec(manifest.get("spec") or {}, namespace, ControllerOptions())
        except SpecError as error:
            left_out.append(LeftOut(f"{namespace}/{label}", "; ".join(map(str, error.problems))))
            continue
        hidden = hidden_sources(spec, manifest.get("status"))
        told = [f"{remark.path}: {remark.finding}: {remark.meaning}" for remark in remarks.get(source, ())]
        replayed = without_calendars(spec)
        unreadable = [one for one in replayed.schedules if one.problem and not one.suspend]
        told += [f"its schedule {one.name} cannot be read: {one.problem}" for one in unreadable]
        if hidden:
            told.append(f"{hidden} are known to the operator alone: the replay is without them")
        found.append(Autoscaler(label, namespace, name, manifest, replayed, queries, tuple(told)))
    refused: dict[str, str] = {}
    for source, of_one in remarks.items():
        for remark in of_one:
            if source not in counts and remark.meaning.startswith(REFUSED):
                body = others[int(source)]
                label = f"{body['metadata'].get('namespace') or 'default'}/{body['kind']}/{body['metadata']['name']}"
                refused[label] = f"{remark.finding}: {remark.meaning.removeprefix(REFUSED)}"
    left_out += [LeftOut(label, why) for label, why in refused.items()]
    return sorted(map(partial(_beside, found), found), key=lambda one: (one.namespace, one.name)), left_out


def _beside(found: Sequence[Autoscaler], one: Autoscaler) -> Autoscaler:
    """The autoscaler, with a remark for each other one of its target."""
    others = [other.label for other in found if other is not one and other.target == one.target]
    return replace(one, remarks=(*one.remarks, *(f"{other} scales its target, too" for other in others)))


class PodRequests(Struct, frozen=True):
    """What a pod requests, milli-units by resource."""

    whole: Mapping[str, int] = {}
    """
    What the pod states as a whole, else the sum of its containers. Without the former, a resource that one container
    does not request is left out: a Utilization is then not known.
    """
    by_container: Mapping[str, Mapping[str, int]] = {}

    def measured(self, spec: Spec) -> dict[str, int]:
        """Of each resource, the requests of what a metric measures: one container, or the whole pod."""
        out = dict(self.whole)
        for metric in spec.metrics:
            name = getattr(metric, "name", "")
            container = spec.container_of(name)
            if container is not None:
                out.pop(name, None)
                own = self.by_container.get(container, {})
                out |= {name: own[name]} if name in own else {}
        return out


def requests_of(documents: Iterable[Json]) -> dict[TargetKey, PodRequests]:
    """What a pod of each workload requests: the mean of its pods, else its template."""
    templates: dict[TargetKey, PodRequests] = {}
    of_pods: dict[TargetKey, list[PodRequests]] = {}
    bodies = list(documents)
    owners = _owners(bodies)
    for body in bodies:
        if (body.get("spec") or {}).get("template"):
            templates[_key(body)] = _requests(body["spec"]["template"].get("spec") or {})
        elif body.get("kind") == "Pod" and (owner := _owner_of_pod(body, owners)) is not None:
            of_pods.setdefault(owner, []).append(_requests(body.get("spec") or {}))
    return {**templates, **{key: _mean(pods) for key, pods in of_pods.items()}}


def start_ups_of(documents: Iterable[Json]) -> dict[TargetKey, StartUpPhases]:
    """The start-up times of each workload, by three or more of its pods that are Ready and were not restarted."""
    bodies = list(documents)
    owners = _owners(bodies)
    pull_times = _pull_times(bodies)
    starts: dict[TargetKey, list[tuple[int, int, int]]] = {}
    pulls: dict[TargetKey, list[int]] = {}
    for body in bodies:
        if body.get("kind") == "Pod" and (owner := _owner_of_pod(body, owners)) is not None:
            phases = _phases(body)
            if phases is not None:
                starts.setdefault(owner, []).append(phases)
                if (key := _key(body)) in pull_times:
                    pulls.setdefault(owner, []).append(pull_times[key])
    return {
        key: _median_start(phases, pulls.get(key, ())) for key, phases in starts.items() if len(phases) >= _STARTS_MIN
    }


def _median_start(phases: Sequence[tuple[int, int, int]], pulls: Sequence[int]) -> StartUpPhases:
    scheduling, creating, becoming_ready = map(_median, zip(*phases, strict=True))
    return StartUpPhases(
        pods=len(phases),
        scheduling=scheduling,
        creating=creating,
        pulling=_median(pulls) if pulls else None,
        becoming_ready=becoming_ready,
        total=_percentile([sum(one) for one in phases]),
    )


def _median(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]


def _pull_times(bodies: Iterable[Json]) -> dict[TargetKey, Nanoseconds]:
    """How long each pod pulled its images, of all that have an event of it: containers pull one after the other."""
    times: dict[TargetKey, Nanoseconds] = {}
    for body in bodies:
        pod = body.get("involvedObject") or {}
        if body.get("kind") != "Event" or body.get("reason") != "Pulled" or pod.get("kind") != "Pod":
            continue
        message = str(body.get("message") or "")
        match = _PULL_TIME.search(message)
        if match is None and _NO_PULL not in message:
            continue
        try:
            length = 0 if match is None else parse_duration((match[2] or match[1]).rstrip("."))
        except ValueError:
            continue
        key = str(pod.get("namespace") or "default"), "Pod", str(pod.get("name"))
        times[key] = times.get(key, 0) + length
    return times


def _percentile(values: Sequence[int]) -> int:
    """The 90th percentile, an observed value."""
    return sorted(values)[-(-_PERCENTILE * len(values) // 100) - 1]


def _phases(pod: Json) -> tuple[int, int, int] | None:
    """Nanoseconds until scheduled, until its containers ran, and until Ready; None if the pod does not tell."""
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    if not containers or any(container.get("restartCount") for container in containers):
        return None
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    try:
        created = parse_instant(pod["metadata"]["creationTimestamp"])
        if conditions["Ready"]["status"] != "True":
            return None
        scheduled, ready = (parse_instant(conditions[kind]["lastTransitionTime"]) for kind in ("PodScheduled", "Ready"))
        running = max(parse_instant(container["state"]["running"]["startedAt"]) for container in containers)
    except (KeyError, TypeError, ValueError):
        return None
    in_order = created <= scheduled <= running <= ready <= created + _START_MAX
    return (scheduled - created, running - scheduled, ready - running) if in_order else None


def _mean(pods: Sequence[PodRequests]) -> PodRequests:
    """The mean requests of pods; a resource that one of them does not request is left out."""

    def mean(requests: Sequence[Mapping[str, int]]) -> dict[str, int]:
        shared = set.intersection(*(set(one) for one in requests))
        return {resource: sum(one[resource] for one in requests) // len(requests) for resource in shared}

    of_containers: dict[str, list[Mapping[str, int]]] = {}
    for pod in pods:
        for name, requests in pod.by_container.items():
            of_containers.setdefault(name, []).append(requests)
    return PodRequests(mean([pod.whole for pod in pods]), {name: mean(of_containers[name]) for name in of_containers})


def _requests(pod_spec: Json) -> PodRequests:
    """Of the containers, and of init containers that go on running."""
    sidecars = [one for one in pod_spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    containers = [*(pod_spec.get("containers") or ()), *sidecars]
    by_container = {str(one.get("name", "")): _stated_requests(one.get("resources") or {}) for one in containers}
    requests = list(by_container.values())
    named = {name for one in requests for name in one}
    resources = pod_spec.get("resources") or {}
    stated, of_pod = resources.get("requests") or {}, _stated_requests(resources)
    # Beside a request or a limit of the pod as a whole, no container needs one.
    shared = named if of_pod else {name for name in named if all(name in one for one in requests)}
    sums = {name: sum(one.get(name, 0) for one in requests) for name in shared}
    own = {name: of_pod[name] for name in of_pod if name in stated or name not in named}
    return PodRequests(sums | own, by_container)


def _stated_requests(resources: Json) -> dict[str, int]:
    # As the API server defaults them in a pod, but not in a template.
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    out: dict[str, int] = {}
    for resource, quantity in requests.items():
        try:
            out[resource] = parse_milli(str(quantity))
        except ValueError:
            continue
    return out


def _owners(bodies: Iterable[Json]) -> dict[tuple[str, str], TargetKey]:
    """The controller of each ReplicaSet, by namespace and name."""
    return {
        (_key(body)[0], _key(body)[2]): (_key(body)[0], owner["kind"], owner["name"])
        for body in bodies
        if body.get("kind") == "ReplicaSet" and (owner := _controller(body)) is not None
    }


def _owner_of_pod(pod: Json, owners: Mapping[tuple[str, str], TargetKey]) -> TargetKey | None:
    owner = _controller(pod)
    if owner is None:
        return None
    namespace = _key(pod)[0]
    if owner["kind"] != "ReplicaSet":
        return namespace, owner["kind"], owner["name"]
    if (namespace, owner["name"]) in owners:
        return owners[namespace, owner["name"]]
    # Without the ReplicaSet its name tells: the Deployment's, and the hash that the pod has as a label.
    hashed = (pod["metadata"].get("labels") or {}).get("pod-template-hash")
    if hashed and owner["name"].endswith(f"-{hashed}"):
        return namespace, "Deployment", owner["name"].removesuffix(f"-{hashed}")
    return namespace, "ReplicaSet", owner["name"]


def _controller(body: Json) -> Json | None:
    return next((one for one in body["metadata"].get("ownerReferences") or () if one.get("controller")), None)


def _key(body: Json) -> TargetKey:
    metadata = body.get("metadata") or {}
    return metadata.get("namespace") or "default", body.get("kind", ""), metadata.get("name", "")


def _kind(body: Json) -> tuple[str, str]:
    return str(body.get("apiVersion") or "").rpartition("/")[0], str(body.get("kind") or "")

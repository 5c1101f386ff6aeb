"""What the API server says of the twins at an instant, read from its own objects."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testbed.demo.twins import CRONHPA, TWINS, UPSTREAM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cronhpa.core.model.instant import Nanoseconds
    from testbed.demo.api import Api
    from testbed.demo.scenario import Scenario

LABELS = {UPSTREAM: "upstream HPA", CRONHPA: "CronHPA"}


@dataclass(frozen=True)
class Twin:
    """
    One Deployment. replicas: asked for; pods: that exist; ready: of those.

    carries: cores, of the ready pods at all of their request. generation: counts changes of the spec: scale writes.
    """

    replicas: int
    pods: int
    ready: int
    carries: float
    generation: int


@dataclass(frozen=True)
class Proposal:
    """What one source asks of the CronHPA's target, and why."""

    source: str
    role: str
    replicas: int
    reason: str


@dataclass(frozen=True)
class Verdict:
    """
    Who decided what on the CronHPA's side.

    abstentions: "source: why it says nothing". schedules: state by name.
    """

    decided_by: str = ""
    reason: str = ""
    desired: int = 0
    proposals: Sequence[Proposal] = ()
    abstentions: Sequence[str] = ()
    schedules: Mapping[str, str] | None = None

    @property
    def is_made(self) -> bool:
        """Whether the operator has taken a reconciliation: who holds for want of evidence has decided too."""
        return bool(self.proposals or self.abstentions)

    def proposal(self, source: str) -> Proposal | None:
        return next((candidate for candidate in self.proposals if candidate.source.startswith(source)), None)


@dataclass(frozen=True)
class Moment:
    """at: the instant; second: since the start; load: in cores, what both twins are asked for alike."""

    at: Nanoseconds
    second: float
    load: float
    twins: Mapping[str, Twin]
    upstream_says: str
    verdict: Verdict

    def is_short(self, name: str) -> bool:
        return self.load > self.twins[name].carries


def observe(api: Api, scenario: Scenario, namespace: str) -> Moment:
    """The present moment. Raises ApiError."""
    deployments = {
        listed_item["metadata"]["name"]: listed_item
        for listed_item in api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]
    }
    hpas = api.get(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers")["items"]
    ours = api.get(f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas")["items"]
    pods = api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    now = time.time_ns()
    return Moment(
        at=now,
        second=(now - scenario.start) / 10**9,
        load=scenario.load.at(now),
        twins={name: twin(deployments[name], pods, scenario.request) for name in TWINS},
        upstream_says=upstream_says(hpas[0].get("status", {})) if hpas else "",
        verdict=verdict(ours[0].get("status", {})) if ours else Verdict(),
    )


def twin(deployment: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], request: float) -> Twin:
    app = deployment["metadata"]["name"]
    own = [pod for pod in pods if pod["metadata"].get("labels", {}).get("app") == app]
    ready = sum(is_ready(pod) for pod in own)
    return Twin(
        replicas=deployment["spec"]["replicas"],
        pods=len(own),
        ready=ready,
        carries=ready * request,
        generation=deployment["metadata"]["generation"],
    )


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is an endpoint of its service: ready and not being deleted."""
    conditions = pod["status"].get("conditions", [])
    said = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return said and "deletionTimestamp" not in pod["metadata"]


def upstream_says(status: Mapping[str, Any]) -> str:
    """What the upstream HPA measured, or why it did not."""
    current = [
        current_metric.get("resource", {}).get("current", {}) for current_metric in status.get("currentMetrics") or ()
    ]
    for current_metric in current:
        if "averageUtilization" in current_metric:
            return f"cpu {current_metric['averageUtilization']} %"
    conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
    active = conditions.get("ScalingActive")
    return active["reason"] if active else ""


def verdict(status: Mapping[str, Any]) -> Verdict:
    decision = status.get("decision", {})
    return Verdict(
        decided_by=decision.get("decidedBy", ""),
        reason=decision.get("reason", ""),
        desired=status.get("desiredReplicas", 0),
        proposals=[
            Proposal(_source(proposal), proposal["role"], proposal["replicas"], proposal.get("reason", ""))
            for proposal in decision.get("proposals", ())
        ],
        abstentions=[
            f"{_source(abstention)}: {abstention['message']}" for abstention in decision.get("abstentions", ())
        ],
        schedules={schedule["name"]: schedule["state"] for schedule in status.get("schedules", ())},
    )


def _source(stated: Mapping[str, Any]) -> str:
    return f"{stated['source']}/{stated['name']}" if stated.get("name") else str(stated["source"])

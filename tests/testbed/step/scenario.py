"""The step, the four autoscalers that meet it, and the copies of each that meet it at other phases of their periods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cronhpa.core.model.instant import SECOND, Nanoseconds, to_datetime
from testbed.loads import Trace
from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.pod_pages import METRIC

NAMESPACE = "step"
PODS_BEFORE, PODS_AFTER = 2, 10
# At 80 % of a core a pod the load before needs 2 pods (1.5, rounded up), the load after 10.
CORES_BEFORE, CORES_AFTER = 1.2, 8.0
TARGET_PERCENT = 80
# A core is busy with ten requests: 12 in flight before, 80 after, 8 a pod.
IN_FLIGHT_A_CORE = 10
START_UP_SECONDS = 10
# The copies of an autoscaler have their steps one after the other, so that a period of 15 s is met at other phases.
PHASES_SECONDS = 15

UPSTREAM, SAME, SHORT, SCHEDULE = "hpa", "cronhpa", "short", "schedule"
LABELS = {
    UPSTREAM: "upstream HPA, CPU",
    SAME: "CronHPA, CPU",
    SHORT: "CronHPA, pods asked each second",
    SCHEDULE: "CronHPA, CPU and a schedule",
}


@dataclass(frozen=True)
class Copy:
    """One Deployment and its autoscaler. step: when its load rises."""

    autoscaler: str
    number: int
    step: Nanoseconds

    @property
    def name(self) -> str:
        return f"{self.autoscaler}-{self.number}"

    @property
    def cores(self) -> Trace:
        return Trace((self.step - 1, self.step), (CORES_BEFORE, CORES_AFTER))

    @property
    def in_flight(self) -> Trace:
        return Trace(self.cores.instants, [value * IN_FLIGHT_A_CORE for value in self.cores.values])

    @property
    def deployment(self) -> dict[str, Any]:
        return deployment(
            self.name, namespace=NAMESPACE, replicas=PODS_BEFORE, cpu="1", start_up_time=f"{START_UP_SECONDS}s"
        )

    def document(self, edge: Nanoseconds) -> dict[str, Any]:
        """The autoscaler. edge: the whole minute at which the schedule opens."""
        hpa = horizontal_pod_autoscaler(
            self.name, namespace=NAMESPACE, cpu_percent=TARGET_PERCENT, bounds=(PODS_BEFORE, PODS_AFTER)
        )
        if self.autoscaler == UPSTREAM:
            return hpa
        spec = dict(hpa["spec"])
        if self.autoscaler == SHORT:
            target = {"type": "AverageValue", "averageValue": str(IN_FLIGHT_A_CORE * TARGET_PERCENT // 100)}
            spec["metrics"] = [{"type": "Pods", "pods": {"metric": {"name": "inflight"}, "target": target}}]
            spec["syncPeriodSeconds"] = 1
        if self.autoscaler == SCHEDULE:
            at = to_datetime(edge)
            window = {"start": f"{at.minute} {at.hour} * * *", "durationMinutes": 30, "minReplicas": PODS_AFTER}
            spec["schedules"] = [{"name": "step", **window}]
        return {
            "apiVersion": "cronhpa.io/v1alpha1",
            "kind": "CronHPA",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": spec,
        }


def copies(edge: Nanoseconds, count: int) -> list[Copy]:
    """So many of each autoscaler. Their steps are spread over the 15 s that follow the edge."""
    return [
        Copy(autoscaler, number, edge + number * PHASES_SECONDS * SECOND // count)
        for autoscaler in LABELS
        for number in range(count)
    ]


def sources(port: int) -> dict[str, Any]:
    pods = {"port": port, "metric": METRIC, "podNetworks": ["127.64.0.0/10"]}
    return {"sources": {"inflight": {"pods": pods}}}

"""A target with its CronHPA, as tests make them: what it is told, and what the API says of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from cronhpa.core.model.instant import Nanoseconds, parse_instant
from testbed.control_plane import ControlPlane
from testbed.objects import deployment
from testbed.wait import wait_until

CPU_50 = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


def cron_hpa(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """
    A quick CronHPA for the Deployment of its name: 50 % of CPU, 1 to 20 replicas, a reconciliation a second, stable
    after 3 s.

    spec: fields that are added or replaced; None leaves one out.
    """
    fields = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": 1,
        "maxReplicas": 20,
        "metrics": [CPU_50],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 3}},
        "syncPeriodSeconds": 1,
        "cpuInitializationPeriodSeconds": 0,
        "initialReadinessDelaySeconds": 0,
    } | spec
    return {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "CronHPA",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }


class Scaled:
    """`Scaled(plane, namespace, "web", replicas=2, schedules=[...])` makes a Deployment and its CronHPA."""

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        name: str = "web",
        *,
        replicas: int = 1,
        start_up_time: str = "1s",
        **spec: Any,
    ) -> None:
        self._plane = plane
        self.namespace, self.name = namespace, name
        self.load: Any = None
        """What `Plant.add_target` gave for it."""
        self._replicas, self._start_up_time = replicas, start_up_time
        self.create_target()
        plane.apply(cron_hpa(name, namespace, **spec))

    @property
    def labels(self) -> dict[str, str]:
        return {"app": self.name}

    def create_target(self) -> None:
        # Created with a count, and applied without one later: whoever scales owns it.
        made = deployment(
            self.name, namespace=self.namespace, replicas=self._replicas, start_up_time=self._start_up_time
        )
        self._plane.create(f"/apis/apps/v1/namespaces/{self.namespace}/deployments", [made])

    def delete_target(self) -> None:
        self._plane.kubectl("delete", "deployment", self.name, "-n", self.namespace)

    def patch(self, **spec: Any) -> None:
        """Changes fields of the CronHPA's spec; None removes one."""
        self._plane.kubectl(
            "patch", "chpa", self.name, "-n", self.namespace, "--type=merge", "-p", json.dumps({"spec": spec})
        )

    def scale_by_hand(self, replicas: int) -> None:
        self._plane.kubectl("scale", "deployment", self.name, "-n", self.namespace, f"--replicas={replicas}")

    @property
    def replicas(self) -> int:
        return self._target["spec"].get("replicas", 1)

    @property
    def ready(self) -> int:
        return self._target["status"].get("readyReplicas", 0)

    @property
    def _target(self) -> Any:
        return self._plane.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.name}")

    @property
    def status(self) -> dict[str, Any]:
        path = f"/apis/cronhpa.io/v1alpha1/namespaces/{self.namespace}/cronhpas/{self.name}"
        return self._plane.get(path).get("status") or {}

    @property
    def decided_by(self) -> str | None:
        return self.status.get("decision", {}).get("decidedBy")

    @property
    def last_scaled(self) -> Nanoseconds:
        """0 before the first time is in the status, which is written after the scale."""
        text = self.status.get("lastScaleTime")
        return parse_instant(text) if text else 0

    def condition(self, kind: str) -> Mapping[str, str]:
        stated = [
            stated_condition
            for stated_condition in self.status.get("conditions", ())
            if stated_condition["type"] == kind
        ]
        return stated[0] if stated else {}

    def events(self) -> list[str]:
        """Reasons and messages of its events."""
        listed = self._plane.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]
        own = [event for event in listed if event["involvedObject"].get("name") == self.name]
        return [
            f"{event['reason']}: {event['message']}" for event in own if event["involvedObject"]["kind"] == "CronHPA"
        ]

    def reaches(self, replicas: int, *, within_s: float = 20) -> None:
        """Waits until the target is told to have this many replicas."""
        wait_until(lambda: self.replicas, lambda seen: seen == replicas, within_s=within_s)

    def settles(self, replicas: int, *, for_s: float = 5, within_s: float = 60) -> None:
        """
        Waits until the target has kept this many replicas for so long: a first sample may cover a time before the load.
        """
        kept_since = time.monotonic()

        def kept_s(seen: int) -> float:
            nonlocal kept_since
            if seen != replicas:
                kept_since = time.monotonic()
            return time.monotonic() - kept_since

        wait_until(lambda: self.replicas, lambda seen: kept_s(seen) >= for_s, within_s=within_s)

    def says(self, kind: str, status: str, reason: str, *, within_s: float = 20) -> str:
        """Waits until a condition has a status and a reason; its message."""
        by_kind = wait_until(
            lambda: self.condition(kind),
            lambda seen: (seen.get("status"), seen.get("reason")) == (status, reason),
            within_s=within_s,
        )
        return by_kind["message"]


class Changes:
    """The counts of a target in a thread of its own: `seen` has (second, count) of each change."""

    def __init__(self, target: Scaled) -> None:
        self.seen = [(time.monotonic(), target.replicas)]
        self._target, self._over = target, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def most_lost_within(self, seconds: float) -> int:
        """How many pods went at most within so many seconds of one another."""
        return max(
            count - min(later for then, later in self.seen if at <= then < at + seconds) for at, count in self.seen
        )

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            now = self._target.replicas
            if now != self.seen[-1][1]:
                self.seen.append((time.monotonic(), now))

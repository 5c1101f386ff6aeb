"""
The products that are measured, behind one face: how each is installed, started and killed, and what its objects are.

KEDA runs as its own manifests start it (config/manager, config/metrics-server), with its own rights, but: certificates
are made beforehand, and its operator may send 200 requests a second instead of 20, so that 500 objects are set up in
half a minute. A restarted one has its default again.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import trustme
import yaml

from testbed import build
from testbed.control_plane import ControlPlane, die_with
from testbed.objects import horizontal_pod_autoscaler, plain_cron_hpa
from testbed.operator import NAMESPACE as SYSTEM
from testbed.operator import SERVICE_ACCOUNT, Operator
from testbed.twin import CPU_50
from testbed.wait import wait_until

PODS, PODS_UP, PODS_MAX = 2, 4, 10
HPA = "horizontal-pod-autoscaler"
_NUMBER_TARGET = "10"
_KEDA_REQUESTS = 200
_AVAILABLE_WITHIN_S = 90


class Missing(Exception):  # noqa: N818 - what could not be measured is a result, too
    """A product or a scenario could not be measured; the text says why."""


class SharedWindow(NamedTuple):
    """start, end: seconds since 1970, whole minutes of the same hour or the next."""

    start: float
    end: float

    @property
    def crons(self) -> tuple[str, str]:
        if self == FAR:
            return "0 3 1 1 *", "0 4 1 1 *"
        start, end = (time.gmtime(at).tm_min for at in self)
        return f"{start} * * * *", f"{end} * * * *"


FAR = SharedWindow(0, 0)
"""A window that opens on New Year's Day."""


@dataclass(frozen=True)
class Servers:
    """Where the numbers come from."""

    number: str
    """URL; `?of=NAME` answers {"value": 5}."""
    prometheus: str


class Product(ABC):
    """A product on a control plane."""

    name: str
    users: tuple[str, ...]
    """As whom it asks the API server."""
    collection: str
    """The path of its objects, with {} for the namespace."""
    groups: tuple[str, ...]
    """The groups of objects whose load steps."""

    def __init__(self, plane: ControlPlane, folder: Path, servers: Servers) -> None:
        self.plane, self.folder, self.servers = plane, folder, servers
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def start(self, replicas: int = 1) -> None:
        """Returns when it can decide. Raises Missing."""

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL to all processes of its leader."""

    @abstractmethod
    def restart(self) -> None:
        """Starts again what `kill` ended; does not wait for it."""

    @property
    @abstractmethod
    def pids(self) -> dict[str, int]: ...

    @abstractmethod
    def scaled(self, namespace: str, name: str, window: SharedWindow) -> dict[str, Any]:
        """An object by CPU with a window."""

    @abstractmethod
    def stepped(self, namespace: str, name: str, group: str) -> dict[str, Any]:
        """An object of a group whose load steps."""

    def create(self, objects: Sequence[Mapping[str, Any]]) -> None:
        for namespace in dict.fromkeys(one["metadata"]["namespace"] for one in objects):
            mine = [one for one in objects if one["metadata"]["namespace"] == namespace]
            self.plane.create(self.collection.format(f"namespaces/{namespace}/"), mine)

    def decided(self, prefix: str) -> int:
        """How many objects of namespaces with this prefix decided to stay at the pods that there are."""
        return _steady(self.plane.get(self.collection.format(""))["items"], prefix)

    def delete(self, namespaces: Sequence[str]) -> None:
        for namespace in namespaces:
            self.plane.kubectl("delete", "--raw", self.collection.format(f"namespaces/{namespace}/"))


def _steady(items: Sequence[Mapping[str, Any]], prefix: str) -> int:
    return sum(
        status.get("currentReplicas") is not None
        and status.get("currentReplicas") == status.get("desiredReplicas")
        and any(one["type"] == "ScalingActive" and one["status"] == "True" for one in status.get("conditions", ()))
        for item in items
        if item["metadata"]["namespace"].startswith(prefix) and (status := item.get("status", {})) is not None
    )


class Upstream(Product):
    """The HPA controller of Kubernetes: a kube-controller-manager with nothing else."""

    name = "HPA"
    users = (f"system:{HPA}",)
    collection = "/apis/autoscaling/v2/{}horizontalpodautoscalers"
    groups = ("cpu",)

    def start(self, replicas: int = 1) -> None:
        """It runs with the control plane."""

    def stop(self) -> None:
        pass

    def kill(self) -> None:
        raise Missing("an HPA has no schedules")

    restart = kill

    @property
    def pids(self) -> dict[str, int]:
        return {"HPA controller": self.plane.pids[HPA]}

    def scaled(self, namespace: str, name: str, window: SharedWindow) -> dict[str, Any]:
        if window != FAR:
            raise Missing("an HPA has no schedules")
        return horizontal_pod_autoscaler(name, namespace=namespace, bounds=(PODS, PODS_MAX), metrics=[CPU_50])

    def stepped(self, namespace: str, name: str, group: str) -> dict[str, Any]:
        assert group in self.groups
        return horizontal_pod_autoscaler(name, namespace=namespace, bounds=(1, PODS_MAX), metrics=[CPU_50])


class CronHpaProduct(Product):
    name = "cronhpa"
    users = (f"system:serviceaccount:{SYSTEM}:{SERVICE_ACCOUNT}",)
    collection = "/apis/cronhpa.io/v1alpha1/{}cronhpas"
    groups = ("cpu", "number", "number-fast", "prometheus")

    def __init__(self, plane: ControlPlane, folder: Path, servers: Servers) -> None:
        super().__init__(plane, folder, servers)
        plane.install_chart()
        self._sources = folder / "sources.yaml"
        joined = {"namespace": "namespace", "target": "deployment"}
        number = {"url": {"url": f"{servers.number}/?of=$target", "value": "value"}}
        series = {"prometheus": {"url": servers.prometheus, "query": "number", "join": joined}}
        self._sources.write_text(yaml.safe_dump({"sources": {"numbers": number, "series": series}}))
        self._operators: list[Operator] = []
        self._killed: Operator | None = None

    def start(self, replicas: int = 1) -> None:
        kubeconfig = self.plane.service_account_kubeconfig(SYSTEM, SERVICE_ACCOUNT)
        self._operators = []
        for number in range(replicas):
            folder = self.folder / f"replica-{number}-of-{replicas}"
            folder.mkdir(exist_ok=True)
            identity = f"replica-{number}"
            operator = Operator(kubeconfig, folder, sources=str(self._sources), leader_elect_identity=identity)
            operator.start()
            self._operators.append(operator)

    def stop(self) -> None:
        for operator in self._operators:
            operator.__exit__(None, None, None)
        self._operators = []

    def kill(self) -> None:
        lease = self.plane.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/cronhpa")
        leader = int(lease["spec"]["holderIdentity"].removeprefix("replica-"))
        self._killed = self._operators[leader]
        self._killed.kill()

    def restart(self) -> None:
        assert self._killed is not None
        self._killed.start()

    @property
    def pids(self) -> dict[str, int]:
        return {
            f"operator{f' {number}' if number else ''}": operator.pid for number, operator in enumerate(self._operators)
        }

    def scaled(self, namespace: str, name: str, window: SharedWindow) -> dict[str, Any]:
        start, end = window.crons
        schedule = {"name": "window", "start": start, "end": end, "minReplicas": PODS_UP}
        bounds = PODS, PODS_MAX
        return plain_cron_hpa(name, namespace=namespace, bounds=bounds, metrics=[CPU_50], schedules=[schedule])

    def stepped(self, namespace: str, name: str, group: str) -> dict[str, Any]:
        if group == "cpu":
            return plain_cron_hpa(name, namespace=namespace, bounds=(1, PODS_MAX), metrics=[CPU_50])
        source = "series" if group == "prometheus" else "numbers"
        target = {"type": "AverageValue", "averageValue": _NUMBER_TARGET}
        metric = {"type": "External", "external": {"metric": {"name": source}, "target": target}}
        fast = {"syncPeriodSeconds": 1} if group == "number-fast" else {}
        return plain_cron_hpa(name, namespace=namespace, bounds=(1, PODS_MAX), metrics=[metric], **fast)


class Keda(Product):
    name = "KEDA"
    users = ("system:serviceaccount:keda:keda-operator", f"system:{HPA}")
    collection = "/apis/keda.sh/v1alpha1/{}scaledobjects"
    groups = ("cpu", "number", "number-fast", "prometheus")

    def __init__(self, plane: ControlPlane, folder: Path, servers: Servers) -> None:
        super().__init__(plane, folder, servers)
        self._programs = build.keda()
        manifests = self._programs / "config"
        plane.install_crds(manifests / "crd" / "bases")
        account = {"name": "keda-operator", "namespace": "keda"}
        plane.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "keda"}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        )
        for part in ("rbac/role", "rbac/role_binding", "metrics-server/role", "metrics-server/role_binding"):
            plane.apply(*filter(None, yaml.safe_load_all((manifests / f"{part}.yaml").read_text())))
        self._kubeconfig = plane.service_account_kubeconfig("keda", "keda-operator")
        self._certificates = folder / "certificates"
        self._certificates.mkdir()
        authority = trustme.CA(organization_name="keda")
        leaf = authority.issue_cert("localhost", "127.0.0.1")
        authority.cert_pem.write_to_path(str(self._certificates / "ca.crt"))
        leaf.cert_chain_pems[0].write_to_path(str(self._certificates / "tls.crt"))
        leaf.private_key_pem.write_to_path(str(self._certificates / "tls.key"))
        self._commands: dict[str, list[str]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, replicas: int = 1) -> None:
        if replicas > 1:
            raise Missing("two replicas of KEDA's operator need a Service in front of them, which has no proxy here")
        metrics, probe, grpc, adapter_metrics, secure = _free_ports(5)
        certificates = self._certificates
        self._commands = {
            "operator": [
                "--leader-elect", "--zap-log-level=info", "--zap-encoder=console", "--zap-time-encoding=rfc3339",
                f"--cert-dir={certificates}", f"--metrics-bind-address=127.0.0.1:{metrics}",
                f"--health-probe-bind-address=127.0.0.1:{probe}",
                f"--metrics-service-bind-address=127.0.0.1:{grpc}",
            ],
            "adapter": [
                f"--secure-port={secure}", "--bind-address=127.0.0.1", "--zap-log-level=error",
                f"--port={adapter_metrics}", f"--cert-dir={certificates}", f"--client-ca-file={certificates}/ca.crt",
                f"--tls-cert-file={certificates}/tls.crt", f"--tls-private-key-file={certificates}/tls.key",
                f"--metrics-service-address=127.0.0.1:{grpc}", f"--lister-kubeconfig={self._kubeconfig}",
                f"--authentication-kubeconfig={self._kubeconfig}", f"--authorization-kubeconfig={self._kubeconfig}",
            ],
        }  # fmt: skip
        qps = (f"--kube-api-qps={_KEDA_REQUESTS}", f"--kube-api-burst={_KEDA_REQUESTS * 3 // 2}")
        self._run("operator", *qps)
        self._run("adapter")
        self._register(secure)
        try:
            wait_until(self._is_available, within_s=_AVAILABLE_WITHIN_S, every_s=1)
        except AssertionError:
            raise Missing(f"KEDA is not available after {_AVAILABLE_WITHIN_S} s:\n{self._tails()}") from None

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes = {}
        self.plane.kubectl("delete", "apiservice", "v1beta1.external.metrics.k8s.io", "--ignore-not-found")

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def restart(self) -> None:
        for program in ("operator", "adapter"):
            self._run(program)

    @property
    def pids(self) -> dict[str, int]:
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        if ended:
            raise Missing(f"KEDA's {' and '.join(ended)} ended:\n{self._tails()}")
        own = {f"KEDA {name}": process.pid for name, process in self._processes.items()}
        return own | {"HPA controller": self.plane.pids[HPA]}

    def scaled(self, namespace: str, name: str, window: SharedWindow) -> dict[str, Any]:
        cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
        start, end = window.crons
        stated = {"timezone": "UTC", "start": start, "end": end, "desiredReplicas": str(PODS_UP)}
        return self._object(namespace, name, PODS, [cpu, {"type": "cron", "metadata": stated}])

    def stepped(self, namespace: str, name: str, group: str) -> dict[str, Any]:
        if group == "cpu":
            cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
            return self._object(namespace, name, 1, [cpu])
        if group == "prometheus":
            query = f'number{{deployment="{name}"}}'
            stated = {"serverAddress": self.servers.prometheus, "query": query, "threshold": _NUMBER_TARGET}
            return self._object(namespace, name, 1, [{"type": "prometheus", "metadata": stated}])
        url = f"{self.servers.number}/?of={name}"
        stated = {"url": url, "valueLocation": "value", "targetValue": _NUMBER_TARGET}
        fast = {"pollingInterval": 1} if group == "number-fast" else {}
        return self._object(namespace, name, 1, [{"type": "metrics-api", "metadata": stated}], **fast)

    def decided(self, prefix: str) -> int:
        return _steady(self.plane.get(Upstream.collection.format(""))["items"], prefix)

    def delete(self, namespaces: Sequence[str]) -> None:
        super().delete(namespaces)
        hpas = Upstream.collection.format("")
        wait_until(
            lambda: not any(one["metadata"]["namespace"] in namespaces for one in self.plane.get(hpas)["items"]),
            within_s=300,
            every_s=1,
        )

    def _object(
        self, namespace: str, name: str, minimum: int, triggers: Sequence[Mapping[str, Any]], **spec: Any
    ) -> dict[str, Any]:
        return {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "scaleTargetRef": {"name": name},
                "minReplicaCount": minimum,
                "maxReplicaCount": PODS_MAX,
                "triggers": list(triggers),
            }
            | spec,
        }

    def _run(self, program: str, *flags: str) -> None:
        environment = {
            "KUBECONFIG": str(self._kubeconfig),
            "POD_NAMESPACE": "keda",
            "WATCH_NAMESPACE": "",
            "KEDA_CLUSTER_OBJECT_NAMESPACE": "keda",
        }
        with (self.folder / f"{program}.log").open("ab") as log:
            self._processes[program] = subprocess.Popen(
                [str(self._programs / program), *self._commands[program], *flags],
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - two system calls, no lock, no allocation of note
            )

    def _register(self, port: int) -> None:
        service = {"name": "keda-metrics-apiserver", "namespace": "keda"}
        external = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        self.plane.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": external},
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
                "spec": {
                    "group": "external.metrics.k8s.io",
                    "version": "v1beta1",
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "insecureSkipTLSVerify": True,
                    "service": service | {"port": port},
                },
            },
        )

    def _is_available(self) -> bool:
        assert self.pids
        try:
            return bool(self.plane.get("/apis/external.metrics.k8s.io/v1beta1"))
        except (urllib.error.HTTPError, TimeoutError):
            return False

    def _tails(self) -> str:
        logs = [self.folder / f"{program}.log" for program in self._commands]
        return "\n".join(line for log in logs for line in log.read_text(errors="replace").splitlines()[-10:])


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports

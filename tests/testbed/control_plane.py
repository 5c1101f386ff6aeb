"""
A real Kubernetes control plane on loopback, without containers: ready in seconds, gone without a trace.

etcd, the API server, the controllers of workloads, the scheduler and, where asked for, the upstream HPA are the real
programs. Only the nodes are simulated, by kwok: stages/ says how pods start, become ready and go.

A pod is Running at once and Ready after its start-up time, which the annotation START_UP_TIME of the pod names
(a Go duration, 1 s without it).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import trustme
import yaml

from testbed import build
from testbed.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import FrameType, TracebackType

PROJECT = Path(__file__).parents[2]
CHART = PROJECT / "deploy" / "chart"
CRDS = PROJECT / "crds"
RELEASE, NAMESPACE = "cronhpa", "cronhpa-system"
START_UP_TIME = "testbed.cronhpa.io/start-up-time"
HOLD = "testbed.cronhpa.io/hold"
"""A pod with this annotation never becomes ready, or not again once its status was patched."""

_STAGES = Path(__file__).parent / "stages"
_READY_WITHIN_S = 60  # 3 s when idle; ten test workers on two cores take longer
_POLL_S = 0.05
_LOG_LINES = 20
# What the workloads of tests, demo and benchmarks need; the rest (nodes, volumes, certificates, quotas) only costs CPU.
_CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "statefulset-controller", "namespace-controller",
    "serviceaccount-controller", "garbage-collector-controller", "disruption-controller",
    "clusterrole-aggregation-controller",
)  # fmt: skip
# Kinds that a chart installs to run the operator in a pod: here it runs beside the control plane.
_WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod", "PodDisruptionBudget", "Service"}
_FOREIGN = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}  # kinds of CRDs that are not installed here
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


class ControlPlaneError(Exception):
    """A component or a command did not do its part; the text holds the last lines it wrote."""


class Request(NamedTuple):
    """What audited requests are counted by."""

    user: str
    verb: str
    group: str
    """ "" is the core group: pods are in it, and others of that name in metrics.k8s.io."""
    resource: str
    """Plural and, behind a slash, the subresource: "deployments/scale"; the path of what is no resource."""
    name: str = ""
    """Of a single object; "" of a list, a watch and a creation."""


class Write(NamedTuple):
    """began, ended: when the API server received and answered it, seconds since 1970. agent: its User-Agent."""

    began: float
    ended: float
    agent: str
    resource: str
    namespace: str = ""
    name: str = ""
    holder: str = ""
    """The holder that a write of a Lease names."""
    replicas: int | None = None
    """The count that a write of a Deployment's scale names."""


@dataclass
class Component:
    """One program of the control plane and the log it writes."""

    name: str
    command: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own session: ^C at the terminal reaches Python alone, which may still need the API to clean up.
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - two system calls, no lock, no allocation of note
            )

    def assert_alive(self) -> None:
        """Raises ControlPlaneError with the end of the log where the program has ended."""
        if self.process and self.process.poll() is not None:
            raise ControlPlaneError(f"{self.name} ended with {self.process.returncode}:\n{self.tail()}")

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-_LOG_LINES:])

    def kill(self) -> None:
        # SIGKILL: the API server drains for up to a minute otherwise, and nothing of its state is wanted.
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None


@dataclass
class ControlPlane:
    """
    Use as a context manager: `with ControlPlane() as plane: plane.kubectl("get", "nodes")`.

    hpa: start the upstream HPA controller too, as a process of its own ("horizontal-pod-autoscaler" in `pids`), so that
    its CPU and its requests can be told from those of the other controllers.
    audit: the API server logs every request; `requests()` counts them.
    pod_network: of the pods' IPs. Within 127.0.0.0/8 a server on this machine can be a pod.
    kubelet: objects of kwok (PortForward, Exec) that say what it does as the kubelet of every node; none: no kubelet.
    shards_lists: the API server shards lists and watches where it is asked to (KEP-5866).
    keep: leave `folder` with its logs behind.

    Ends what it started when the block is left, at exit, on SIGTERM, and when this process is killed. The kernel ends
    the programs with the *thread* that started them, so enter it in one that lives as long.
    """

    hpa: bool = False
    hpa_sync_period: str = "15s"
    hpa_options: Sequence[str] = ()
    audit: bool = False
    nodes: int = 2
    pod_network: str = "10.64.0.0/10"
    kubelet: Sequence[Mapping[str, Any]] = ()
    shards_lists: bool = True
    keep: bool = False
    kubernetes: str | None = None
    """The API server of an older Kubernetes, such as "1.30"; the other programs stay those of the lock."""
    binaries: Path = field(init=False)
    folder: Path = field(init=False)
    url: str = field(init=False)
    """https://127.0.0.1:<port>, signed by `ca_file`."""
    ca_file: Path = field(init=False)
    admin_kubeconfig: Path = field(init=False)
    admin_token: str = field(init=False, default="admin-token")
    components: dict[str, Component] = field(init=False, default_factory=dict)
    tls: ssl.SSLContext = field(init=False, repr=False)
    """Trusts `ca_file`."""
    _cleanup: contextlib.ExitStack = field(init=False, default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pids(self) -> dict[str, int]:
        """Process id of each running component."""
        return {
            name: component.process.pid
            for name, component in self.components.items()
            if component.process and component.process.poll() is None
        }

    @property
    def logs(self) -> dict[str, Path]:
        """Log file of each component."""
        return {name: component.log for name, component in self.components.items()}

    def start(self) -> Self:
        """
        Build what is not built, start everything, return when the API answers and the nodes are ready.

        Raises build.BuildError and ControlPlaneError; nothing is left running then.
        """
        self.binaries = build.binaries()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End what was started, in reverse order, and remove `folder`. May be called twice."""
        self._cleanup.close()

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """
        What kubectl prints, run as admin. Raises ControlPlaneError with what it said where it ends with an error.

        It takes 0.1 s a call; `get` takes a few milliseconds.
        """
        kubectl, cache = self.binaries / "kubectl", {"KUBECACHEDIR": str(self.folder / "kubectl-cache")}
        return _run(kubectl, f"--kubeconfig={self.admin_kubeconfig}", *arguments, stdin=stdin, environment=cache)

    def get(self, path: str) -> Any:
        """The JSON document at a path of the API, read as admin. Raises urllib.error.HTTPError."""
        request = urllib.request.Request(
            f"{self.url}{path}", headers={"Authorization": f"Bearer {self.admin_token}", "Accept": "application/json"}
        )
        with urllib.request.urlopen(request, context=self.tls, timeout=10) as answer:
            return json.load(answer)

    def delete(self, path: str) -> bool:
        """Deletes the object at a path of the API, as admin, within milliseconds; False if there is none."""
        request = urllib.request.Request(
            f"{self.url}{path}", headers={"Authorization": f"Bearer {self.admin_token}"}, method="DELETE"
        )
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=10):
                return True
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return False

    def apply(self, *documents: Mapping[str, object], manager: str = "kubectl") -> None:
        """Create or change objects, as `kubectl apply --server-side` does. manager: the field manager."""
        flags = ("--server-side", "--force-conflicts", f"--field-manager={manager}")
        self.kubectl("apply", *flags, "-f", "-", stdin=yaml.safe_dump_all(documents))

    def create(self, path: str, documents: Iterable[Mapping[str, object]]) -> None:
        """POST many objects of one kind to its collection, 8 at a time: 500 in about 3 s, where `apply` takes 25 s."""

        def post(document: Mapping[str, object]) -> None:
            headers = {"Authorization": f"Bearer {self.admin_token}", "Content-Type": "application/json"}
            body = json.dumps(document).encode()
            request = urllib.request.Request(f"{self.url}{path}", data=body, headers=headers, method="POST")
            with urllib.request.urlopen(request, context=self.tls, timeout=30):
                pass

        with ThreadPoolExecutor(max_workers=8) as pool:
            for _ in pool.map(post, documents):  # consumed, so that what was raised in a thread is raised here
                pass

    def install_crds(self, folder: Path | None = None) -> None:
        """Apply the CRDs of a folder, ours for this version by default, and wait until the API serves them."""
        folder = folder or (CRDS / "kubernetes-1.30" if self.kubernetes else CRDS)
        files = [argument for path in sorted(folder.glob("*.yaml")) for argument in ("-f", str(path))]
        self.kubectl("apply", "--server-side", *files)
        # `kubectl wait` ends with an error where it comes before the first condition.
        wait_until(lambda: self._established(files), within_s=30)

    def _established(self, files: Sequence[str]) -> bool:
        try:
            self.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
        except ControlPlaneError as error:
            if "accessor error" not in str(error):
                raise
            return False
        return True

    def install_chart(
        self,
        chart: Path = CHART,
        *,
        namespace: str = NAMESPACE,
        release: str = RELEASE,
        values: Mapping[str, object] | None = None,
    ) -> list[str]:
        """
        Install the CRDs and, of a chart, what lets the operator run outside the cluster with its real rights.

        Everything that the chart renders but workloads and services; its namespace is created.
        Returns "Kind/name" of each object.
        """
        self.install_crds()
        rendered = rendered_chart(
            chart, namespace=namespace, release=release, values=values, kubernetes=self.kubernetes
        )
        wanted = [candidate for candidate in rendered if candidate["kind"] not in _WORKLOADS | _FOREIGN]
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for manifest in wanted:
            # `helm install` puts what names no namespace into that of the release.
            if manifest["kind"] not in {
                "ClusterRole",
                "ClusterRoleBinding",
                "PriorityClass",
                "CustomResourceDefinition",
            }:
                manifest["metadata"].setdefault("namespace", namespace)
        self.apply(*wanted)
        return [f"{created['kind']}/{created['metadata']['name']}" for created in wanted]

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig that holds a real token of a service account: whoever uses it has that account's RBAC only."""
        token = self.kubectl("create", "token", name, "--namespace", namespace, "--duration=24h").strip()
        return self._kubeconfig(f"{namespace}.{name}", token)

    def requests(self) -> Counter[Request]:
        """Requests that the API server answered since the start, watches when they began. Needs audit=True."""
        counts: Counter[Request] = Counter()
        with (self.folder / "audit.log").open() as log:
            for line in log:
                if not line.endswith("\n"):
                    break  # the API server is still writing it
                event = json.loads(line)
                if (event["stage"] == "ResponseStarted") is not (event["verb"] == "watch"):
                    continue
                counts[_request(event)] += 1
        return counts

    def writes(self) -> list[Write]:
        """The requests that changed something, in the order in which they were answered. Needs audit=True."""
        written = []
        with (self.folder / "audit.log").open() as log:
            for line in log:
                if not line.endswith("\n"):
                    break  # the API server is still writing it
                event = json.loads(line)
                if event["stage"] != "ResponseComplete" or event["verb"] in {"get", "list", "watch"}:
                    continue
                if event.get("responseStatus", {}).get("code", 0) < 300:
                    times = (event["requestReceivedTimestamp"], event["stageTimestamp"])
                    began, ended = (datetime.fromisoformat(text).timestamp() for text in times)
                    of = event.get("objectRef", {})
                    where = of.get("namespace", ""), of.get("name", "")
                    spec = event.get("requestObject", {}).get("spec", {})
                    holder, replicas = spec.get("holderIdentity") or "", spec.get("replicas")
                    agent, resource = event.get("userAgent", ""), _request(event).resource
                    written.append(Write(began, ended, agent, resource, *where, holder, replicas))
        return sorted(written, key=lambda write: write.ended)

    def restart(self, name: str) -> None:
        """Kill a component and start it again with the same command, as after a crash; waits for the API server."""
        component = self.components[name]
        component.kill()
        component.start()
        if name == "kube-apiserver":
            self._wait_for_api()

    def upgrade(self, kubernetes: str | None = None) -> None:
        """Ends the API server and starts that of another Kubernetes on the same etcd, the newest one without a name."""
        program = build.api_server(kubernetes) if kubernetes else self.binaries / "kube-apiserver"
        component = self.components["kube-apiserver"]
        component.command = [str(program), *component.command[1:]]
        self.restart("kube-apiserver")
        self.kubernetes = kubernetes

    def backup(self) -> Path:
        """A copy of etcd's data, taken while etcd stands still for a moment."""
        copy = Path(tempfile.mkdtemp(prefix="backup-", dir=self.folder)) / "etcd"
        etcd = self.components["etcd"].process
        assert etcd is not None
        etcd.send_signal(signal.SIGSTOP)
        try:
            shutil.copytree(self.folder / "etcd", copy)
        finally:
            etcd.send_signal(signal.SIGCONT)
        return copy

    def restore(self, backup: Path) -> None:
        """
        Puts a backup of etcd's data back; returns when the API server answers from it.

        As Kubernetes' documentation says: with no API server running. Who else watches is ended as well, and is started
        again by `start_again`.
        """
        for component in reversed(self.components.values()):
            component.kill()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(backup, self.folder / "etcd")
        self.components["etcd"].start()
        self.components["kube-apiserver"].start()
        self._wait_for_api()

    def start_again(self) -> None:
        """Starts the components that do not run, such as the controllers after a restore."""
        for component in self.components.values():
            if component.process is None or component.process.poll() is not None:
                component.start()

    @contextlib.contextmanager
    def second_api_server(self, etcd_port: int | None = None) -> Iterator[str]:
        """
        A second API server on the same etcd, with a cache of its own; its URL. It writes no audit log.

        etcd_port: where it reaches etcd, None for etcd itself.
        """
        (port,) = _free_ports(1)
        flags = self.api_server_flags(etcd_port or self.etcd_port, port)
        name = "second-kube-apiserver"
        program = self.components["kube-apiserver"].command[0]
        self._start_component(name, *(flag for flag in flags if not flag.startswith("--audit")), program=program)
        try:
            self._wait_for_api(f"https://127.0.0.1:{port}")
            yield f"https://127.0.0.1:{port}"
        finally:
            self.components.pop(name).kill()

    def assert_alive(self) -> None:
        """Raises ControlPlaneError with the end of its log for a component that has ended."""
        for component in self.components.values():
            component.assert_alive()

    def _start(self) -> None:
        _sweep()
        # Python's own exit handling: a second stop() finds nothing left to do.
        atexit.register(self.stop)
        self._cleanup.callback(atexit.unregister, self.stop)
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._cleanup.callback(self._remove_folder)
        self._cleanup.enter_context(_claimed(self.folder))
        self._cleanup.callback(self._kill_all)
        self._cleanup.enter_context(_sigterm_raises())

        etcd_port, peer_port, api_port = _free_ports(3)
        self.etcd_port = etcd_port
        self.url = f"https://127.0.0.1:{api_port}"
        self._write_certificates()
        self._write_tokens()
        self._start_component("etcd", *self._etcd_flags(etcd_port, peer_port))
        api_server = build.api_server(self.kubernetes) if self.kubernetes else self.binaries / "kube-apiserver"
        self._start_component("kube-apiserver", *self.api_server_flags(etcd_port, api_port), program=api_server)
        self._wait_for_api()
        self._start_component("kube-controller-manager", *self._controller_flags("kube-controller-manager"),
                              f"--controllers={','.join(_CONTROLLERS)}")  # fmt: skip
        self._start_component(
            "kube-scheduler", f"--kubeconfig={self._user_kubeconfig('kube-scheduler')}", "--leader-elect=false",
            "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000",
        )  # fmt: skip
        self._start_kwok()
        if self.hpa:
            self._start_component(
                "horizontal-pod-autoscaler", *self._controller_flags("horizontal-pod-autoscaler"),
                "--controllers=horizontal-pod-autoscaler-controller",
                f"--horizontal-pod-autoscaler-sync-period={self.hpa_sync_period}", *self.hpa_options,
                program="kube-controller-manager",
            )  # fmt: skip
        self.apply(*(_node(number) for number in range(self.nodes)))
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", f"--timeout={_READY_WITHIN_S}s")
        self.assert_alive()

    def _start_component(self, name: str, *flags: str, program: str | Path | None = None) -> None:
        command = [str(self.binaries / (program or name)), *flags]
        component = self.components[name] = Component(name, command, self.folder / f"{name}.log")
        component.start()

    def _start_kwok(self) -> None:
        stages = self.folder / "stages.yaml"
        documents = [path.read_text() for path in sorted(_STAGES.glob("*.yaml"))]
        stages.write_text("\n---\n".join([*documents, *map(yaml.safe_dump, self.kubelet)]))
        self._start_component(
            "kwok", f"--kubeconfig={self._user_kubeconfig('kwok')}", "--manage-all-nodes=true", f"--config={stages}",
            "--node-lease-duration-seconds=0", f"--cidr={self.pod_network}", *self._kubelet_flags(),
        )  # fmt: skip

    def _kubelet_flags(self) -> list[str]:
        if not self.kubelet:
            return []
        (port,) = _free_ports(1)
        server = self.folder / "certificates" / "server"
        return [
            "--node-ip=127.0.0.1", f"--node-port={port}", f"--server-address=127.0.0.1:{port}",
            f"--tls-cert-file={server}.crt", f"--tls-private-key-file={server}.key",
        ]  # fmt: skip

    def _etcd_flags(self, port: int, peer_port: int) -> list[str]:
        url, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        return [
            f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync", "--log-level=warn",
        ]  # fmt: skip

    def api_server_flags(self, etcd_port: int, port: int) -> list[str]:
        certificates = self.folder / "certificates"
        flags = [
            f"--etcd-servers=http://127.0.0.1:{etcd_port}", f"--secure-port={port}", "--bind-address=127.0.0.1",
            f"--tls-cert-file={certificates}/server.crt", f"--tls-private-key-file={certificates}/server.key",
            "--service-account-issuer=https://kubernetes.default.svc", f"--cert-dir={certificates}",
            f"--service-account-key-file={certificates}/service-accounts.key",
            f"--service-account-signing-key-file={certificates}/service-accounts.key",
            f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Without a node-lifecycle controller nothing would lift the not-ready taint that the second one sets.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            # An older one ends at a gate that it does not know.
            "--feature-gates=HPAScaleToZero=true"
            + (",ShardedListAndWatch=true" if self.shards_lists and self.kubernetes is None else ""),
            f"--requestheader-client-ca-file={self.ca_file}", "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={certificates}/front-proxy.crt",
            f"--proxy-client-key-file={certificates}/front-proxy.key",
            # The default of 600 requests at once (with fairness between users) throttles a benchmark's set-up.
            "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
        ]  # fmt: skip
        if self.audit:
            policy = self.folder / "audit-policy.yaml"
            policy.write_text(
                "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n"
                "- {level: Request, verbs: [create, update],"
                " resources: [{group: coordination.k8s.io, resources: [leases]}]}\n"
                "- {level: Request, verbs: [patch], resources: [{group: apps, resources: [deployments/scale]}]}\n"
                "- {level: Metadata}\n"
            )
            # maxsize 0 means 100 MB, behind which the file would be rotated away under `requests`.
            flags += [
                f"--audit-policy-file={policy}", f"--audit-log-path={self.folder}/audit.log",
                "--audit-log-maxsize=100000",
            ]  # fmt: skip
        return flags

    def _controller_flags(self, user: str) -> list[str]:
        return [
            f"--kubeconfig={self._user_kubeconfig(user)}", "--use-service-account-credentials=false",
            f"--service-account-private-key-file={self.folder}/certificates/service-accounts.key",
            "--leader-elect=false", "--secure-port=0", "--feature-gates=HPAScaleToZero=true",
            # 20 requests a second, the default, would take 75 s to create 1,500 pods.
            "--kube-api-qps=1000", "--kube-api-burst=2000",
        ]  # fmt: skip

    def _write_certificates(self) -> None:
        folder = self.folder / "certificates"
        folder.mkdir()
        authority = trustme.CA(organization_name="cronhpa testbed")
        self.ca_file = folder / "ca.crt"
        authority.cert_pem.write_to_path(str(self.ca_file))
        self.tls = ssl.create_default_context(cafile=self.ca_file)
        # The API server signs and checks the tokens of service accounts with one key pair; the CA's serves.
        authority.private_key_pem.write_to_path(str(folder / "service-accounts.key"))
        for name, leaf in (
            ("server", authority.issue_cert("localhost", "127.0.0.1")),
            # Go's x509 refuses a certificate whose only name is a critical extension without a name in it.
            ("front-proxy", authority.issue_cert("front-proxy.testbed", common_name="front-proxy-client")),
        ):
            leaf.cert_chain_pems[0].write_to_path(str(folder / f"{name}.crt"))
            leaf.private_key_pem.write_to_path(str(folder / f"{name}.key"))

    def _write_tokens(self) -> None:
        """One user a component, so that the audit log tells them apart."""
        users = ("kube-controller-manager", "kube-scheduler", "kwok", "horizontal-pod-autoscaler")
        lines = [f'{self.admin_token},admin,admin,"system:masters"']
        lines += [f'{user}-token,system:{user},{user},"system:masters"' for user in users]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        self.admin_kubeconfig = self._kubeconfig("admin", self.admin_token)

    def _user_kubeconfig(self, user: str) -> Path:
        return self._kubeconfig(user, f"{user}-token")

    def _kubeconfig(self, name: str, token: str) -> Path:
        path = self.folder / f"{name}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": "testbed", "user": name}}],
            "current-context": name,
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def _wait_for_api(self, url: str = "") -> None:
        url = url or self.url
        request = urllib.request.Request(f"{url}/readyz", headers={"Authorization": f"Bearer {self.admin_token}"})
        deadline = time.monotonic() + _READY_WITHIN_S
        answer = "no answer yet"
        while time.monotonic() < deadline:
            self.assert_alive()
            try:
                with urllib.request.urlopen(request, context=self.tls, timeout=5):
                    return
            except (OSError, urllib.error.HTTPError) as error:
                answer = str(error)
            time.sleep(_POLL_S)
        tails = "\n".join(f"--- {component.name}\n{component.tail()}" for component in self.components.values())
        raise ControlPlaneError(f"{url}/readyz was not ready within {_READY_WITHIN_S} s ({answer})\n{tails}")

    def _kill_all(self) -> None:
        for component in reversed(self.components.values()):
            component.kill()
        self.components.clear()

    def _remove_folder(self) -> None:
        if self.keep:
            print(f"testbed: logs are kept in {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def helm_template(
    chart: Path = CHART,
    *,
    namespace: str = NAMESPACE,
    release: str = RELEASE,
    values: Mapping[str, object] | None = None,
    kubernetes: str | None = None,
) -> str:
    """
    What the real helm renders of a chart: YAML documents. Raises ControlPlaneError with helm's own words.

    kubernetes: the version of the cluster; absent, the one that this helm was built for.
    """
    with tempfile.TemporaryDirectory(prefix="cronhpa-helm-") as folder:
        helm = build.binaries() / "helm"
        homes = dict.fromkeys(("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"), folder)
        return _run(
            helm, "template", release, chart, "--namespace", namespace, "--values", "-",
            *(("--kube-version", kubernetes) if kubernetes else ()),
            stdin=yaml.safe_dump(dict(values or {})), environment=homes,
        )  # fmt: skip


def rendered_chart(chart: Path = CHART, **how: Any) -> list[dict[str, Any]]:
    """The objects that `helm_template` renders."""
    # libyaml reads 240 kB of definitions in 0.05 s instead of 0.4 s.
    return [each for each in yaml.load_all(helm_template(chart, **how), yaml.CSafeLoader) if each]


def _run(*command: str | Path, stdin: str | None, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, input=stdin, env=dict(os.environ) | dict(environment), check=False, capture_output=True, text=True
    )
    if done.returncode:
        words = " ".join([Path(command[0]).name, *(str(part) for part in command[1:])])
        raise ControlPlaneError(f"`{words}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _node(number: int) -> dict[str, object]:
    room = {"cpu": "100k", "memory": "100Ti", "pods": "100k"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": room, "capacity": room},
    }


def _request(event: Mapping[str, Any]) -> Request:
    user, verb, reference = event["user"]["username"], event["verb"], event.get("objectRef", {})
    if "resource" not in reference:
        return Request(user, verb, "", event["requestURI"].partition("?")[0])
    resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
    return Request(user, verb, reference.get("apiGroup", ""), resource, reference.get("name", ""))


def _free_ports(count: int) -> Iterable[int]:
    """Ports that nobody listens on now; held together, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound_socket in sockets:
            bound_socket.bind(("127.0.0.1", 0))
        return [bound_socket.getsockname()[1] for bound_socket in sockets]


def die_with(parent: int) -> Callable[[], None]:
    """What a child runs before its program, so that the kernel ends it with its parent, even where that is killed."""

    def ask_kernel() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died between fork and here, and nobody will be told
            os._exit(1)

    return ask_kernel


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM unwinds the stack as ^C does, where nobody else has taken it (Python's default ends without a word)."""

    def exit_(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, exit_)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


# A process that is killed by SIGKILL leaves its folder: the next start removes every folder whose owner's lock is free.
_PREFIX = "cronhpa-testbed-"
_OWNER = "owner"


@contextlib.contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    with (folder / "claim").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (folder / "claim").rename(folder / _OWNER)  # never seen by this name without its lock
        yield
        (folder / _OWNER).unlink()  # a folder that is kept belongs to nobody


def _sweep() -> None:
    for owner in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNER}"):
        with contextlib.suppress(OSError), owner.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(owner.parent, ignore_errors=True)

"""
What the demo puts into a cluster, its own or a given one, and takes away again.

Everything lies in one namespace but the CRD, and the APIService that the plant registers. The operator acts in that
namespace alone: the chart's Role, not its ClusterRole. A CRD that was there before stays.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import yaml

from testbed.control_plane import CRDS, RELEASE, rendered_chart
from testbed.demo.api import Api, path_of
from testbed.demo.scenario import BOUNDS
from testbed.demo.twins import IMAGE, TWINS
from testbed.plant import API_SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from rich.console import Console

NAMESPACE = "cronhpa-demo"
SERVICE_ACCOUNT = RELEASE
# Its rights are those of Roles in the one namespace: its objects and its Lease are there.
OPERATOR_SETTINGS = {"namespaces": NAMESPACE, "leader_elect_resource_namespace": NAMESPACE}
_API_SERVICE_PATH = f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}"
_RIGHTS = {"ServiceAccount", "Role", "RoleBinding"}
_GONE_WITHIN_S = 120
_TOKEN_SECONDS = 7200


class Refusal(Exception):  # noqa: N818 - not an error of ours: the cluster is not one for the demo
    """The demo does not go into this cluster; the text says why and what to do."""


class Installation:
    """
    `with Installation(api, console, remove=True):` the namespace, the CRD and the operator's rights are there.

    remove: take all of it away at the end, and wait until it is gone.
    Raises Refusal where somebody else's things are in the way; nothing was made then.
    """

    def __init__(self, api: Api, console: Console, *, remove: bool) -> None:
        self._api, self._console, self._remove = api, console, remove
        self._namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._crds = [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))]
        self._made: list[str] = []
        """Paths of what is to be deleted, in the order in which it was made."""

    def __enter__(self) -> Self:
        self._refuse_foreign()
        missing = [crd for crd in self._crds if not self._api.exists(path_of(crd))]
        if self._remove:
            self._announce(missing)
        try:
            for document in (*missing, self._namespace):
                self._made.append(path_of(document))  # before: an interrupted request may have been served
                self._api.apply(document)
            for document in self._rights():
                self._api.apply(document)
            self._wait_for_crds()
        except BaseException:
            self._take_away()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._take_away()

    def operator_kubeconfig(self, kubeconfig: Path, folder: Path) -> Path:
        """A kubeconfig for the cluster of another one, with a token of the operator's service account."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{SERVICE_ACCOUNT}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        }  # fmt: skip
        token = self._api.create(path, request)["status"]["token"]
        written = folder / "operator.kubeconfig"
        written.touch(mode=0o600)
        written.write_text(
            yaml.safe_dump(_with_token(yaml.safe_load(kubeconfig.read_text()), kubeconfig.parent, token))
        )
        return written

    def _refuse_foreign(self) -> None:
        if self._api.exists(_API_SERVICE_PATH):
            raise Refusal(
                f"{self._api.url}: APIService {API_SERVICE} is registered already, and the demo must answer for "
                "metrics.k8s.io itself: use a cluster without metrics-server, such as a fresh kind cluster, "
                "or `make demo` without KUBECONFIG"
            )
        if self._api.exists(path_of(self._namespace)):
            raise Refusal(
                f"{self._api.url}: namespace {NAMESPACE} exists already: if it is left from a demo that was killed, "
                f"`kubectl delete namespace {NAMESPACE}` and start again"
            )

    def _announce(self, missing: list[dict[str, Any]]) -> None:
        pods = f"up to {2 * BOUNDS[1]} pods ({IMAGE}, requests 10m CPU and 8 MiB each)"
        lines = [
            f"In the cluster at {self._api.url} this creates, and removes at the end:",
            *(f"  CustomResourceDefinition {crd['metadata']['name']}" for crd in missing),
            f"  APIService {API_SERVICE}, answered by this process",
            f"  Namespace {NAMESPACE}, and in it:",
            "    ServiceAccount, Role and RoleBinding cronhpa; Service cronhpa-plant",
            f"    Deployments {' and '.join(TWINS)}: {pods}",
            "    one HorizontalPodAutoscaler, one CronHPA",
        ]
        if not missing:
            lines.append(
                "The CRD is there already and stays. An operator that watches all namespaces would act on the demo's "
                "CronHPA too."
            )
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _rights(self) -> list[dict[str, Any]]:
        """What the chart renders for an operator that runs outside the cluster, in this one namespace."""
        values = {"namespaces": [NAMESPACE], "crds": {"install": False}}
        rendered = rendered_chart(namespace=NAMESPACE, values=values)
        return [manifest for manifest in rendered if manifest["kind"] in _RIGHTS]

    def _wait_for_crds(self) -> None:
        for crd in self._crds:
            deadline = time.monotonic() + _GONE_WITHIN_S
            while not _is_established(self._api.get(path_of(crd))):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{path_of(crd)} was not served within {_GONE_WITHIN_S} s")
                time.sleep(0.1)

    def _take_away(self) -> None:
        if not (self._remove and self._made):
            return
        with _undisturbed():
            self._console.print("removing what was created", highlight=False)
            for path in reversed(self._made):
                self._api.delete(path)
            deadline = time.monotonic() + _GONE_WITHIN_S
            while left := [path for path in self._made if self._api.exists(path)]:
                if time.monotonic() > deadline:
                    self._console.print(f"still being deleted by the cluster: {', '.join(left)}", highlight=False)
                    return
                time.sleep(0.2)
            self._console.print("everything is removed", highlight=False)


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def _with_token(config: dict[str, Any], folder: Path, token: str) -> dict[str, Any]:
    """A kubeconfig of the current context's cluster alone, and of a token."""
    current = next(context for context in config["contexts"] if context["name"] == config["current-context"])
    cluster = next(
        named_cluster for named_cluster in config["clusters"] if named_cluster["name"] == current["context"]["cluster"]
    )["cluster"]
    if authority := cluster.get("certificate-authority"):
        # A relative path is meant from the file that states it.
        cluster = cluster | {"certificate-authority": os.path.join(folder, authority)}  # noqa: PTH118 - keeps absolute ones
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "demo", "cluster": cluster}],
        "users": [{"name": "operator", "user": {"token": token}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "operator"}}],
        "current-context": "demo",
    }


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second ^C, or one of an impatient make, does not leave half of it behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""The requests that the demo makes of an API server, its own or one that a kubeconfig names. Blocking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes.client
import kubernetes.client.rest
import kubernetes.config
import msgspec
import urllib3

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# What the demo makes, and where the API serves it: prefix, plural, and whether objects lie in a namespace.
KINDS: Mapping[str, tuple[str, str, bool]] = {
    "Namespace": ("/api/v1", "namespaces", False),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers", True),
    "CronHPA": ("/apis/cronhpa.io/v1alpha1", "cronhpas", True),
}
_TIMEOUT_S = 30


class ApiError(Exception):
    """The API server refused, or could not be reached; the text holds its words."""


class NotFound(ApiError):  # noqa: N818 - an answer as much as an error
    """There is no such object."""


class Api:
    """Requests as whoever a kubeconfig's current context names: token, certificate or exec plugin."""

    def __init__(self, kubeconfig: Path) -> None:
        configuration = self._configuration = kubernetes.client.Configuration()
        load: Any = kubernetes.config.load_kube_config  # it has no annotations
        load(config_file=str(kubeconfig), client_configuration=configuration, persist_config=False)
        self._pool = kubernetes.client.rest.RESTClientObject(configuration).pool_manager

    @property
    def url(self) -> str:
        return str(self._configuration.host)

    def get(self, path: str) -> Any:
        return self._request("GET", path)

    def exists(self, path: str) -> bool:
        try:
            self.get(path)
        except NotFound:
            return False
        return True

    def apply(self, document: Mapping[str, Any]) -> None:
        """Create or change an object, as `kubectl apply --server-side` does."""
        query = "?fieldManager=cronhpa-demo&force=true"
        self._request("PATCH", path_of(document) + query, document, "application/apply-patch+yaml")

    def create(self, path: str, document: Mapping[str, Any]) -> Any:
        return self._request("POST", path, document)

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """A strategic merge: lists of built-in kinds are merged by their keys."""
        self._request("PATCH", path, change, "application/strategic-merge-patch+json")

    def delete(self, path: str) -> None:
        """Ask for an object's deletion; one that is gone already is as good."""
        try:
            self._request("DELETE", path)
        except NotFound:
            return

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = "application/json"
    ) -> Any:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        # Asked for each time: the token of an exec plugin is renewed here.
        if token := self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization"):
            headers["Authorization"] = token
        encoded = None if body is None else msgspec.json.encode(body)
        try:
            answer = self._pool.request(
                method, self.url + path, body=encoded, headers=headers, timeout=_TIMEOUT_S, retries=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(f"{self.url}: {error}") from None
        if answer.status >= 400:
            message = f"{method} {path}: {answer.status}: {_message(answer.data)}"
            raise NotFound(message) if answer.status == 404 else ApiError(message)
        return msgspec.json.decode(answer.data)


def path_of(document: Mapping[str, Any]) -> str:
    """Where the API serves an object."""
    prefix, plural, namespaced = KINDS[document["kind"]]
    metadata = document["metadata"]
    scope = f"/namespaces/{metadata['namespace']}" if namespaced else ""
    return f"{prefix}{scope}/{plural}/{metadata['name']}"


def _message(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return body[:200].decode(errors="replace")

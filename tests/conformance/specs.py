"""Holds what the CRD accepts on a real API server against the upstream's recorded validation."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import ValidationError

from conformance.trajectories import read
from cronhpa.api.schema import CronHPASpec
from testbed.control_plane import ControlPlane

# The one stated difference: the upstream fills in a metric where there is none, we ask for it and name this one.
UPSTREAM_DEFAULT = "a CPU utilization of 80 %"


def objects(namespace: str) -> str:
    return f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas"


class Verdict(NamedTuple):
    """spec: as stored, with what the server filled in; None where it was refused. causes: messages by field."""

    spec: dict[str, Any] | None
    causes: dict[str, str]


def can_be_read(spec: Any) -> bool:
    """Whether the models of the resource take a spec, before any rule."""
    try:
        CronHPASpec.model_validate(spec)
    except ValidationError:
        return False
    return True


class Server:
    """An API server as admin, on one connection."""

    def __init__(self, plane: ControlPlane) -> None:
        self.kubectl = plane.kubectl
        self._token = plane.admin_token
        trusted = ssl.create_default_context(cafile=str(plane.ca_file))
        self._connection = http.client.HTTPSConnection(urlsplit(plane.url).netloc, context=trusted, timeout=30)

    def request(self, method: str, path: str, body: Any, content_type: str = "application/json") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        self._connection.request(method, path, json.dumps(body), headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def verdict(self, spec: Any) -> Verdict:
        """What becomes of an object with this spec; nothing is stored."""
        body = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": {"name": "shop"}, "spec": spec}
        status, answer = self.request("POST", f"{objects('default')}?dryRun=All&fieldValidation=Strict", body)
        if status == http.client.CREATED:
            return Verdict(answer["spec"], {})
        assert status == http.client.UNPROCESSABLE_ENTITY, answer
        return Verdict(None, {cause["field"]: cause["message"] for cause in answer["details"]["causes"]})


def is_alike(case: dict[str, Any], verdict: Verdict) -> bool:
    """Whether it is the upstream's verdict: accepted and filled in alike, or refused with the same fields named."""
    if not case["spec"].get("metrics"):
        return UPSTREAM_DEFAULT in verdict.causes.get("spec.metrics", "")
    if case["errors"]:
        return {error["field"] for error in case["errors"]} == set(verdict.causes)
    return {**case["defaulted"], "mode": "Active", "timeZone": "UTC"} == verdict.spec


def judged(path: Path, server: Server) -> Iterator[tuple[dict[str, Any], Verdict]]:
    """Each recorded spec with the API server's verdict on it."""
    for case in read(path):
        yield case, server.verdict(case["spec"])

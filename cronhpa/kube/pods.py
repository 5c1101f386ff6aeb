"""Pods from the API, reduced to the fields that a decision reads. No other field is decoded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any

import msgspec
from msgspec import Struct

from cronhpa.core.model.instant import parse_instant
from cronhpa.core.model.observation import Container, Pod
from cronhpa.core.model.quantity import parse_milli
from cronhpa.kube.owner_references import OwnerReference, controller_of


class ObjectMeta(Struct, frozen=True, rename="camel"):
    """The metadata that is read of any object. Labels, which can be a megabyte, are read of pods alone."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _PodMeta(ObjectMeta, frozen=True, rename="camel"):
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class _Resources(Struct):
    requests: dict[str, Any] | None = None


class _RawPort(Struct, rename="camel"):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class _RawContainer(Struct, rename="camel"):
    name: str = ""
    resources: _Resources | None = None
    restart_policy: str | None = None
    ports: list[_RawPort] | None = None


class _RawSpec(Struct, frozen=True, rename="camel"):
    containers: list[_RawContainer] | None = None
    init_containers: list[_RawContainer] | None = None
    resources: _Resources | None = None
    overhead: dict[str, Any] | None = None
    host_network: bool = False


class _RawCondition(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _RawStatus(Struct, frozen=True, rename="camel"):
    phase: str = ""
    conditions: list[_RawCondition] | None = None
    start_time: str | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")


class RawPod(Struct):
    metadata: _PodMeta = _PodMeta()
    spec: _RawSpec = _RawSpec()
    status: _RawStatus = _RawStatus()


# An API server accepts pods of 1.5 MB. Labels cost memory in the index, containers cost time at each reconciliation; no
# real pod comes near these limits.
LABELS_MAX = 500
_CONTAINERS_MAX = 500
_REQUESTS_MAX = 5000
_PORTS_MAX = 5000
# Longer times and quantities are not cached.
_KEPT_LENGTH_MAX = 64
# The longest text of an IPv6 address, with a zone.
_IP_LENGTH_MAX = 64


def excess(raw: RawPod) -> str | None:
    """Which limit a pod exceeds; None for a pod within all of them."""
    containers = (*(raw.spec.containers or ()), *(raw.spec.init_containers or ()))
    ports, requests = 0, _count(raw.spec.resources)
    for container in containers:
        requests += _count(container.resources)
        if container.ports:
            ports += len(container.ports)
    for what, count, limit in (
        ("labels", len(raw.metadata.labels or ()), LABELS_MAX),
        ("containers", len(containers), _CONTAINERS_MAX),
        ("ports", ports, _PORTS_MAX),
        ("requests", requests, _REQUESTS_MAX),
    ):
        if count > limit:
            return f"{count} {what}, at most {limit} are read"
    return None


def _count(resources: _Resources | None) -> int:
    return 0 if resources is None or resources.requests is None else len(resources.requests)


def pod_from(raw: RawPod) -> Pod:
    """
    The pod of an observation.

    Raises ValueError for a time that cannot be read. A request that cannot be read counts as missing.
    """
    conditions = {condition.type: condition for condition in raw.status.conditions or ()}
    ready, scheduled = conditions.get("Ready"), conditions.get("PodScheduled")
    created = _instant(raw.metadata.creation_timestamp)
    placed = _instant(scheduled.last_transition_time) if scheduled and scheduled.status == "True" else created
    return Pod(
        name=raw.metadata.name,
        # All pods share one text for each phase and each Ready status.
        phase=intern(raw.status.phase),
        deleting=raw.metadata.deletion_timestamp is not None,
        ready=intern(ready.status) if ready else "",
        ready_since=_instant(ready.last_transition_time if ready else None),
        start_time=_instant(raw.status.start_time) if raw.status.start_time else None,
        created=created,
        containers=(
            *(_container(container, is_init=False) for container in raw.spec.containers or ()),
            *(_container(container, is_init=True) for container in raw.spec.init_containers or ()),
        ),
        pod_requests=_milli(raw.spec.resources.requests)
        if raw.spec.resources and raw.spec.resources.requests
        else None,
        overhead=_milli(raw.spec.overhead),
        ip=raw.status.pod_ip if len(raw.status.pod_ip) <= _IP_LENGTH_MAX else "",
        on_host_network=raw.spec.host_network,
        controller=controller_of(raw.metadata.owner_references),
        waited=max(placed - created, 0),
    )


def _container(raw: _RawContainer, *, is_init: bool) -> Container:
    return Container(
        name=raw.name,
        requests=_milli(raw.resources.requests if raw.resources else None),
        is_init=is_init,
        restartable=raw.restart_policy == "Always",
        ports={port.name: port.container_port for port in raw.ports if port.name and port.protocol == "TCP"}
        if raw.ports
        else _NONE,
    )


def _instant(text: str | None) -> int:
    if not text:
        return 0
    return _kept_instant(text) if len(text) <= _KEPT_LENGTH_MAX else parse_instant(text)


# The pods of a rollout share a few instants, and those of a cluster a few requests.
_kept_instant = lru_cache(maxsize=1024)(parse_instant)
_kept_milli = lru_cache(maxsize=512)(parse_milli)


_NONE: Mapping[str, int] = {}


def _milli(quantities: Mapping[str, Any] | None) -> Mapping[str, int]:
    if not quantities:
        return _NONE
    out = {}
    for name, text in quantities.items():
        try:
            quantity = str(text)
            milli = _kept_milli(quantity) if len(quantity) <= _KEPT_LENGTH_MAX else parse_milli(quantity)
            out[intern(name)] = milli
        except ValueError:
            continue
    return out

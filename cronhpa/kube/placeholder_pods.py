"""The pod of a placeholder: it fits where a pod of the target fits, takes as much room, does nothing and gives way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from cronhpa.core.model.quantity import format_milli, parse_milli

# Extended resources of init containers are left out: they would need limits of the same size.
_COUNTED = ("cpu", "memory", "ephemeral-storage")
_CONTAINERS_MAX = 50


class _Resources(Struct, frozen=True):
    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None

    @property
    def counted(self) -> dict[str, Any]:
        """The requests; a resource without one requests its limit."""
        return {**(self.limits or {}), **(self.requests or {})}


class _TemplateContainer(Struct, frozen=True, rename="camel"):
    resources: _Resources = _Resources()
    restart_policy: str | None = None


class _Affinity(Struct, frozen=True, rename="camel"):
    node_affinity: dict[str, Any] | None = None


class PodTemplateSpec(Struct, frozen=True, rename="camel"):
    """The fields of a pod template's spec that decide on which nodes its pods fit."""

    containers: list[_TemplateContainer] = field(default_factory=list)
    init_containers: list[_TemplateContainer] | None = None
    resources: _Resources | None = None
    affinity: _Affinity | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[Any] | None = None
    runtime_class_name: str | None = None
    scheduler_name: str | None = None


class _Template(Struct, frozen=True):
    spec: PodTemplateSpec = PodTemplateSpec()


class _WorkloadSpec(Struct, frozen=True):
    template: _Template = _Template()


class _Meta(Struct, frozen=True):
    name: str = ""


class TemplatedWorkload(Struct, frozen=True):
    """A workload with the template of its pods."""

    metadata: _Meta = _Meta()
    spec: _WorkloadSpec = _WorkloadSpec()


def takes_room(template: PodTemplateSpec) -> bool:
    """Whether a pod of this template requests anything: one that requests nothing fits on any node."""
    own = () if template.resources is None else (template.resources,)
    parts = [container.resources for container in (*template.containers, *(template.init_containers or ()))]
    return any(part.counted for part in (*own, *parts))


def placeholder_spec(template: PodTemplateSpec, image: str, priority_class: str) -> dict[str, Any]:
    """
    The spec of a placeholder for a pod of this template.

    Each container has its twin, because limits of a namespace are limits of containers. Affinity to other pods is left
    out: it would be to those of another namespace.
    """
    inits = template.init_containers or []
    beside = [*template.containers, *(one for one in inits if one.restart_policy == "Always")]
    twins = [one.resources for one in beside[:_CONTAINERS_MAX]]
    before = [one.resources for one in inits if one.restart_policy != "Always"]
    spec: dict[str, Any] = {
        "containers": [_container(f"room-{number}", image, part) for number, part in enumerate(twins)],
        "priorityClassName": priority_class,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65535,
            "runAsGroup": 65535,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    more = dict(_more(before, twins))
    if more:
        spec["containers"].append(_container("room-of-init", image, _Resources(requests=more)))
    copied = {
        "nodeSelector": template.node_selector,
        "tolerations": template.tolerations,
        "runtimeClassName": template.runtime_class_name,
        "schedulerName": template.scheduler_name,
        "resources": None if template.resources is None else _stated(template.resources),
        "affinity": None
        if template.affinity is None or template.affinity.node_affinity is None
        else {"nodeAffinity": template.affinity.node_affinity},
    }
    return {**spec, **{name: value for name, value in copied.items() if value}}


def _container(name: str, image: str, resources: _Resources) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "resources": _stated(resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _stated(resources: _Resources) -> dict[str, Any]:
    """Requests and limits; claims of devices are left out."""
    return {key: value for key in ("requests", "limits") if (value := getattr(resources, key))}


def _more(inits: Iterable[_Resources], twins: Iterable[_Resources]) -> Iterator[tuple[str, str]]:
    """What the largest init container requests beyond the containers together: it runs before them, not beside them."""
    inits, twins = list(inits), list(twins)
    for name in _COUNTED:
        largest = max((_milli(part.counted, name) for part in inits), default=0)
        missing = largest - sum(_milli(part.counted, name) for part in twins)
        if missing > 0:
            yield name, format_milli(missing)


def _milli(quantities: Mapping[str, Any], name: str) -> int:
    try:
        return parse_milli(str(quantities.get(name, 0)))
    except ValueError:
        return 0

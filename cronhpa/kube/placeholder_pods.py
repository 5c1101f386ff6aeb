"""The pod of a placeholder: it fits where a pod of the target fits, takes as much room, does nothing and gives way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from cronhpa.core.metrics.pod_counts import largest_init_step
from cronhpa.core.model.quantity import format_milli, parse_milli
from cronhpa.kube.label_selector import FORMS, SelectorError, parse_selector, selector_text

# Extended resources of init containers are left out: they would need limits of the same size.
_COUNTED = ("cpu", "memory", "ephemeral-storage")
_CONTAINERS_MAX = 50
# Terms of anti-affinity and spread constraints.
_APART_MAX = 10


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
    pod_anti_affinity: dict[str, Any] | None = None


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
    topology_spread_constraints: list[Any] | None = None


class _Labels(Struct, frozen=True):
    labels: dict[str, str] | None = None


class _Template(Struct, frozen=True):
    metadata: _Labels = _Labels()
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


class Kin(Struct, frozen=True):
    """The pods of a target: their namespace and labels; and the labels of its placeholders, which are elsewhere."""

    namespace: str
    labels: Mapping[str, str]
    of_placeholders: Mapping[str, str]


def placeholder_spec(template: PodTemplateSpec, image: str, priority_class: str, kin: Kin) -> dict[str, Any]:
    """
    The spec of a placeholder for a pod of this template.

    Each container has its twin, because limits of a namespace are limits of containers. Pods that keep apart from each
    other have placeholders that do. Other affinity to pods is left out: it would be to those of another namespace.
    """
    inits = template.init_containers or []
    beside = [*template.containers, *(one for one in inits if one.restart_policy == "Always")]
    twins = [one.resources for one in beside[:_CONTAINERS_MAX]]
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
    more = dict(_more(inits, twins))
    if more:
        spec["containers"].append(_container("room-of-init", image, _Resources(requests=more)))
    copied = {
        "nodeSelector": template.node_selector,
        "tolerations": template.tolerations,
        "runtimeClassName": template.runtime_class_name,
        "schedulerName": template.scheduler_name,
        "resources": None if template.resources is None else _stated(template.resources),
        "affinity": _affinity(template.affinity or _Affinity(), kin),
        "topologySpreadConstraints": [
            {key: value for key, value in one.items() if key != "matchLabelKeys"}
            | {"labelSelector": {"matchLabels": dict(kin.of_placeholders)}}
            for one in template.topology_spread_constraints or ()
            if isinstance(one, dict) and _is_kin(one.get("labelSelector"), kin.labels)
        ][:_APART_MAX],
    }
    return {**spec, **{name: value for name, value in copied.items() if value}}


def _affinity(affinity: _Affinity, kin: Kin) -> dict[str, Any]:
    terms = (affinity.pod_anti_affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    apart = list(_apart(terms if isinstance(terms, list) else (), kin))[:_APART_MAX]
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": apart} if apart else None
    both = {"nodeAffinity": affinity.node_affinity, "podAntiAffinity": anti}
    return {name: value for name, value in both.items() if value}


def _apart(terms: Iterable[Any], kin: Kin) -> Iterator[dict[str, Any]]:
    """
    The terms by which placeholders keep apart from each other as the pods do.

    Not from the pods: kube-scheduler 1.36 leaves a pod waiting, for more than a minute, that has preempted the one that
    kept it away, and in a zone it preempts none.
    """
    for term in terms:
        if not isinstance(term, dict) or not isinstance(term.get("topologyKey"), str):
            continue
        named = term.get("namespaces")
        is_of_own = (not named and term.get("namespaceSelector") is None) or kin.namespace in (named or ())
        if not (is_of_own or term.get("namespaceSelector") == {}) or not _is_kin(term.get("labelSelector"), kin.labels):
            continue
        yield {"topologyKey": term["topologyKey"], "labelSelector": {"matchLabels": dict(kin.of_placeholders)}}


def _is_kin(selector: Any, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of a template picks the template's own pods."""
    if not isinstance(selector, dict):
        return False
    try:
        requirements = selector.get("matchExpressions") or ()
        expressions = [(one["key"], one["operator"], tuple(one.get("values") or ())) for one in requirements]
        if any(operator not in FORMS for _, operator, _ in expressions):
            return False
        text = selector_text(sorted((selector.get("matchLabels") or {}).items()), expressions)
        return parse_selector(text).matches(labels)
    except (SelectorError, AttributeError, KeyError, TypeError, ValueError):
        return False


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


def _more(inits: Sequence[_TemplateContainer], twins: Sequence[_Resources]) -> Iterator[tuple[str, str]]:
    """What the largest init step requests beyond the containers together."""
    for name in _COUNTED:
        steps = ((init.restart_policy == "Always", _milli(init.resources.counted, name)) for init in inits)
        missing = largest_init_step(steps) - sum(_milli(part.counted, name) for part in twins)
        if missing > 0:
            yield name, format_milli(missing)


def _milli(quantities: Mapping[str, Any], name: str) -> int:
    try:
        return parse_milli(str(quantities.get(name, 0)))
    except ValueError:
        return 0

"""Who else scales a target. With a HorizontalPodAutoscaler or an older CronHPA on it, an object holds and says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from cronhpa.core.spec import Mode
from cronhpa.kube.pods import Meta
from cronhpa.operator.inventory import Item

HPA_PATH = "/apis/autoscaling/v2/horizontalpodautoscalers"


class _Ref(Struct, rename="camel", frozen=True):
    kind: str = ""
    name: str = ""
    api_version: str | None = None


class _HpaSpec(Struct, rename="camel", frozen=True):
    scale_target_ref: _Ref = _Ref()


class Hpa(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: _HpaSpec = _HpaSpec()


Target = tuple[str, str, str, str]


class Owners:
    """Targets by (namespace, API group, kind, name), with the HorizontalPodAutoscalers and CronHPAs that claim them."""

    def __init__(self) -> None:
        self._hpas: dict[tuple[str, str], Target] = {}
        self._by_target: dict[Target, set[str]] = {}

    def note_hpa(self, namespace: str, name: str, hpa: Hpa | None) -> Target | None:
        """Takes over a HorizontalPodAutoscaler that came, changed or went; returns the target concerned."""
        known = self._hpas.pop((namespace, name), None)
        if known is not None:
            self._by_target[known].discard(name)
            if not self._by_target[known]:
                del self._by_target[known]
        if hpa is None:
            return known
        ref = hpa.spec.scale_target_ref
        target = (namespace, group(ref.api_version or ""), ref.kind, ref.name)
        self._hpas[namespace, name] = target
        self._by_target.setdefault(target, set()).add(name)
        return target

    def problem(self, item: Item, claims: Mapping[Target, Sequence[Item]]) -> str | None:
        """
        Why this object must hold, naming the other owner; None when the target is its own.

        claims: the active CronHPAs of the namespace by target, see `claims`.
        """
        target = target_of(item)
        if target is None:
            return None
        hpas = self._by_target.get(target)
        if hpas:
            names = ", ".join(sorted(hpas))
            return f"HorizontalPodAutoscaler {names} scales {target[2]}/{target[3]} too: delete it or this object"
        rivals = [other for other in claims.get(target, ()) if other.uid != item.uid and _age(other) < _age(item)]
        if rivals:
            oldest = min(rivals, key=_age)
            return f"CronHPA {oldest.name} is older and scales {target[2]}/{target[3]} too: delete one of them"
        return None


def claims(items: Iterable[Item]) -> dict[Target, list[Item]]:
    """The objects that want to scale each target. A preview never counts as an owner."""
    out: dict[Target, list[Item]] = {}
    for item in items:
        target = target_of(item)
        if target is not None and item.spec is not None and item.spec.mode is Mode.ACTIVE:
            out.setdefault(target, []).append(item)
    return out


def target_of(item: Item) -> Target | None:
    if item.spec is None:
        return None
    ref = item.spec.target
    return (item.namespace, group(ref.api_version), ref.kind, ref.name)


def group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _age(item: Item) -> tuple[int, str, str]:
    return (item.created, item.name, item.uid)

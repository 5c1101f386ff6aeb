"""Other owners of a target: an object holds while a HorizontalPodAutoscaler or an older CronHPA scales it, too."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Any

import msgspec
from msgspec import Struct

from cronhpa.api.status_text import Status
from cronhpa.core.model.spec import Mode, Spec, TargetRef
from cronhpa.kube.pods import ObjectMeta
from cronhpa.operator.objects.object_state import ObjectState, Ownership, TargetKey, api_group

_HPA = "HorizontalPodAutoscaler"
# Of very many on one target each object there would keep all names.
_NAMED_MAX = 3


class _Ref(Struct, rename="camel", frozen=True):
    kind: str = ""
    name: str = ""
    api_version: str | None = None


class _HpaSpec(Struct, rename="camel", frozen=True):
    scale_target_ref: _Ref = _Ref()


class _OwnSpec(_HpaSpec, rename="camel", frozen=True):
    mode: Any = Mode.ACTIVE.value


class Hpa(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _HpaSpec = _HpaSpec()


class Owners:
    """The HorizontalPodAutoscalers that scale each target."""

    def __init__(self) -> None:
        self._hpas: dict[tuple[str, str], TargetKey] = {}
        self._by_target: dict[TargetKey, set[str]] = {}
        self._ownerships: dict[TargetKey, Ownership] = {}

    def ownership(self, target: TargetKey) -> Ownership:
        """A value that is current until an autoscaler of a target comes, goes or is edited."""
        return self._ownerships.setdefault(target, Ownership())

    def note_change(self, target: TargetKey) -> None:
        """Ends the ownership of a target: an autoscaler of the target has come, gone or been edited."""
        ended = self._ownerships.pop(target, None)
        if ended is not None:
            ended.is_current = False

    def note_hpa(self, namespace: str, name: str, hpa: Hpa | None) -> tuple[TargetKey, ...]:
        """Records a HorizontalPodAutoscaler, None for a deleted one; returns the targets that it gained or lost."""
        before = self._hpas.pop((namespace, name), None)
        if before is not None:
            self._by_target[before].discard(name)
            if not self._by_target[before]:
                del self._by_target[before]
        if hpa is None:
            if before is not None:
                self.note_change(before)
            return (before,) if before is not None else ()
        ref = hpa.spec.scale_target_ref
        target = (namespace, api_group(ref.api_version or ""), ref.kind, ref.name)
        self._hpas[namespace, name] = target
        self._by_target.setdefault(target, set()).add(name)
        if before == target:
            return ()  # only its status changed, which its controller writes often
        gained_or_lost = (target,) if before is None else (before, target)
        for changed in gained_or_lost:
            self.note_change(changed)
        return gained_or_lost

    def problem(self, state: ObjectState, rivals: Iterable[ObjectState]) -> str | None:
        """
        Why this object must hold, with the name of the other owner; None if it is the only owner.

        rivals: the CronHPAs on the same target, with or without this one, or only the oldest active one. A preview does
        not count as an owner.
        """
        target = state.target
        if target is None:
            return None
        hpas = self._by_target.get(target)
        if hpas:
            more = f" and {len(hpas) - _NAMED_MAX} more" if len(hpas) > _NAMED_MAX else ""
            return f"{_HPA} {', '.join(nsmallest(_NAMED_MAX, hpas))}{more}{_on(target)}: delete it or this object"
        older = [other for other in rivals if other.uid != state.uid and is_active(other) and age(other) < age(state)]
        if older:
            oldest = min(older, key=age)
            return f"CronHPA {oldest.name} is older and{_on(target)}: delete one of them"
        return None


def former_problem(status: Status, target: TargetKey) -> str | None:
    """
    The HorizontalPodAutoscaler because of which the status says that the object holds: where none can be listed. None
    if the status tells of another target.
    """
    messages = [
        str(condition.get("message", ""))
        for condition in status.get("conditions", ())
        if condition.get("type") == "TargetOwned" and condition.get("status") == "False"
    ]
    return next((message for message in messages if message.startswith(f"{_HPA} ") and _on(target) in message), None)


def former_owner(namespace: str, spec: msgspec.Raw, status: Status) -> Spec | None:
    """
    What stands for the last readable spec of an object that a process before decided on, for its target alone. None if
    the status does not say that it owned the target that its spec names.
    """
    try:
        named = msgspec.json.decode(spec, type=_OwnSpec)
    except msgspec.DecodeError:
        return None
    ref = named.scale_target_ref
    owned = any(
        one.get("type") == "TargetOwned" and one.get("status") == "True" for one in status.get("conditions") or ()
    )
    if not owned or named.mode != Mode.ACTIVE.value or status.get("target") != f"{ref.kind}/{ref.name}":
        return None
    target = TargetRef(api_version=ref.api_version or "", kind=ref.kind, name=ref.name)
    return Spec(target, min_replicas=1, max_replicas=1, namespace=namespace)


def _on(target: TargetKey) -> str:
    return f" scales {target[2]}/{target[3]} too"


def is_active(state: ObjectState) -> bool:
    """
    Whether an object scales its target, so that younger objects on the target hold.

    So does one that cannot be read any more: a slip of the keyboard must not hand its target over.
    """
    spec = state.served.readable_spec
    return spec is not None and spec.mode is Mode.ACTIVE


def age(state: ObjectState) -> tuple[int, str, str]:
    """The order of the objects on a target: the smallest is the oldest."""
    return (state.created, state.name, state.uid)

"""The object whose metric a source is asked for."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Pod
from cronhpa.core.spec import TargetRef


class MeasuredObject(Struct, frozen=True):
    """An object with its target, the target's pods, and how often it is decided upon."""

    namespace: str
    name: str
    target: TargetRef
    pods: tuple[Pod, ...]
    period: Nanoseconds

    @property
    def texts(self) -> dict[str, str]:
        """The values of the placeholders and join labels of a definition."""
        target = self.target
        return {"namespace": self.namespace, "name": self.name, "kind": target.kind, "target": target.name}

"""Reports the begin of a reconciliation, and its end after the last write, to a tracer, if there is one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from cronhpa.operator.objects.object_state import ObjectState


class ReconciliationTrace(Protocol):
    def reconciliation(self, state: ObjectState) -> AbstractContextManager[object]:
        """Begins the reconciliation of an object, which is the current one within the block."""

    def end(self, state: ObjectState) -> None:
        """Ends it: its writes are done."""


class Untraced:
    def reconciliation(self, state: ObjectState) -> AbstractContextManager[object]:
        del state
        return _NOTHING

    def end(self, state: ObjectState) -> None:
        del state


_NOTHING = nullcontext()
UNTRACED = Untraced()

"""Reports the begin of a turn, and its end after the last write, to a tracer. Does nothing without a tracer."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from cronhpa.operator.object_state import ObjectState


class TurnTrace(Protocol):
    """turn: begins an object's turn, which is the current one within the block. end: the turn's writes are done."""

    def turn(self, state: ObjectState) -> AbstractContextManager[object]: ...

    def end(self, state: ObjectState) -> None: ...


class Untraced:
    def turn(self, state: ObjectState) -> AbstractContextManager[object]:
        del state
        return _NOTHING

    def end(self, state: ObjectState) -> None:
        del state


_NOTHING = nullcontext()
UNTRACED = Untraced()

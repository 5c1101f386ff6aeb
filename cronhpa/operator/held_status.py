"""
Statuses around a write: the one that the API holds, the one to be written, and what the API answers.

Thousands of writes wait at a shared edge, so the statuses of a write that waits are packed.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from cronhpa.api.patch import altered, as_answered
from cronhpa.api.turn import Status
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.pods import Meta
from cronhpa.operator.object_state import ObjectState, packed, unpacked


class RenderedStatus:
    """A status to be written. It is packed while the write waits: dicts would take far more memory."""

    __slots__ = ("_packed", "_status")

    def __init__(self, status: Status) -> None:
        self._status: Status | None = status
        self._packed = b""

    def __call__(self) -> Status:
        """The status, which is not to be changed."""
        if self._status is None:
            self._status = unpacked(self._packed)
        return self._status

    def pack(self) -> None:
        """Keeps the packed status alone until the status is asked for."""
        if self._status is not None:
            self._packed, self._status = packed(self._status), None


class HeldStatus:
    """The status that the API is known to hold, decoded once for as long as it is the same."""

    __slots__ = ("_packed", "_status", "state")

    def __init__(self, state: ObjectState) -> None:
        self.state = state
        self._packed: bytes | None = None
        self._status: Status | None = None

    def __call__(self) -> Status:
        """The status, which is not to be changed."""
        self.pin()
        return self.given

    def pin(self) -> None:
        """Takes what the API holds now as the status that is held: a later one of somebody else is theirs to tell."""
        if self._packed is not self.state.packed_status:
            self._packed, self._status = self.state.packed_status, None

    @property
    def packed(self) -> bytes:
        """The packed status that was given or taken over last: another one is somebody else's."""
        return self.state.packed_status if self._packed is None else self._packed

    @property
    def given(self) -> Status:
        """The status of `packed`: what somebody else wrote beside ours is nothing to tell."""
        if self._packed is None:
            self._packed = self.state.packed_status
        if self._status is None:
            self._status = unpacked(self._packed)
        return self._status

    def names(self, count: int) -> bool:
        """Whether a new process would find in this status that this was the count before a step."""
        memory = self().get("memory")
        return isinstance(memory, dict) and memory.get("replicas") == count and not memory.get("intent")

    def pack(self) -> None:
        """Keeps the packed status alone until the status is asked for: many writes wait at a time."""
        self._status = None

    def put(self, status: Status, patch: Status, answered: Status) -> None:
        """Takes over a status that was written by a patch; what somebody else changed meanwhile, from the answer."""
        self.state.status = self._status = status
        self._packed = self.state.packed_status
        self.state.altered |= frozenset(altered(status, patch, answered))
        held = as_answered(status, patch, answered, self.state.altered)
        if held is not status:
            self.state.status = dict(held)


class WrittenStatus(msgspec.Struct):
    """What the API answers to a patch of a status."""

    metadata: Meta = Meta()
    status: dict[str, Any] | None = None

    def check(self, uid: str) -> None:
        """Raises ClusterError for a later object of the name: an API server compares no uid with that of a status."""
        if self.metadata.uid not in {"", uid}:
            raise ClusterError(HTTPStatus.NOT_FOUND, "NotFound", "it is gone, and a later object of its name got it")

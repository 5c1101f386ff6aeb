"""
Statuses around a write: the one that the API holds, the one to be written, and what the API answers.

Thousands of writes wait at a shared edge, so the statuses of a write that waits are kept as texts.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from cronhpa.api.patch import altered, as_answered
from cronhpa.api.turn import Status
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.pods import Meta
from cronhpa.operator.object_state import ObjectState, status_of, text_of


class RenderedStatus:
    """A status to be written. It is kept as its text while the write waits: as dicts it takes several times as much."""

    __slots__ = ("_status", "_text")

    def __init__(self, status: Status) -> None:
        self._status: Status | None = status
        self._text = b""

    def __call__(self) -> Status:
        """The status, which is not to be changed."""
        if self._status is None:
            self._status = status_of(self._text)
        return self._status

    def pack(self) -> None:
        """Keeps the text alone until the status is asked for."""
        if self._status is not None:
            self._text, self._status = text_of(self._status), None


class HeldStatus:
    """The status that the API is known to hold, decoded once for as long as its text is the same."""

    __slots__ = ("_status", "_text", "state")

    def __init__(self, state: ObjectState) -> None:
        self.state = state
        self._text: bytes | None = None
        self._status: Status | None = None

    def __call__(self) -> Status:
        """The status, which is not to be changed."""
        self.pin()
        return self.given

    def pin(self) -> None:
        """Takes what the API holds now as the status that is held: a later one of somebody else is theirs to tell."""
        if self._text is not self.state.status_text:
            self._text, self._status = self.state.status_text, None

    @property
    def text(self) -> bytes:
        """The text of the status that was given or taken over last: another one is somebody else's."""
        return self.state.status_text if self._text is None else self._text

    @property
    def given(self) -> Status:
        """The status of `text`: what somebody else wrote beside ours is nothing to tell."""
        if self._text is None:
            self._text = self.state.status_text
        if self._status is None:
            self._status = status_of(self._text)
        return self._status

    def names(self, count: int) -> bool:
        """Whether a new process would find in this status that this was the count before a step."""
        memory = self().get("memory")
        return isinstance(memory, dict) and memory.get("replicas") == count and not memory.get("intent")

    def pack(self) -> None:
        """Keeps the text alone until the status is asked for: many writes wait at a time."""
        self._status = None

    def put(self, status: Status, patch: Status, answered: Status) -> None:
        """Takes over a status that was written by a patch; what somebody else changed meanwhile, from the answer."""
        self.state.status = self._status = status
        self._text = self.state.status_text
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

"""
Which version of an object is the newer one, also after etcd was restored from a backup.

A store that was restored counts its versions from the backup's on: an object that is known at version 480 exists at 390
again, or changes from there to 410. client-go replaces its store by each list, because a list is a consistent read: it
contains everything that happened before it was requested. Two rules follow:

- A list that is older than anything seen before it was requested comes from a store that was restored. What is known
  from later versions never happened.
- A listed object is the truth, unless the known one was seen after the list was made: in the answer to a write of our
  own, while the list was on its way.

Events are no such proof: a watch of an API server that is behind delivers old ones.
"""

from __future__ import annotations

from msgspec import Raw, Struct, json

from cronhpa.kube.errors import UNREADABLE


class _Meta(Struct, rename="camel", frozen=True):
    resource_version: str = ""


class _Versioned(Struct, frozen=True):
    metadata: _Meta = _Meta()


class SeenVersions:
    """The versions seen of one resource, by lists, events, bookmarks and answers to writes."""

    def __init__(self) -> None:
        self._highest = 0
        self._highest_before_list = 0
        self._listed = 0

    def note(self, version: int) -> None:
        """Notes a version that was seen anywhere."""
        self._highest = max(self._highest, version)

    def begin_list(self) -> None:
        """Call it before a list is requested."""
        self._highest_before_list = self._highest

    def note_list(self, version: int) -> bool:
        """Notes the version of the list that was begun, before its objects; whether the store was restored."""
        self._listed = version
        if version < self._highest_before_list:
            self._highest = version
            return True
        self.note(version)
        return False

    def is_outdated(self, version: int, known: int) -> bool:
        """Whether an object that was delivered by an event, or read alone, is older than the known one."""
        return version < known <= self._highest

    def is_outdated_in_list(self, version: int, known: int) -> bool:
        """Whether a listed object is older than the known one."""
        return self._listed < known and self.is_outdated(version, known)


def version_number(text: str) -> int:
    """A version as a number, comparable by contract since Kubernetes 1.35 and in practice long before; 0 if unknown."""
    return int(text) if text.isdecimal() else 0


def version_of(raw: bytes | Raw) -> int:
    """The version of an object that is not decoded, such as that of a bookmark; 0 if it has none."""
    try:
        return version_number(json.decode(raw, type=_Versioned).metadata.resource_version)
    except UNREADABLE:
        return 0

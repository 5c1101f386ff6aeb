"""
Caches with an owner: what was computed from a value is kept while that value lives, and while there is room for it.

A cache here never changes an answer, only how long it takes. An entry belongs to one object (a window, a spec) and goes
with it. All entries of a cache together weigh at most its bound; above it the oldest go first. What is
looked up by equal text instead, and has no owner, is an `lru_cache` of entries whose size is bounded by their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

K = TypeVar("K")
V = TypeVar("V")


class _Entry(ref[K], Generic[K, V]):
    """The owner, weakly, with what is kept for it."""

    __slots__ = ("key", "value", "weight")

    key: int
    value: V
    weight: int


class OwnedCache(Generic[K, V]):
    """
    bound: how much all entries may weigh, in bytes. dropped(owner) is called for one whose entry had to make room.

    An owner is found by its identity, so equal owners share an entry only where they are one object (see `Interned`).
    Entries are read and written in threads, too: each step is one operation of a dict, which nothing interrupts.
    """

    def __init__(self, bound: int, dropped: Callable[[K], None] | None = None) -> None:
        self.bound = bound
        self.weight = 0
        self._dropped = dropped
        # In the order in which they were put.
        self._entries: dict[int, _Entry[K, V]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, owner: K) -> V | None:
        """What is kept for an owner."""
        entry = self._entries.get(id(owner))
        return entry.value if entry is not None and entry() is owner else None

    def put(self, owner: K, value: V, weight: int) -> None:
        """Keeps a value for an owner, in place of the one before."""
        key = id(owner)
        entry: _Entry[K, V] = _Entry(owner, self._gone)
        entry.key, entry.value, entry.weight = key, value, weight
        self._take_out(key)
        while self._entries.setdefault(key, entry) is not entry:  # another thread has put one meanwhile
            self._take_out(key)
        self.weight += weight
        while self.weight > self.bound and self._entries:
            self._make_room()

    def clear(self) -> None:
        while self._entries:
            self._make_room()

    def _make_room(self) -> None:
        """Drops the entry that was put first."""
        try:
            oldest = self._take_out(next(iter(self._entries)))
        except (StopIteration, RuntimeError):  # another thread was faster
            return
        owner = None if oldest is None else oldest()
        if self._dropped is not None and owner is not None:
            self._dropped(owner)

    def _take_out(self, key: int) -> _Entry[K, V] | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.weight -= entry.weight
        return entry

    def _gone(self, entry: Any) -> None:
        key = entry.key
        # Else one was put in its place.
        if self._entries.get(key) is entry:
            self._take_out(key)


class Interned(Generic[K]):
    """Equal values as one object, the first of them, for as long as somebody has it."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[K, ref[K]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, value: K) -> K:
        known = self._known.get(value)
        first = None if known is None else known()
        if first is not None:
            return first
        self._known[value] = ref(value)
        return value

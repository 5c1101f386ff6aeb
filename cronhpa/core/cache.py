"""
Caches with an owner: a computed value is kept while its owner lives, and while there is room for it.

A cache here never changes a result, only the time to get it. An entry belongs to one object (a window, a spec) and is
deleted with it. The entries of a cache together weigh at most its bound; beyond it the oldest entries are deleted.
Values that are looked up by text have no owner: they are in an `lru_cache`, and their types bound their size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

K = TypeVar("K")
V = TypeVar("V")


class _Entry(ref[K], Generic[K, V]):
    """A weak reference to the owner, with the cached value."""

    __slots__ = ("key", "value", "weight")

    key: int
    value: V
    weight: int


class OwnedCache(Generic[K, V]):
    """
    bound: the largest weight of all entries, in bytes. dropped(owner) is called when the owner's entry makes room.

    Owners are compared by identity, so equal owners share an entry only if they are one object (see `Interned`).
    Threads read and write entries, too: each step is one atomic operation of a dict.
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
        """The cached value of an owner, None if there is none."""
        entry = self._entries.get(id(owner))
        return entry.value if entry is not None and entry() is owner else None

    def put(self, owner: K, value: V, weight: int) -> None:
        """Caches a value for an owner, in place of the former one."""
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
        # Another entry may have taken its place.
        if self._entries.get(key) is entry:
            self._take_out(key)


class Interned(Generic[K]):
    """Replaces each value by the first equal one, as long as that one is referenced."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[K, ref[K]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, value: K) -> K:
        kept = self._known.get(value)
        first = None if kept is None else kept()
        if first is not None:
            return first
        self._known[value] = ref(value)
        return value

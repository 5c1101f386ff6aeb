"""What waits for the store: bounded while that cannot be written, and no namespace costs another one its share."""

from __future__ import annotations

from collections import Counter, deque
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class _OfNamespace(Protocol):
    @property
    def namespace(self) -> str: ...


T = TypeVar("T", bound=_OfNamespace)


class Waiting(Generic[T]):
    """Of more than `most`, counted by `size`, the oldest of the namespace with the most give way."""

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._free = most
        self._size = size
        self._queues: dict[str, deque[T]] = {}
        self._sizes: Counter[str] = Counter()

    def __iter__(self) -> Iterator[T]:
        """Those that wait, namespace by namespace, the oldest of each first."""
        return chain.from_iterable(self._queues.values())

    def add(self, one: T) -> int:
        """How many gave way."""
        self._queue_for(one).append(one)
        return self._bound()

    def put_back(self, taken: Iterable[T]) -> int:
        """As `add`, before all others of their namespaces. taken: the oldest first."""
        for one in reversed(list(taken)):
            self._queue_for(one).appendleft(one)
        return self._bound()

    def take(self, at_most: int) -> list[T]:
        """Removes and returns the first ones."""
        taken = list(islice(self, at_most))
        self.are_stored(taken)
        return taken

    def are_stored(self, batch: Iterable[T]) -> None:
        """The first ones wait no longer. Some of them may have given way since they were read."""
        for one in batch:
            if one.namespace in self._queues and self._queues[one.namespace][0] is one:
                self._remove_oldest(one.namespace)

    def _queue_for(self, one: T) -> deque[T]:
        size = self._size(one)
        self._sizes[one.namespace] += size
        self._free -= size
        return self._queues.setdefault(one.namespace, deque())

    def _bound(self) -> int:
        gone = 0
        while self._free < 0:
            self._remove_oldest(max(self._sizes, key=self._sizes.__getitem__))
            gone += 1
        return gone

    def _remove_oldest(self, namespace: str) -> None:
        queue = self._queues[namespace]
        size = self._size(queue.popleft())
        self._sizes[namespace] -= size
        self._free += size
        if not queue:
            del self._queues[namespace], self._sizes[namespace]

"""
Shards of a cluster: which shard a namespace is in, and which of them a process watches.

A shard is a range of a hash of the namespace.
- By default the hash is BLAKE2b, which spreads any names, and objects in other replicas' shards are discarded here.
- `by_server` it is the 64-bit FNV-1a of `shardSelector` (KEP-5866, alpha in Kubernetes 1.36), by which the API server
  leaves those objects out. A server without the feature ignores the parameter, and no answer has to say whether it was
  applied, so each object's namespace is checked here all the same. Ranges of FNV-1a spread names badly that differ in
  their last characters: team-0 to team-99 are in 2 of 16 ranges.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from http import HTTPStatus

from cronhpa.kube.errors import ClusterError

LOG = logging.getLogger(__name__)

_HASHES = 2**64
_OFFSET_BASIS, _PRIME = 0xCBF29CE484222325, 0x100000001B3
_FIELD = "object.metadata.namespace"


def shard_of(namespace: str, shards: int, *, by_server: bool = False) -> int:
    """The shard of a namespace, from 0 to shards - 1."""
    return (_fnv_1a(namespace) if by_server else _spread(namespace)) * shards // _HASHES


def _spread(namespace: str) -> int:
    return int.from_bytes(blake2b(namespace.encode(), digest_size=8).digest())


def _fnv_1a(namespace: str) -> int:
    hashed = _OFFSET_BASIS
    for byte in namespace.encode():
        hashed = (hashed ^ byte) * _PRIME % _HASHES
    return hashed


def shard_selector(held: Iterable[int], shards: int) -> str:
    """The `shardSelector` of some shards by the server's hash, those side by side as one range; "" for none."""
    ranges: list[tuple[int, int]] = []
    for shard in sorted(held):
        # The smallest hash of a shard: hash * shards // 2^64 == shard from there on.
        begin, end = (-(-number * _HASHES // shards) for number in (shard, shard + 1))
        if ranges and ranges[-1][1] == begin:
            begin = ranges.pop()[0]
        ranges.append((begin, end))
    return " || ".join(f"shardRange({_FIELD}, '0x{begin:016x}', '0x{end:016x}')" for begin, end in ranges)


class ShardScope:
    """
    The namespaces that are watched: those of the shards that are held. With one shard, all of them from the start.

    version: counts the changes of `held`. A list that was begun in a version covers the shards held in that version.
    """

    def __init__(self, shards: int = 1, *, by_server: bool = False) -> None:
        self.shards = shards
        self.by_server = by_server
        self.held = frozenset({0} if shards == 1 else ())
        self.version = 0
        self._changed: list[Callable[[], None]] = []
        self._is_selecting = by_server

    @property
    def is_empty(self) -> bool:
        return not self.held

    @property
    def is_whole(self) -> bool:
        return len(self.held) == self.shards

    def on_change(self, call: Callable[[], None]) -> None:
        """Registers a function that is called after each change."""
        self._changed.append(call)

    def hold(self, held: Iterable[int]) -> int:
        """Watches these shards from now on, and lists them anew even if they are the same. Returns the new version."""
        self.held = frozenset(held)
        self.version += 1
        for call in self._changed:
            call()
        return self.version

    def shard_of(self, namespace: str) -> int:
        return 0 if self.shards == 1 else shard_of(namespace, self.shards, by_server=self.by_server)

    def holds(self, namespace: str) -> bool:
        """Whether a namespace is watched."""
        return self.is_whole or self.shard_of(namespace) in self.held

    def params(self) -> Mapping[str, str]:
        """The query parameters of lists and watches: a server that understands them leaves out what is not watched."""
        if self.is_whole or not self._is_selecting:
            return {}
        return {"shardSelector": shard_selector(self.held, self.shards)}

    def note_refusal(self, error: ClusterError) -> None:
        """Notes a list or a watch that failed: an API server that refuses `params` is not sent them again."""
        if error.status == HTTPStatus.BAD_REQUEST and self.params():
            LOG.warning("the API server refuses shardSelector; what it sends is discarded here: %s", error.message)
            self._is_selecting = False

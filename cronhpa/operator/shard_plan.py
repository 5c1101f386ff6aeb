"""Which shards a replica should take, and which it should give up: a fair share of what all replicas hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple


class ShardPlan(NamedTuple):
    """take: free shards, at most as many as are missing. give: shards of this replica above its share."""

    take: tuple[int, ...] = ()
    give: tuple[int, ...] = ()


def plan(holders: Sequence[str], live: Iterable[str], me: str, leaving: Container[int] = ()) -> ShardPlan:
    """
    The next move of one replica.

    holders: by shard, "" for a free one. live: the replicas that take part. leaving: what this one gives up already.

    With 16 shards and 5 replicas each holds 3, and one of them 4. Who may hold the one more is settled among those that
    do, by their names: so nothing moves without need, and all replicas that see the same agree.
    """
    everyone = {*live, *holders, me} - {""}
    mine = [shard for shard, holder in enumerate(holders) if holder == me and shard not in leaving]
    count = Counter(holders)
    count[me] = len(mine)
    share, left_over = divmod(len(holders), len(everyone))
    above = sorted(who for who in everyone if count[who] > share)
    if me in above[:left_over] or (me not in above and len(above) < left_over):
        share += 1
    missing = max(share - len(mine), 0)
    # Each begins elsewhere: replicas that start together do not ask for the same shards.
    begin = sorted(everyone).index(me) * len(holders) // len(everyone)
    free = [shard for shard, holder in enumerate(holders) if not holder]
    free.sort(key=lambda shard: (shard - begin) % len(holders))
    return ShardPlan(tuple(free[:missing]), tuple(mine[share:]))

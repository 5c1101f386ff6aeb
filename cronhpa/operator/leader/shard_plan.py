"""The shards that a replica should take or release, for a fair share among all replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from cronhpa.operator.leader.election import UNKNOWN


class ShardPlan(NamedTuple):
    """The shards that a replica takes and gives next."""

    take: tuple[int, ...] = ()
    """Free shards, at most as many as the share lacks."""
    give: tuple[int, ...] = ()
    """Shards of this replica above its share."""


def plan(holders: Sequence[str], live: Iterable[str], me: str, leaving: Container[int] = ()) -> ShardPlan:
    """
    The next move of one replica.

    holders: by shard, "" for a free one, UNKNOWN for one that nobody may take yet. live: the live replicas. leaving:
    shards that this replica releases already.

    With 16 shards and 5 replicas each holds 3, and one of them 4. Replicas that hold one more keep it, ordered by name:
    so no shard moves without need, and all replicas with the same view agree.
    """
    everyone = {*live, *holders, me} - {"", UNKNOWN}
    mine = [shard for shard, holder in enumerate(holders) if holder == me and shard not in leaving]
    count = Counter(holders)
    count[me] = len(mine)
    share, left_over = divmod(len(holders), len(everyone))
    above = sorted(who for who in everyone if count[who] > share)
    if me in above[:left_over] or (me not in above and len(above) < left_over):
        share += 1
    missing = max(share - len(mine), 0)
    # Each replica begins at another shard: replicas that start together do not compete for the same shards.
    begin = sorted(everyone).index(me) * len(holders) // len(everyone)
    free = [shard for shard, holder in enumerate(holders) if not holder]
    free.sort(key=lambda shard: (shard - begin) % len(holders))
    return ShardPlan(tuple(free[:missing]), tuple(mine[share:]))

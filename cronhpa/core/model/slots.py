"""The slots of recommendations: a reconciliation overwrites the last slot that is outdated, or appends another one."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from cronhpa.core.model.decision import Recommendation
from cronhpa.core.model.instant import Nanoseconds


def overwritten(
    entries: tuple[Recommendation, ...], window: Nanoseconds, recommendations: Sequence[Recommendation]
) -> tuple[Recommendation, ...]:
    """The slots after some reconciliations, the oldest first. window: the age up to which an entry is not outdated."""
    kept = [*entries]
    if len(recommendations) == 1:
        slot, oldest = len(kept) - 1, recommendations[0].at - window
        while slot >= 0 and kept[slot].at >= oldest:
            slot -= 1
        _put(kept, slot, recommendations[0])
    elif recommendations:
        _put_all(kept, window, recommendations)
    return (*kept,)


def _put_all(kept: list[Recommendation], window: Nanoseconds, recommendations: Sequence[Recommendation]) -> None:
    """
    Puts the recommendations of several reconciliations, one after another.

    Searching all slots at each of hundreds of reconciliations would be slow, so outdated slots are tracked.
    ageing: entries that become outdated meanwhile, the oldest first. outdated: outdated slots, the last one first.
    """
    last = recommendations[-1].at - window
    ageing = [(entry.at, slot) for slot, entry in enumerate(kept) if entry.at < last]
    heapify(ageing)
    outdated: list[int] = []
    for newest in recommendations:
        while ageing and ageing[0][0] < newest.at - window:
            heappush(outdated, -heappop(ageing)[1])
        slot = _put(kept, -heappop(outdated) if outdated else -1, newest)
        if newest.at < last:
            heappush(ageing, (newest.at, slot))


def _put(kept: list[Recommendation], slot: int, newest: Recommendation) -> int:
    """Puts a recommendation and returns its slot. slot: that of an outdated entry, negative if there is none."""
    if slot < 0:
        kept.append(newest)
        return len(kept) - 1
    kept[slot] = newest
    return slot

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
    slots = [*entries]
    if len(recommendations) == 1:
        slot, oldest = len(slots) - 1, recommendations[0].at - window
        while slot >= 0 and slots[slot].at >= oldest:
            slot -= 1
        _put(slots, slot, recommendations[0])
    elif recommendations:
        _put_all(slots, window, recommendations)
    return (*slots,)


def _put_all(slots: list[Recommendation], window: Nanoseconds, recommendations: Sequence[Recommendation]) -> None:
    """
    Puts the recommendations of several reconciliations, one after another.

    Searching all slots at each of hundreds of reconciliations would be slow, so outdated slots are tracked.
    ageing: entries that become outdated meanwhile, the oldest first. outdated: outdated slots, the last one first.
    """
    last = recommendations[-1].at - window
    ageing = [(entry.at, slot) for slot, entry in enumerate(slots) if entry.at < last]
    heapify(ageing)
    outdated: list[int] = []
    for newest in recommendations:
        while ageing and ageing[0][0] < newest.at - window:
            heappush(outdated, -heappop(ageing)[1])
        slot = _put(slots, -heappop(outdated) if outdated else -1, newest)
        if newest.at < last:
            heappush(ageing, (newest.at, slot))


def _put(slots: list[Recommendation], slot: int, newest: Recommendation) -> int:
    """Puts a recommendation and returns its slot. slot: that of an outdated entry, negative if there is none."""
    if slot < 0:
        slots.append(newest)
        return len(slots) - 1
    slots[slot] = newest
    return slot

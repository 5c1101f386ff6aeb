"""cronhpa.core.model.memory: where what is recommended lies, and how much is looked through for it."""

from __future__ import annotations

from cronhpa.core.model.decision import Recommendation
from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.memory import overwritten

HOUR = 3600


class CountedInstant(int):
    """An instant that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        CountedInstant.compared += 1
        return int(self) < other

    def __ge__(self, other: int) -> bool:
        CountedInstant.compared += 1
        return int(self) >= other


def test_no_reconciliation_leaves_the_slots_as_they_are():
    assert (Recommendation(4, 0),) == overwritten((Recommendation(4, 0),), 0, ())


def test_five_minutes_are_put_into_the_slots_of_an_hour_without_a_look_through_all_of_them_for_each():
    """The longest window at the shortest period: 3,601 slots. 300 looks through them would be half a million steps."""
    slots = tuple(Recommendation(4, CountedInstant(second * SECOND)) for second in range(HOUR + 1))
    reconciliations = [
        Recommendation(5, CountedInstant((HOUR + 1 + reconciliation) * SECOND)) for reconciliation in range(300)
    ]
    CountedInstant.compared = 0

    after = overwritten(slots, HOUR * SECOND, reconciliations)

    assert (*reconciliations, *slots[300:]) == after
    assert 3 * len(slots) > CountedInstant.compared

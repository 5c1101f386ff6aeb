"""The instant under which a decision is remembered."""

from __future__ import annotations

from cronhpa.core.instant import Nanoseconds
from cronhpa.operator.delaying_queue import following
from cronhpa.operator.object_state import ObjectState

# What comes within this part of its period belongs to the grid instant that caused it: 1.5 s of a period of 15 s.
LATE = 10


def remembered_at(state: ObjectState, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """
    The instant under which a decision is remembered: the grid instant that caused it, if there is one.

    The period of a rate policy is often a whole number of sync periods. Remembered under the instant at which its
    metrics arrived, a step is a millisecond too young for every next reconciliation whose metrics arrive faster, and
    that one waits a sync period more: half of all steps. The upstream rests between two reconciliations and never does.
    """
    grid = following(state.namespace, period, now) - period
    is_alone = all(event.at < grid for event in (*state.memory.scale_ups, *state.memory.scale_downs))
    return grid if is_alone and now - grid <= period // LATE else now

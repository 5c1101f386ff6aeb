"""The instant under which a decision is remembered."""

from __future__ import annotations

from cronhpa.core.instant import Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.operator.delaying_queue import following

# What comes within this part of its period belongs to the grid instant that caused it: 1.5 s of a period of 15 s.
LATE = 10


def latest(namespace: str, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """The newest grid instant of a namespace's objects with this period."""
    return following(namespace, period, now) - period


def remembered_at(memory: Memory, grid: Nanoseconds, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """
    The instant under which a decision is remembered: the newest grid instant, if it caused the decision.

    The period of a rate policy is often a whole number of sync periods. Remembered under the instant at which its
    metrics arrived, a step is a millisecond too young for every next reconciliation whose metrics arrive faster, and
    that one waits a sync period more: half of all steps. The upstream rests between two reconciliations and never does.
    """
    caused = caused_at(grid, period, now)
    for events in (memory.scale_ups, memory.scale_downs):
        if events and any(event.at >= grid for event in events):
            return now
    return caused


def caused_at(grid: Nanoseconds, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """The newest grid instant, if it caused what is done now; else now."""
    return now if now - grid > period // LATE else grid


def resumed_at(memory: Memory, grid: Nanoseconds, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """
    The instant under which a process remembers its first turn, and the latest one of the process before.

    The period may have been another one, with turns since this grid instant: then the newest recommendation lies on
    another grid, or on none.
    """
    newest = max((entry.at for entry in memory.recommendations), default=grid)
    return now if (grid - newest) % period else remembered_at(memory, grid, period, now)
